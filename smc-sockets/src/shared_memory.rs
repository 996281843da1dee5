//! Whether this process can use shared memory, and with whom.

use std::net::SocketAddr;

use smc_transport_ism::shared::Device;
use smc_transport_ism::shared::pairing::{self, Listeners, MAX_LISTENERS, survey};

/// Whether a connection to an address can use shared memory, as far as that is known before it is
/// made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SharedMemory {
    /// The address is not one of this host's.
    Elsewhere,
    /// No process listens at the address.
    NoListener,
    /// Number of the sockets that listen at the address and are of programs that do not pair: every
    /// connection to the address is TCP.
    Plain(usize),
    /// This process belongs to the user that stands for all users unknown to the kernel (65534,
    /// "nobody"), and pairs with no process.
    UnknownUser(u32),
    /// The name of a listening socket is held by a process of this user, which is not the user of the
    /// socket, or stands for users unknown here.
    ForeignUser(u32),
    /// Number of the sockets that listen at the address: more than a client calls.
    TooMany(usize),
    /// Number of the sockets that listen at the address: the programs of all of them pair.
    Ready(usize),
}

#[allow(non_upper_case_globals)]
impl SharedMemory {
    /// Old name of [`Self::NoListener`].
    #[deprecated(note = "renamed to `NoListener`")]
    pub const NobodyListens: Self = Self::NoListener;
}

impl SharedMemory {
    /// Whether this process can use it at all: it takes memory files and sockets that
    /// Linux has had since 5.1.
    ///
    /// # Errors
    /// What is missing, as part of a sentence.
    pub fn probe() -> Result<(), String> {
        Device::open()
            .map(drop)
            .map_err(|error| format!("its memory cannot be made: {error}"))?;
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        survey(nowhere)
            .map(drop)
            .map_err(|error| format!("the kernel does not list listeners (sock_diag): {error}"))
    }

    /// Finds the sockets that listen at an address, by the rules by which a connection pairs; none
    /// of their processes notices. For the unspecified address they are those of the address that the
    /// kernel connects to in its place.
    ///
    /// # Errors
    /// The operating system's.
    pub fn at(address: SocketAddr) -> std::io::Result<Self> {
        let Some(Listeners {
            all,
            named,
            foreign,
        }) = survey(address)?
        else {
            return Ok(Self::Elsewhere);
        };
        Ok(match (pairing::own_user(), foreign) {
            _ if all == 0 => Self::NoListener,
            (Err(uid), _) => Self::UnknownUser(uid),
            _ if named < all => Self::Plain(all - named),
            (_, Some(uid)) => Self::ForeignUser(uid),
            _ if all > MAX_LISTENERS => Self::TooMany(all),
            _ => Self::Ready(all),
        })
    }
}
