//! What the engine sent, and what its applications saw.

use super::{Came, Channel, Item, Run};
use crate::scripts::capture::Recorded;
use crate::scripts::parsed::{Form, Kind};
use crate::scripts::wire::{Host, Received, Seen, Wire};

impl<B: Wire + Host> Run<'_, B> {
    /// Takes in what the engine sent and what its applications saw.
    pub(super) fn absorb(&mut self) {
        while let Some(received) = self.bench.receive() {
            self.on_received(received);
        }
        while let Some((conn, seen)) = self.bench.seen() {
            self.note(format_args!("app.{conn} saw {seen:?}"));
            match seen {
                Seen::LinkUp(_) | Seen::LinkDown(_) | Seen::GroupDown => {
                    self.group_events.push_back(seen)
                }
                seen => {
                    let at = self.bench.now();
                    self.seen.entry(conn).or_default().push_back((at, seen));
                }
            }
        }
    }

    fn on_received(&mut self, received: Received) {
        match received {
            Received::Tcp { conn, bytes } => {
                self.put_down(Recorded::Tcp {
                    conn,
                    by_engine: true,
                    bytes: bytes.clone(),
                });
                for mut message in self.peer.takes_tcp(conn, &bytes) {
                    let Some(kind) = kind_of_clc(&message) else {
                        self.came(Channel::Tcp(conn), Came::Bytes(message));
                        continue;
                    };
                    self.bench.name_for_script(kind, &mut message);
                    if let Some(link) = self.peer.learns_clc(conn, &message) {
                        self.join(link, kind, &message);
                    }
                    self.came(Channel::Tcp(conn), Came::Message(kind, message));
                }
            }
            Received::Fin { conn } => {
                self.put_down(Recorded::Fin {
                    conn,
                    by_engine: true,
                });
                self.came(Channel::Tcp(conn), Came::Fin);
            }
            Received::Reset { conn } => {
                self.put_down(Recorded::Reset {
                    conn,
                    by_engine: true,
                });
                self.came(Channel::Tcp(conn), Came::Reset);
            }
            Received::Sent { end, mut bytes } => {
                let link = self.peer.channel(end);
                self.put_down(Recorded::Send {
                    link,
                    by_engine: true,
                    bytes: bytes.clone(),
                });
                let kind = kind_of_send(&bytes);
                self.bench.name_for_script(kind, &mut bytes);
                match kind {
                    Kind::Llc(_) => {
                        if let Some(link) = self.peer.learns_llc(link, &bytes) {
                            self.join(link, kind, &bytes);
                        }
                    }
                    _ => {
                        let places = self.peer.announced(link, &bytes);
                        for wrote in self.bench.announced(end, &places) {
                            self.on_received(wrote);
                        }
                    }
                }
                let what = Came::Message(kind, bytes);
                self.came(Channel::Link(link), what);
            }
            Received::Wrote {
                end,
                key,
                address,
                bytes,
            } => {
                let link = self.peer.channel(end);
                self.put_down(Recorded::Write {
                    link,
                    by_engine: true,
                    key,
                    address,
                    bytes: bytes.clone(),
                });
                let what = Came::Write {
                    key,
                    address,
                    bytes,
                };
                self.came(Channel::Link(link), what);
            }
        }
    }

    fn join(&mut self, link: u8, kind: Kind, message: &[u8]) {
        if let Err(why) = self.bench.join(link, kind, message) {
            self.note(format_args!("link {link}: {why}"));
            self.broken = Some(why);
        }
    }

    fn came(&mut self, channel: Channel, what: Came) {
        let ignored = match &what {
            Came::Message(kind, bytes) => self.is_ignored(*kind, bytes),
            _ => false,
        };
        let silently = if ignored { " (ignored)" } else { "" };
        match channel {
            Channel::Tcp(conn) => self.note(format_args!("engine.{conn} > {what}{silently}")),
            Channel::Link(link) => self.note(format_args!("engine@{link} > {what}{silently}")),
        }
        if !ignored {
            let at = self.bench.now();
            let queue = self.queues.entry(channel).or_default();
            queue.push_back(Item { at, what });
        }
    }

    fn is_ignored(&self, kind: Kind, bytes: &[u8]) -> bool {
        let reply = bytes.get(3).is_some_and(|flags| flags & 0x80 != 0);
        self.ignored.iter().any(|pattern| {
            pattern.kind == kind && (!matches!(kind, Kind::Llc(_)) || pattern.reply == reply)
        })
    }

    /// What was sent or seen and no line has asked for.
    pub(super) fn left_over(&self) -> Option<String> {
        let sent = self.queues.iter().find_map(|(channel, queue)| {
            let item = queue.front()?;
            Some(match channel {
                Channel::Tcp(conn) => format!("engine.{conn} > {}", item.what),
                Channel::Link(link) => format!("engine@{link} > {}", item.what),
            })
        });
        let seen = || {
            self.seen.iter().find_map(|(conn, queue)| {
                let (_, seen) = queue.front()?;
                Some(format!("app.{conn} saw {seen:?}"))
            })
        };
        sent.or_else(seen)
    }
}

fn kind_of_clc(message: &[u8]) -> Option<Kind> {
    let [.., last] = message.first_chunk::<4>()?;
    let version = message.get(7)? >> 4;
    let form = match (*last == 0xc4, version) {
        (false, 1) => Form::R1,
        (false, _) => Form::R2,
        (true, 1) => Form::D1,
        (true, _) => Form::D2,
    };
    message.get(4).map(|kind| Kind::Clc(form, *kind))
}

fn kind_of_send(bytes: &[u8]) -> Kind {
    match bytes.first() {
        Some(kind @ ..=0xbf) => Kind::Llc(*kind),
        _ => Kind::Cdc(bytes.len() == 32),
    }
}
