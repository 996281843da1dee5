//! Connections between a listener, the driver and their destination.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Weak};

use super::{Accepted, Listening};
use crate::discovery::OptionNotSent;
use crate::driver::Stage;
use crate::shard::Shard;
use crate::socket::Socket;
use crate::undecided::Ticket;

/// An accepted connection that the driver goes on with: where it goes, and the client's address.
pub(crate) enum HandedOver {
    /// The client of the connection may have called.
    New(Weak<Listening>, TcpStream, SocketAddr),
    /// The client of the connection has not called; the stage is the first one.
    Undecided(Weak<dyn Destination>, Arc<TcpStream>, SocketAddr, Stage),
}

/// What becomes of a connection that was delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delivery {
    /// The program has it, or will.
    Taken,
    /// The program had accepted and closed it: it is to be closed in order, as TCP would be.
    Closed,
    /// Nothing accepts it any more: it is to be reset.
    Refused,
}

/// Where a connection goes once SMC or TCP is chosen: a listener, or a program that has accepted it.
pub(crate) trait Destination: Send + Sync {
    /// The port at which it was accepted.
    fn port(&self) -> u16;

    /// Whether the listener's SYN-ACKs have SMC's TCP option; otherwise why not.
    fn option_sent(&self) -> Result<(), OptionNotSent>;

    /// Delivers the connection.
    fn deliver(&self, accepted: Accepted) -> Delivery;

    /// Notes that the connection has ended before it was decided.
    fn lost(&self) {}

    /// Accepts no further connections while this one is held until others are decided.
    fn hold(&self, _held: bool, _shard: &Shard) {}
}

/// A connection on its way to its destination, which may be gone when it arrives.
pub(crate) struct Arrival {
    /// `None` once it has arrived.
    to: Option<Weak<dyn Destination>>,
    address: SocketAddr,
    /// Place of the connection among the undecided connections; `None` for one that is decided.
    pub(crate) ticket: Option<Ticket>,
}

impl Arrival {
    pub(crate) fn new(
        to: Weak<dyn Destination>,
        address: SocketAddr,
        ticket: Option<Ticket>,
    ) -> Self {
        let to = Some(to);
        Self {
            to,
            address,
            ticket,
        }
    }

    /// The client's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Delivers the connection.
    pub(crate) fn deliver(mut self, socket: Arc<Socket>) -> Delivery {
        let to = self.to.take().and_then(|to| to.upgrade());
        to.map_or(Delivery::Refused, |to| to.deliver((socket, self.address)))
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if let Some(to) = self.to.take().and_then(|to| to.upgrade()) {
            to.lost();
        }
    }
}
