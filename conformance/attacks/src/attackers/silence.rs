//! Connections whose client never decides what carries them: it has been asked to go on, or
//! has promised CLC, and then is silent. New ones come all the time.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::neighbour::{self, Neighbour, kind};

/// How far a client goes before it is silent.
#[expect(dead_code, reason = "what a client holds open is never read")]
enum Held {
    /// A socket that has called.
    Called(TcpStream, OwnedFd),
    /// A socket that has connected.
    Connected(TcpStream),
    /// A socket that has paired.
    Paired(Neighbour),
}

/// Arguments: the victim's address, how many connections to hold at a time, for how many
/// milliseconds at least, and `pair` or `connect`: what the clients do before they are silent.
/// Prints `holding` once it holds so many, and `done` with their whole number, which is greater.
pub(super) fn run(arguments: &[String]) -> io::Result<()> {
    let address = super::address(arguments)?;
    let number = |at: usize| arguments.get(at).and_then(|number| number.parse().ok());
    let (Some(most), Some(time)) = (number(1), number(2)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let most = usize::try_from(most).map_err(io::Error::other)?;
    let pairs = arguments.get(3).is_some_and(|how| how == "pair");
    let begin = Instant::now();
    let mut held = VecDeque::new();
    let mut count = 0_u64;
    while begin.elapsed() < Duration::from_millis(time) || count <= most as u64 {
        let client = match count % 2 {
            _ if !pairs => Held::Connected(TcpStream::connect(address)?),
            // A victim that makes no further channel with this user takes the client for TCP.
            0 => match Neighbour::join(address, 0xa77a_c000 + count) {
                Ok(neighbour) => Held::Paired(neighbour),
                Err(_) => Held::Connected(TcpStream::connect(address)?),
            },
            _ => call(address, count)?,
        };
        held.push_back(client);
        if held.len() > most {
            held.pop_front();
        }
        count += 1;
        if count == most as u64 {
            println!("holding");
        }
    }
    println!("done {count}");
    super::super::roles::await_line("go")
}

/// Calls, connects, and sends nothing, whatever the victim answers.
fn call(address: SocketAddr, gid: u64) -> io::Result<Held> {
    let tcp = neighbour::unconnected(address)?;
    let cookie = rustix::net::sockopt::socket_cookie(&tcp)?;
    let channel = neighbour::call()?;
    neighbour::send(&channel, (kind::ANNOUNCE, [cookie, gid, 0, 0, 0]), None)?;
    rustix::net::connect(&tcp, &address)?;
    Ok(Held::Called(tcp.into(), channel))
}
