//! Applications and RNICs of the engine's host.

use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::connection::Shutdown;
use smc_proto::id::ConnId;
use smc_proto::path::{PathEvent, Paths};
use smc_proto::wire::types::DiagnosisCode;

use super::Direct;
use super::memory::{fill, octets};
use crate::rig::Kind;
use crate::script::rnic;
use crate::scripts::parsed::{AppAct, Data, RnicAct};
use crate::scripts::wire::{Failed, Host, Seen};

/// The bytes of data; so many of a pattern have numbers modulo 251.
pub fn bytes(data: &Data) -> Vec<u8> {
    match data {
        Data::Text(text) => text.clone(),
        Data::Count(count) => (0..*count).map(|at| (at % 251) as u8).collect(),
    }
}

impl Direct {
    fn conn(&self, conn: u8) -> Result<ConnId, Failed> {
        let known = self.conns.get(&conn).copied();
        known.ok_or_else(|| format!("there is no connection {conn}"))
    }

    fn put(&mut self, conn: u8, data: &Data, urgent: bool) -> Result<(), Failed> {
        let (id, bytes) = (self.conn(conn)?, bytes(data));
        let now = self.now;
        let (nic, ism) = (&mut self.adapter.nic, &mut self.ism.device);
        let Some(mut c) = self.endpoint.conn(id) else {
            return Err("the connection is over".to_owned());
        };
        let space = c.send_space().map_or(0, |space| space.len());
        if (space as usize) < bytes.len() {
            return Err(format!("there is room for {space} octets"));
        }
        let done = if urgent {
            if let Some(space) = c.send_space() {
                fill(nic, ism, space.buffer, &space.segments, &bytes);
            }
            c.commit_urgent(now, bytes.len() as u32)
        } else {
            c.write(now, |space| {
                fill(nic, ism, space.buffer, &space.segments, &bytes)
            })
            .map(drop)
        };
        done.map_err(|misuse| format!("the engine refuses: {misuse:?}"))
    }

    fn act(&mut self, conn: u8, act: &AppAct, qpn: Option<u32>) -> Result<(), Failed> {
        let now = self.now;
        match act {
            AppAct::Connect(settings) => {
                let options = self.options_with(settings)?;
                let paths = Paths::new(&self.paths, &self.ism_paths);
                let opened = self.endpoint.connect(now, options, paths);
                let id = opened.map_err(|error| format!("{error:?}"))?;
                self.conns.insert(conn, id);
                self.streams.remove(&conn);
            }
            AppAct::Listen(settings) => {
                let options = self.options_with(settings)?;
                let opened = self.endpoint.listen(now, options);
                let id = opened.map_err(|error| format!("{error:?}"))?;
                self.conns.insert(conn, id);
                self.streams.remove(&conn);
            }
            AppAct::Accept => {
                let id = self.conn(conn)?;
                self.answer(id);
            }
            AppAct::Decline(code) => {
                let (id, code) = (self.conn(conn)?, DiagnosisCode(*code));
                let declined = self.endpoint.decline(now, id, code);
                declined.map_err(|error| format!("{error:?}"))?;
            }
            AppAct::Write(data) => self.put(conn, data, false)?,
            AppAct::Urgent(data) => self.put(conn, data, true)?,
            AppAct::Shutdown => self.with(conn, |c| c.shutdown(now, Shutdown::Write))?,
            AppAct::ShutdownRead => self.with(conn, |c| c.shutdown(now, Shutdown::Read))?,
            AppAct::Close => self.with(conn, |c| c.shutdown(now, Shutdown::Both))?,
            AppAct::Abort => self.with(conn, |c| c.abort(now))?,
            AppAct::DeleteGroup => {
                let group = self.groups.last().copied();
                let group = group.ok_or("there is no group")?;
                self.endpoint.delete_group(now, group);
            }
            AppAct::DeleteLink(number) => {
                let qpn = qpn.ok_or_else(|| format!("no link has number {number}"))?;
                let link = self.link_of(qpn)?;
                self.endpoint.delete_link(now, link);
            }
        }
        Ok(())
    }

    fn with(
        &mut self,
        conn: u8,
        act: impl FnOnce(&mut smc_proto::endpoint::ConnMut<'_>),
    ) -> Result<(), Failed> {
        let id = self.conn(conn)?;
        let mut c = self.endpoint.conn(id).ok_or("the connection is over")?;
        act(&mut c);
        Ok(())
    }

    fn rnic_act(&mut self, act: &RnicAct, qpn: Option<u32>) -> Result<(), Failed> {
        let now = self.now;
        match act {
            RnicAct::Up(number) => {
                let path = self.paths.iter().find(|path| path.device.0 == number - 1);
                let path = path.copied().unwrap_or_else(|| rnic(*number));
                self.endpoint.handle_path(now, PathEvent::PortUp(path));
            }
            RnicAct::Down(number) => {
                let path = rnic(*number);
                let (device, port) = (path.device, path.port);
                let down = PathEvent::PortDown { device, port };
                self.endpoint.handle_path(now, down);
            }
            RnicAct::Removed(number) => {
                let device = rnic(*number).device;
                let removed = PathEvent::DeviceRemoved { device };
                self.endpoint.handle_path(now, removed);
            }
            RnicAct::Refuse(kind, number) => match kind.as_str() {
                "RegisterDmb" => self.ism.refuses = Some("RegisterDmb"),
                "AttachDmb" => self.ism.refuses = Some("AttachDmb"),
                kind => self.adapter.refuse(named(kind)?, *number),
            },
            RnicAct::Hold(kind) => self.adapter.hold = Some(named(kind)?),
            RnicAct::Release => {
                self.adapter.hold = None;
                for command in std::mem::take(&mut self.adapter.held) {
                    let completion = self.adapter.done(&command);
                    self.report(completion);
                    self.pump();
                }
            }
            RnicAct::RefuseHeld => {
                self.adapter.hold = None;
                for command in std::mem::take(&mut self.adapter.held) {
                    let completion = self.adapter.nic.refused(&command);
                    self.report(completion);
                }
            }
            RnicAct::Breaks(number, cause) => {
                let qpn = qpn.ok_or_else(|| format!("no link has number {number}"))?;
                let link = self.link_of(qpn)?;
                let cause = match cause.as_str() {
                    "retries" => LinkFailure::RetriesExhausted,
                    "rnr" => LinkFailure::ReceiverNotReady,
                    "access" => LinkFailure::RemoteAccess,
                    "port" => LinkFailure::PortDown,
                    "other" => LinkFailure::Other,
                    cause => return Err(format!("links do not break because of {cause}")),
                };
                let conn = match cause {
                    LinkFailure::RemoteAccess => self.conns.get(&1).copied(),
                    _ => None,
                };
                let failed = RdmaCompletion::LinkFailed { link, cause, conn };
                self.endpoint.handle_rdma(now, failed);
            }
            RnicAct::EyeCatcher(conn) => {
                let conn = self.conn(*conn)?;
                let damaged = RdmaCompletion::EyeCatcherDamaged { conn };
                self.endpoint.handle_rdma(now, damaged);
            }
        }
        Ok(())
    }
}

fn named(kind: &str) -> Result<Kind, Failed> {
    if kind == "Send" {
        return Ok(Kind::Send);
    }
    let known = Kind::CONTROL.into_iter();
    let mut found = known.filter(|known| known.to_string() == kind);
    found.next().ok_or_else(|| {
        let known: Vec<_> = Kind::CONTROL.iter().map(Kind::to_string).collect();
        format!("one of {}, Send was expected", known.join(", "))
    })
}

impl Host for Direct {
    fn app(&mut self, conn: u8, act: &AppAct, qpn: Option<u32>) -> Result<(), Failed> {
        let done = self.act(conn, act, qpn);
        self.pump();
        done
    }

    fn seen(&mut self) -> Option<(u8, Seen)> {
        self.seen.pop_front()
    }

    fn readable(&mut self, conn: u8) -> u32 {
        let conn = self.conns.get(&conn).copied();
        let spans = conn
            .and_then(|conn| self.endpoint.conn(conn))
            .and_then(|c| c.readable());
        spans.map_or(0, |spans| spans.len())
    }

    fn room(&mut self, conn: u8) -> u32 {
        let conn = self.conns.get(&conn).copied();
        let spans = conn
            .and_then(|conn| self.endpoint.conn(conn))
            .and_then(|c| c.send_space());
        spans.map_or(0, |spans| spans.len())
    }

    fn read(&mut self, conn: u8, count: u32) -> Result<Vec<u8>, Failed> {
        let (id, now) = (self.conn(conn)?, self.now);
        let Some(mut c) = self.endpoint.conn(id) else {
            return Err("the connection is over".to_owned());
        };
        let Some(spans) = c.readable().filter(|spans| spans.len() >= count) else {
            let readable = c.readable().map_or(0, |spans| spans.len());
            return Err(format!("{readable} octets can be read"));
        };
        let (nic, ism) = (&mut self.adapter.nic, &mut self.ism.device);
        let mut bytes = octets(nic, ism, spans.buffer, &spans.segments);
        bytes.truncate(count as usize);
        let consumed = c.consume(now, count);
        consumed.map_err(|misuse| format!("the engine refuses: {misuse:?}"))?;
        self.pump();
        Ok(bytes)
    }

    fn ended(&mut self, conn: u8) -> bool {
        let conn = self.conns.get(&conn).copied();
        conn.and_then(|conn| self.endpoint.conn(conn))
            .is_some_and(|c| c.is_end_of_stream())
    }

    fn urgent(&mut self, conn: u8) -> Option<(u32, u8)> {
        let (id, now) = (self.conns.get(&conn).copied()?, self.now);
        let mut c = self.endpoint.conn(id)?;
        let (before, spans) = c.urgent()?;
        c.take_urgent(now).ok()?;
        let (nic, ism) = (&mut self.adapter.nic, &mut self.ism.device);
        let bytes = octets(nic, ism, spans.buffer, &spans.segments);
        self.pump();
        Some((before, bytes.first().copied()?))
    }

    fn plain(&mut self, conn: u8) -> Vec<u8> {
        let stream = self.streams.entry(conn).or_default();
        std::mem::take(&mut stream.got)
    }

    fn rnic(&mut self, act: &RnicAct, qpn: Option<u32>) -> Result<(), Failed> {
        let done = self.rnic_act(act, qpn);
        self.pump();
        done
    }

    fn run_out(&mut self) -> Result<(), Failed> {
        self.rnic_act(&RnicAct::Release, None)?;
        // A peer over SMC-D is not asked whether it lives: its device reports that it is gone.
        self.vanish();
        self.pump();
        self.run_down()?;
        // Applications that fell back give their TCP connections up.
        let watching: Vec<u8> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.watching)
            .map(|(conn, _)| *conn)
            .collect();
        let now = self.now;
        for conn in watching {
            let _ = self.with(conn, |c| c.abort(now));
        }
        self.pump();
        self.run_down()?;
        self.what_is_left()
    }

    fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    fn inside(&self) -> &[String] {
        &self.inside
    }
}
