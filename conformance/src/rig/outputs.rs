//! What an endpoint wants done, one thing at a time.

use smc_proto::command::{IsmCommand, RdmaCommand, TcpCommand};
use smc_proto::endpoint::Endpoint;
use smc_proto::event::Event;
use smc_proto::id::{ConnId, DeviceId, LinkId, WrId};
use smc_proto::storage::Storage;
use smc_proto::time::Instant;
use smc_proto::wire::clc::MAX_LENGTH;

/// An output of an endpoint.
#[derive(Debug)]
pub enum Output<'a> {
    /// A CLC message of a connection, to be sent over its TCP connection.
    Clc(ConnId, &'a [u8]),
    /// A command for a TCP connection.
    Tcp(ConnId, TcpCommand),
    /// A command for an RNIC.
    Rdma(RdmaCommand),
    /// A command for an ISM device.
    Ism(DeviceId, IsmCommand),
    /// An event.
    Event(Event),
}

/// Polls endpoints.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// RNICs and ISM devices have the handles below this one.
    devices: u8,
    /// Whether CLC messages are left unpolled: TCP takes nothing.
    pub hold_clc: bool,
    bytes: [u8; MAX_LENGTH],
}

impl Outputs {
    /// For endpoints with RNICs and ISM devices whose handles are below `devices`.
    #[must_use]
    pub const fn new(devices: u8) -> Self {
        Self {
            devices,
            hold_clc: false,
            bytes: [0; MAX_LENGTH],
        }
    }

    /// The next output of an endpoint; none once it is idle. CLC messages come first, then
    /// commands for TCP, for RNICs and for ISM devices, and then events.
    ///
    /// # Panics
    /// If a CLC message does not fit into the longest buffer there is.
    #[track_caller]
    pub fn next<S: Storage>(
        &mut self,
        endpoint: &mut Endpoint<S>,
        now: Instant,
    ) -> Option<Output<'_>> {
        if !self.hold_clc {
            let polled = endpoint.poll_clc(now, &mut self.bytes);
            if let Some((conn, length)) = polled.expect("room for any message") {
                return Some(Output::Clc(conn, &self.bytes[..length]));
            }
        }
        if let Some((conn, command)) = endpoint.poll_tcp() {
            return Some(Output::Tcp(conn, command));
        }
        let devices = (0..self.devices).map(DeviceId);
        let mut rnics = devices.clone();
        if let Some(command) = rnics.find_map(|rnic| endpoint.poll_rdma(now, rnic)) {
            return Some(Output::Rdma(command));
        }
        let mut isms = devices.map(|device| (device, endpoint.poll_ism(now, device)));
        if let Some((device, Some(command))) = isms.find(|(_, command)| command.is_some()) {
            return Some(Output::Ism(device, command));
        }
        endpoint.poll_event().map(Output::Event)
    }
}

/// The bytes of an LLC message that a `SendLarge` announced.
///
/// # Errors
/// The engine wrote another length than it announced, or nothing.
pub fn large<S: Storage>(
    endpoint: &mut Endpoint<S>,
    link: LinkId,
    wr_id: WrId,
    length: u32,
) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; length as usize];
    let written = endpoint.emit_llc(link, wr_id, &mut bytes);
    match written == Ok(bytes.len()) {
        true => Ok(bytes),
        false => Err(format!("{length} octets announced, {written:?} written")),
    }
}
