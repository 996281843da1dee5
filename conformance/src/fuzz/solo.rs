//! One endpoint between a hostile peer and a device of any behaviour.
//!
//! After every step the invariants of `Side` hold; in the end the device
//! answers everything, the peer nothing, and whatever happened before, all
//! connections end and nothing is left in the tables.

mod ops;

use std::cell::RefCell;
use std::collections::HashMap;

use smc_proto::command::RdmaCommand;
use smc_proto::endpoint::ConnOptions;
use smc_proto::id::{ConnId, LinkId};
use smc_proto::path::RoceVersion;
use smc_proto::time::Duration;
use smc_proto::wire::clc::{ClcMessage, Subnets};
use smc_proto::wire::types::LinkNumber;

use super::Reader;
use super::attack::{Peer, bytes};
use super::side::Side;
use crate::rig::QpState;
use crate::versions::eid;
use ops::Op;

/// Most steps decoded from one input.
const MAX_OPS: usize = 200;

/// An endpoint and its peer.
#[derive(Clone, Debug)]
pub(super) struct Solo {
    pub(super) side: Side,
    pub(super) peer: Peer,
}

/// A rendezvous from its start: CLC messages, right and wrong, and completions,
/// refusals, timeouts and TCP events between them.
pub fn handshake_ops(data: &[u8]) {
    use Op::*;
    const OPS: &[Op] = &[
        Open,
        Open,
        Answer,
        Answer,
        Clc,
        Clc,
        Clc,
        ClcRaw,
        Llc,
        Llc,
        LlcRaw,
        Cdc,
        Complete,
        Complete,
        Complete,
        Refuse,
        Report,
        Honest,
        Honest,
        Honest,
        Poll,
        Poll,
        Fail,
        Path,
        Tcp,
        Time,
        Time,
        Time,
        Write,
        Close,
        DeleteGroup,
        Stale,
    ];
    run(data, OPS, 0);
}

/// A link group with connections, and LLC and CDC messages of all kinds.
pub fn linkgroup_ops(data: &[u8]) {
    use Op::*;
    const OPS: &[Op] = &[
        Open,
        Open,
        Answer,
        Clc,
        Llc,
        Llc,
        Llc,
        Llc,
        Llc,
        Llc,
        LlcRaw,
        Cdc,
        Cdc,
        Complete,
        Complete,
        Report,
        Honest,
        Honest,
        Honest,
        Honest,
        Poll,
        Poll,
        Fail,
        Path,
        Tcp,
        Time,
        Time,
        Time,
        Write,
        Read,
        Close,
        DeleteGroup,
    ];
    run(data, OPS, 2);
}

/// A device that answers late, refuses, fails, names what is long gone or
/// sends unsolicited answers.
pub fn transport_completions(data: &[u8]) {
    use Op::*;
    const OPS: &[Op] = &[
        Open,
        Answer,
        Llc,
        Cdc,
        Complete,
        Complete,
        Complete,
        Complete,
        Refuse,
        Refuse,
        Report,
        Honest,
        Honest,
        Honest,
        Poll,
        Poll,
        Poll,
        Fail,
        Path,
        Time,
        Time,
        Write,
        Read,
        Close,
        DeleteGroup,
        EyeCatcher,
        Stale,
        Stale,
        Wrong,
        Complete,
        Honest,
        Poll,
    ];
    run(data, OPS, 1);
}

fn run(data: &[u8], ops: &[Op], connections: usize) {
    let mut r = Reader::new(data);
    let (choices, client) = (r.u8(), r.flag());
    let mut solo = Solo::connected(choices, client, connections);
    for _ in 0..MAX_OPS {
        if r.is_empty() {
            break;
        }
        let op = ops[r.below(ops.len())];
        solo.step(op, &mut r);
        solo.side.check_conns();
    }
    solo.wind_down();
}

impl Solo {
    /// An endpoint, client or server of `connections` that were established.
    fn connected(choices: u8, client: bool, connections: usize) -> Self {
        /// What was connected before.
        type Known = HashMap<(u8, bool, usize), Solo>;
        thread_local!(static KNOWN: RefCell<Known> = RefCell::default());
        let choices = match choices {
            0xf0.. => choices,
            // The other bits are ignored.
            _ => choices & 0xf,
        };
        KNOWN.with_borrow_mut(|known| {
            let new = || {
                let mut solo = Self::new(choices);
                for _ in 0..connections {
                    solo.open(client);
                    for _ in 0..10 {
                        solo.honest();
                        solo.side.advance(Duration::from_millis(2));
                    }
                }
                solo
            };
            let known = known.entry((choices, client, connections));
            known.or_insert_with(new).clone()
        })
    }

    pub(super) fn new(choices: u8) -> Self {
        // As Linux has it today; seldom, so that the inputs of before mean what they did.
        let v2 = choices >= 0xf0;
        let mut side = Side::new(1, |config| {
            config.eye_catcher = choices & 1 != 0;
            config.elements_per_rmb = if choices & 2 != 0 { 3 } else { 1 };
            config.tcp_reset_aborts = choices & 4 != 0;
            config.connections_per_group = if choices & 8 != 0 { 2 } else { 255 };
            if v2 {
                config.v2.ueids.push(eid("COMMON")).expect("the first");
                config.connections_per_group = 16;
            }
        });
        if v2 {
            side.path.roce = RoceVersion::V2;
        }
        let peer = Peer::of_version_2(v2);
        Self { side, peer }
    }

    pub(super) fn open(&mut self, client: bool) -> Option<ConnId> {
        let conn = self
            .side
            .open(client, ConnOptions::new(Subnets::default()))?;
        if !client {
            self.side.show(conn, &bytes(&self.peer.proposes()));
        }
        Some(conn)
    }

    /// Whether the endpoint has a link to the queue pair this peer used last.
    fn peer_has_link(&self) -> Option<LinkId> {
        let up = QpState::Rtr..QpState::Error;
        let contract = &self.side.contract;
        contract.newest(|qp| up.contains(&qp.state) && !qp.work)
    }

    /// Every part does the right thing, once.
    pub(super) fn honest(&mut self) {
        self.side.poll(usize::MAX);
        for conn in std::mem::take(&mut self.side.proposed) {
            let paths = [self.side.path];
            let _ = self.side.endpoint.accept(self.side.now, conn, &paths);
            self.side.check();
        }
        while !self.side.pending.is_empty() {
            self.side.complete(0, true);
        }
        while let Some((conn, bytes)) = self.side.clc.pop_front() {
            self.answer_clc(conn, &bytes);
        }
        while let Some(command) = self.side.wire.pop_front() {
            self.execute(&command, true);
        }
        while !self.side.sent.is_empty() {
            self.side.report(0);
        }
    }

    fn answer_clc(&mut self, conn: ConnId, message: &[u8]) {
        let first_contact = self.peer_has_link().is_none();
        if let Some(answer) = self.peer.answer_clc(message, first_contact) {
            self.side.show(conn, &bytes(&answer));
        }
        if let Ok((ClcMessage::Confirm(confirm), _)) = ClcMessage::parse(message)
            && confirm.first_contact
            && let Some(link) = self.peer_has_link()
        {
            let request = self.peer.confirm_link(false, LinkNumber(1));
            self.side.receive(link, &self.peer.encode(&request));
        }
    }

    fn execute(&mut self, command: &RdmaCommand, answer: bool) {
        let (link, wr_id, payload) = match *command {
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => (link, wr_id, payload.to_vec()),
            RdmaCommand::SendLarge { link, wr_id, .. } => {
                let mut large = self.side.large.iter();
                let at = large.position(|(of, _)| *of == (link, wr_id));
                let bytes = at.map(|at| self.side.large.swap_remove(at).1);
                (link, wr_id, bytes.unwrap_or_default())
            }
            _ => return,
        };
        self.side.sent.push((link, wr_id));
        if answer && let Some(answer) = self.peer.answer(&payload) {
            self.side.receive(link, &answer);
        }
    }

    /// Answers everything for the device, and nothing for the peer: all comes to its end.
    pub(super) fn wind_down(&mut self) {
        for id in self.side.conns.iter().map(|c| c.id).collect::<Vec<_>>() {
            if let Some(mut conn) = self.side.endpoint.conn(id) {
                conn.abort(self.side.now);
            }
        }
        for _ in 0..200 {
            self.side.poll(usize::MAX);
            while !self.side.pending.is_empty() {
                self.side.complete(0, true);
            }
            self.side.clc.clear();
            while let Some(command) = self.side.wire.pop_front() {
                self.execute(&command, false);
            }
            while !self.side.sent.is_empty() {
                self.side.report(0);
            }
            if self.side.is_empty() {
                break;
            }
            let by = self.side.until_next().unwrap_or_default();
            self.side.advance(by);
        }
        if self.side.contract.trusted {
            let usage = self.side.endpoint.usage();
            assert!(self.side.is_empty(), "{usage:?} left");
            self.side.contract.check_empty();
            let open = self.side.conns.iter().find(|c| c.end.is_none());
            assert!(open.is_none(), "{open:?} never ended");
        }
    }
}
