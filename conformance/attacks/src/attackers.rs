//! Attacks: each is a function that a process of the attacker's user runs.
//!
//! A new attack is a module here, a line in [`run`], and a module of `tests/attacks`.

mod caller;
mod claimer;
mod deaf;
mod hoarder;
mod mute;
mod offers;
mod silence;
mod squatter;
mod starve;
mod visitor;

use std::io;

/// Runs the attack of this name.
///
/// # Errors
/// The attack's, or [`io::ErrorKind::NotFound`].
pub fn run(name: &str, arguments: &[String]) -> io::Result<()> {
    match name {
        "hoarder" => hoarder::run(arguments),
        "caller" => caller::run(arguments),
        "claimer" => claimer::run(arguments),
        "deaf" => deaf::run(arguments),
        "deaf-server" => deaf::serve(arguments),
        "mute" => mute::run(arguments),
        "offers" => offers::run(arguments),
        "offers-server" => offers::serve(arguments),
        "silence" => silence::run(arguments),
        "squatter" => squatter::run(arguments),
        "starve" => starve::run(arguments),
        "visitor" => visitor::run(arguments),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// The address that is the first argument.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if there is none.
pub fn address(arguments: &[String]) -> io::Result<std::net::SocketAddr> {
    let address = arguments.first().and_then(|address| address.parse().ok());
    address.ok_or(io::ErrorKind::InvalidInput.into())
}

/// The number that is the argument at this place.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if there is none.
fn number(arguments: &[String], at: usize) -> io::Result<u64> {
    let number = arguments.get(at).and_then(|number| number.parse().ok());
    number.ok_or(io::ErrorKind::InvalidInput.into())
}
