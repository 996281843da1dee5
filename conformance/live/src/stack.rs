//! Our own stack, as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::time::Duration;

use conformance::scripts::{RnicAct, Seen, Setting};
use smc_proto::wire::types::Eid;
use smc_sockets::{Carrier, Connecting, Settings, SmcListener, SmcStream, Stack};

use crate::sockets::{Ending, Sockets};
use crate::taken::{Taken, all_taken};
use crate::wanted::Wanted;

/// How long the end of everything may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// RNICs of a stack under test, as its bench sees them.
pub trait Below: Send {
    /// The RNICs do what `act` says; `qpn` is the queue pair of a link that breaks.
    ///
    /// # Errors
    /// The RNICs cannot be made to do it.
    fn act(&mut self, act: &RnicAct, qpn: Option<u32>) -> Result<(), String>;

    /// Regions and queue pairs of the stack that are left when it has ended.
    fn left(&mut self) -> (usize, usize);
}

/// Sockets of a stack of our own.
pub struct OurSockets {
    stack: Option<Stack>,
    address: Ipv4Addr,
    listener: Option<SmcListener>,
    coming: BTreeMap<SocketAddr, u8>,
    apps: BTreeMap<u8, App>,
    /// Connections whose reset was reported while there was still something to read.
    reset: BTreeSet<u8>,
    taken: Taken,
    below: Box<dyn Below>,
}

fn no_stream() -> io::Error {
    io::Error::other("the application has no stream")
}

/// An application's connection.
enum App {
    Coming,
    Connecting(Box<Connecting>),
    Open(SmcStream),
    /// The connection failed.
    Failed,
    Closed,
}

impl OurSockets {
    /// Whether a stack can be set up like this.
    #[must_use]
    pub fn takes(setting: &Setting) -> bool {
        matches!(setting.name.as_str(), "receive_buffer" | "ports" | "eid")
    }

    /// What a stack is set up with that a script wants like this.
    ///
    /// # Errors
    /// An EID is none.
    pub fn settings(wanted: &Wanted) -> io::Result<Settings> {
        let mut settings = Settings::default();
        settings.buffer = Some(wanted.receive_buffer.unwrap_or(64 << 10));
        for eid in &wanted.eids {
            let eid = Eid::user(eid).map_err(io::Error::other)?;
            settings.policy.ueids.push(eid);
        }
        Ok(settings)
    }

    /// Of a stack that listens at this address, over these RNICs.
    #[must_use]
    pub fn of(stack: Stack, address: Ipv4Addr, below: Box<dyn Below>) -> Self {
        Self {
            stack: Some(stack),
            address,
            listener: None,
            coming: BTreeMap::new(),
            apps: BTreeMap::new(),
            reset: BTreeSet::new(),
            taken: Taken::default(),
            below,
        }
    }

    fn stack(&self) -> io::Result<&Stack> {
        self.stack.as_ref().ok_or(ErrorKind::NotConnected.into())
    }

    fn open(&mut self, conn: u8) -> io::Result<&mut SmcStream> {
        match self.apps.get_mut(&conn) {
            Some(App::Open(stream)) => Ok(stream),
            _ => Err(no_stream()),
        }
    }

    fn opened(&mut self, conn: u8, stream: SmcStream) -> Option<(u8, Seen)> {
        let seen = match stream.carrier() {
            Carrier::Smc(_) => Seen::Established,
            Carrier::Tcp(why) => {
                let reason = why.reason();
                Seen::FellBack(reason.code.0, reason.peer_diagnosis.map(|code| code.0))
            }
            _ => Seen::Closed("carried by something else".to_owned()),
        };
        let known = stream.set_nonblocking(true);
        self.apps.insert(conn, App::Open(stream));
        known.ok().map(|()| (conn, seen))
    }

    fn accepted(&mut self) -> Option<(u8, Seen)> {
        let (stream, from) = self.listener.as_ref()?.accept().ok()?;
        let conn = self.coming.remove(&from)?;
        self.opened(conn, stream)
    }
}

impl Sockets for OurSockets {
    fn listens(&mut self) -> io::Result<SocketAddr> {
        if self.listener.is_none() {
            let listener = SmcListener::bind_on(self.stack()?, (self.address, 0))?;
            listener.set_nonblocking(true)?;
            self.listener = Some(listener);
        }
        let listener = self.listener.as_ref();
        listener.ok_or(ErrorKind::NotConnected)?.local_addr()
    }

    fn comes(&mut self, conn: u8, from: SocketAddr) {
        self.coming.insert(from, conn);
        self.apps.insert(conn, App::Coming);
    }

    fn connect(&mut self, conn: u8, to: SocketAddr) -> io::Result<()> {
        let connecting = SmcStream::begin_connect(self.stack()?, to)?;
        self.apps
            .insert(conn, App::Connecting(Box::new(connecting)));
        Ok(())
    }

    fn step(&mut self) -> Option<(u8, Seen)> {
        let mut finished = None;
        for (conn, app) in &mut self.apps {
            let App::Connecting(connecting) = app else {
                continue;
            };
            match connecting.finish() {
                Ok(stream) => {
                    finished = Some((*conn, stream));
                    break;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => *app = App::Failed,
            }
        }
        match finished {
            Some((conn, stream)) => self.opened(conn, stream),
            None => self.accepted(),
        }
    }

    fn write(&mut self, conn: u8, bytes: &[u8], urgent: bool) -> io::Result<()> {
        let stream = self.open(conn)?;
        let written = if urgent {
            stream.send_urgent(bytes)?
        } else {
            stream.write(bytes)?
        };
        all_taken(written, bytes)
    }

    fn read(&mut self, conn: u8, count: usize) -> io::Result<Vec<u8>> {
        let readable = self.readable(conn);
        let Some(App::Open(stream)) = self.apps.get_mut(&conn) else {
            return Err(no_stream());
        };
        self.taken.read(conn, count, readable, stream)
    }

    fn readable(&mut self, conn: u8) -> usize {
        let mut bytes = vec![0; 1 << 20];
        let stream = self.open(conn);
        stream
            .and_then(|stream| stream.peek(&mut bytes))
            .unwrap_or(0)
    }

    fn ended(&mut self, conn: u8) -> bool {
        let stream = self.open(conn);
        matches!(stream.map(|stream| stream.peek(&mut [0])), Ok(Ok(0)))
    }

    fn urgent(&mut self, conn: u8) -> Option<u8> {
        let before = self.readable(conn);
        let byte = self.open(conn).ok()?.receive_urgent().ok()?;
        self.taken.note(conn, before, byte);
        Some(byte)
    }

    fn plain(&mut self, conn: u8) -> Vec<u8> {
        let mut bytes = vec![0; 65_536];
        let stream = self.open(conn);
        let length = stream.and_then(|stream| stream.read(&mut bytes));
        bytes.truncate(length.unwrap_or(0));
        bytes
    }

    fn end(&mut self, conn: u8, how: Ending) -> io::Result<()> {
        match how {
            Ending::Write => self.open(conn)?.shutdown(Shutdown::Write)?,
            Ending::Read => self.open(conn)?.shutdown(Shutdown::Read)?,
            Ending::Abort => {
                if let Ok(stream) = self.open(conn) {
                    stream.set_linger(Some(Duration::ZERO))?;
                }
            }
            Ending::Close => {}
        }
        if matches!(how, Ending::Close | Ending::Abort) {
            self.apps.insert(conn, App::Closed);
        }
        Ok(())
    }

    fn has_ended(&mut self, conn: u8, in_order: bool) -> bool {
        match self.apps.get_mut(&conn) {
            // A server's application was never notified of it.
            None | Some(App::Coming | App::Closed | App::Failed) => true,
            Some(App::Connecting(_)) => false,
            Some(App::Open(stream)) => match stream.peek(&mut [0]) {
                Ok(0) => true,
                // Bytes that arrived before a reset stay readable, and the error is reported once.
                Ok(_) => {
                    if matches!(stream.take_error(), Ok(Some(_))) {
                        self.reset.insert(conn);
                    }
                    !in_order && self.reset.contains(&conn)
                }
                Err(error) => !in_order && error.kind() != ErrorKind::WouldBlock,
            },
        }
    }

    fn rnic(&mut self, act: &RnicAct, qpn: Option<u32>) -> Result<(), String> {
        self.below.act(act, qpn)
    }

    fn leave(&mut self) {
        self.apps.clear();
        self.listener = None;
    }

    fn run_out(&mut self) -> Result<(), String> {
        self.leave();
        let ended = self.stack.take().is_none_or(|stack| stack.end(TIMEOUT));
        let left = self.below.left();
        match (ended, left) {
            (true, (0, 0)) => Ok(()),
            (ended, (regions, pairs)) => Err(format!(
                "{regions} regions and {pairs} queue pairs are left; whether the stack ended: {ended}"
            )),
        }
    }
}
