//! Whether this process can use shared memory, and with whom.

use std::net::SocketAddr;

use smc_transport_ism::shared::Device;
use smc_transport_ism::shared::pairing::{self, Listeners, MAX_LISTENERS, survey};

/// What can be said of shared memory before a connection is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SharedMemory {
    /// The address is not one of this host's.
    Elsewhere,
    /// There is no listener.
    NoListener,
    /// So many of those who listen there cannot be paired with, and so all are plain TCP.
    Plain(usize),
    /// The process belongs to the user of those unknown to the kernel (65534,
    /// "nobody"), and pairs with no process.
    UnknownUser(u32),
    /// A listener is called at a name that a process of this user holds, to which it does
    /// not belong, or that stands for users unknown here.
    ForeignUser(u32),
    /// More sockets listen there than a client calls.
    TooMany(usize),
    /// All who listen there can be paired with.
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

    /// Sockets that listen at an address, by the rules by which a connection pairs; none
    /// of their processes notices.
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
