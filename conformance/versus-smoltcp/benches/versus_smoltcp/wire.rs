//! Two queues of packets between two smoltcp interfaces. Memory of packets is
//! used again and never cleared, which is less work than smoltcp's loopback does.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use smoltcp::phy::{self, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// MTU of smoltcp's loopback device.
const MTU: usize = 65_535;

/// Whether smoltcp computes checksums of packets that never leave memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Checksums {
    /// Computed, the default.
    Computed,
    /// Left to a device with offload.
    Ignored,
}

struct Packet {
    memory: Box<[u8; MTU]>,
    length: usize,
}

type Packets = Rc<RefCell<VecDeque<Packet>>>;

/// One end.
pub(crate) struct Wire {
    incoming: Packets,
    outgoing: Packets,
    spare: Packets,
    checksums: Checksums,
}

/// Two ends that are joined.
pub(crate) fn wires(checksums: Checksums) -> [Wire; 2] {
    let (to_a, to_b, spare) = (Packets::default(), Packets::default(), Packets::default());
    let wire = |incoming: &Packets, outgoing: &Packets| Wire {
        incoming: incoming.clone(),
        outgoing: outgoing.clone(),
        spare: spare.clone(),
        checksums,
    };
    [wire(&to_a, &to_b), wire(&to_b, &to_a)]
}

impl phy::Device for Wire {
    type RxToken<'a> = RxToken<'a>;
    type TxToken<'a> = TxToken<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        if self.checksums == Checksums::Ignored {
            capabilities.checksum = ChecksumCapabilities::ignored();
        }
        capabilities
    }

    fn receive(&mut self, _: Instant) -> Option<(RxToken<'_>, TxToken<'_>)> {
        let packet = self.incoming.borrow_mut().pop_front()?;
        let spare = &self.spare;
        Some((RxToken { packet, spare }, self.tx_token()))
    }

    fn transmit(&mut self, _: Instant) -> Option<TxToken<'_>> {
        Some(self.tx_token())
    }
}

impl Wire {
    fn tx_token(&self) -> TxToken<'_> {
        TxToken {
            outgoing: &self.outgoing,
            spare: &self.spare,
        }
    }
}

pub(crate) struct RxToken<'a> {
    packet: Packet,
    spare: &'a Packets,
}

impl phy::RxToken for RxToken<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let result = f(&self.packet.memory[..self.packet.length]);
        self.spare.borrow_mut().push_back(self.packet);
        result
    }
}

pub(crate) struct TxToken<'a> {
    outgoing: &'a Packets,
    spare: &'a Packets,
}

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        // The one used last is the one still in the cache.
        let memory = match self.spare.borrow_mut().pop_back() {
            Some(packet) => packet.memory,
            None => Box::new([0; MTU]),
        };
        let mut packet = Packet { memory, length };
        let result = f(&mut packet.memory[..length]);
        self.outgoing.borrow_mut().push_back(packet);
        result
    }
}
