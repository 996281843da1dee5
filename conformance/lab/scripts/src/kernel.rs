//! Sockets of the kernel's: AF_SMC.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use conformance::scripts::{RnicAct, Seen, Setting};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, listen, recv,
    send, socket_with, sockopt,
};
use smc_lab::netlink::rdma;
use smc_lab::netlink::smc::{Carried, Smc, sockets};
use smc_live::{Ending, Sockets, Taken, Wanted, all_taken};
use smc_transport_verbs::rdma::RoceDevice;
use smc_transport_verbs::rnic::{QueuePairSpec, Rnic};

/// `AF_SMC`; with protocol 0 its connections are of IPv4.
const AF_SMC: AddressFamily = AddressFamily::from_raw(43);
/// The device of a second RNIC, and the interface that it is on.
const SECOND: (&str, &str) = ("rxe1", "eth1");
/// Queue pairs by which its numbers are ahead of the first one's: more than all scripts use.
const AHEAD: u32 = 1000;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;
/// How long it may take until nothing is left: the longest timer of a rendezvous is 6 s.
const TIMEOUT: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(20);
/// Reason of an end that fell back because the peer declined.
const PEER_DECLINED: u32 = 0x0500_0000;
/// How often the kernel is asked about a socket that it does not report.
const VIEWS: usize = 20;

/// A second RNIC comes, if so many are wanted.
pub(crate) fn second_rnic(wanted: u8) -> io::Result<()> {
    let devices = std::fs::read_dir("/sys/class/infiniband")?.count();
    if devices >= usize::from(wanted) {
        return Ok(());
    }
    rdma::add(SECOND.0, SECOND.1)?;
    // Both count from the same number, and scripts know the kernel's links by theirs.
    let rnic = RoceDevice::open(SECOND.0).map_err(io::Error::other)?;
    let spec = QueuePairSpec {
        token: 0,
        port: 1,
        gid_index: 0,
        inline: 0,
    };
    for _ in 0..AHEAD {
        drop(rnic.create_queue_pair(&spec).map_err(io::Error::other)?);
    }
    Ok(())
}

fn no_stream() -> io::Error {
    io::Error::other("the application has no stream")
}

/// An application's connection.
enum App {
    Coming,
    Connecting(TcpStream),
    Open(TcpStream),
    /// The connection failed.
    Failed,
    Closed,
}

/// Sockets of this machine's kernel.
pub(crate) struct KernelSockets {
    address: SocketAddrV4,
    buffer: Option<u32>,
    listener: Option<TcpListener>,
    coming: BTreeMap<SocketAddr, u8>,
    apps: BTreeMap<u8, App>,
    taken: Taken,
    /// Queue pairs there were before.
    before: u64,
}

impl KernelSockets {
    /// Whether kernels have a setting.
    pub(crate) fn takes(setting: &Setting) -> bool {
        matches!(setting.name.as_str(), "receive_buffer" | "eid")
    }

    /// The kernel as a script wants it, with sockets at this address.
    pub(crate) fn new(address: SocketAddrV4, wanted: &Wanted, v2: bool) -> io::Result<Self> {
        let smc = Smc::open()?;
        let eids = match v2 {
            true => wanted.eids.clone(),
            false => Vec::new(),
        };
        if smc.ueids()? != eids {
            smc.flush_ueids()?;
            for eid in &eids {
                smc.add_ueid(eid)?;
            }
        }
        Ok(Self {
            address,
            buffer: wanted.receive_buffer,
            listener: None,
            coming: BTreeMap::new(),
            apps: BTreeMap::new(),
            taken: Taken::default(),
            before: rdma::resources()?.queue_pairs,
        })
    }

    fn socket(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AF_SMC, SocketType::STREAM, flags, None)?;
        if let Some(bytes) = self.buffer {
            sockopt::set_socket_recv_buffer_size(&socket, bytes as usize)?;
        }
        Ok(socket)
    }

    fn open(&self, conn: u8) -> io::Result<&TcpStream> {
        match self.apps.get(&conn) {
            Some(App::Open(stream)) => Ok(stream),
            _ => Err(no_stream()),
        }
    }

    /// Returns what the kernel reports of a new connection.
    fn opened(&mut self, conn: u8, stream: TcpStream) -> Option<(u8, Seen)> {
        let carried = carried(&stream);
        self.apps.insert(conn, App::Open(stream));
        let seen = match carried {
            Ok(Carried::SmcR) => Seen::Established,
            // Of a peer that declined it reports the code, and be it 0.
            Ok(Carried::Tcp(code, peer)) => {
                Seen::FellBack(code, (code == PEER_DECLINED || peer != 0).then_some(peer))
            }
            Ok(Carried::SmcD) => Seen::Closed("carried by something else".to_owned()),
            Err(error) => Seen::Closed(error.to_string()),
        };
        Some((conn, seen))
    }

    fn accepted(&mut self) -> Option<(u8, Seen)> {
        let (stream, from) = self.listener.as_ref()?.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        let conn = self.coming.remove(&from)?;
        self.opened(conn, stream)
    }
}

/// What carries a connection. While others come and go a dump may miss one.
fn carried(stream: &TcpStream) -> io::Result<Carried> {
    let inode = rustix::fs::fstat(stream)?.st_ino;
    for _ in 0..VIEWS {
        let found = sockets()?.into_iter().find(|view| view.inode == inode);
        if let Some(view) = found {
            return Ok(view.carried);
        }
        thread::sleep(PAUSE);
    }
    Err(io::Error::other("the kernel does not report the socket"))
}

/// What a socket is ready for; none of it waits.
fn ready(stream: &TcpStream) -> PollFlags {
    let mut fds = [PollFd::new(
        stream,
        PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP,
    )];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(_) => fds.first().map_or(PollFlags::empty(), PollFd::revents),
        Err(_) => PollFlags::ERR,
    }
}

fn waiting(stream: &TcpStream) -> usize {
    let count = rustix::io::ioctl_fionread(stream).unwrap_or(0);
    usize::try_from(count).unwrap_or(usize::MAX)
}

impl Sockets for KernelSockets {
    fn listens(&mut self) -> io::Result<SocketAddr> {
        if self.listener.is_none() {
            let socket = self.socket()?;
            let any = SocketAddrV4::new(*self.address.ip(), 0);
            bind(&socket, &any)?;
            listen(&socket, BACKLOG)?;
            self.listener = Some(socket.into());
        }
        let listener = self.listener.as_ref();
        listener.ok_or(ErrorKind::NotConnected)?.local_addr()
    }

    fn comes(&mut self, conn: u8, from: SocketAddr) {
        self.coming.insert(from, conn);
        self.apps.insert(conn, App::Coming);
    }

    fn connect(&mut self, conn: u8, to: SocketAddr) -> io::Result<()> {
        let socket = self.socket()?;
        match connect(&socket, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        self.apps.insert(conn, App::Connecting(socket.into()));
        Ok(())
    }

    fn step(&mut self) -> Option<(u8, Seen)> {
        let mut finished = None;
        for (conn, app) in &mut self.apps {
            let App::Connecting(stream) = app else {
                continue;
            };
            let ready = ready(stream);
            if ready.intersects(PollFlags::ERR | PollFlags::HUP) {
                *app = App::Failed;
            } else if ready.contains(PollFlags::OUT) {
                finished = Some((*conn, stream.try_clone().ok()?));
                break;
            }
        }
        match finished {
            Some((conn, stream)) => self.opened(conn, stream),
            None => self.accepted(),
        }
    }

    fn write(&mut self, conn: u8, bytes: &[u8], urgent: bool) -> io::Result<()> {
        let mut stream = self.open(conn)?;
        let written = match urgent {
            true => send(stream, bytes, SendFlags::OOB)?,
            false => stream.write(bytes)?,
        };
        all_taken(written, bytes)
    }

    fn read(&mut self, conn: u8, count: usize) -> io::Result<Vec<u8>> {
        let readable = self.readable(conn);
        let Some(App::Open(stream)) = self.apps.get(&conn) else {
            return Err(no_stream());
        };
        self.taken.read(conn, count, readable, stream)
    }

    fn readable(&mut self, conn: u8) -> usize {
        self.open(conn).map_or(0, waiting)
    }

    fn ended(&mut self, conn: u8) -> bool {
        self.open(conn).is_ok_and(|stream| {
            let ready = ready(stream);
            ready.contains(PollFlags::RDHUP)
                && !ready.contains(PollFlags::ERR)
                && waiting(stream) == 0
        })
    }

    fn urgent(&mut self, conn: u8) -> Option<u8> {
        let before = self.readable(conn);
        let mut byte = [0];
        let (count, _) = recv(self.open(conn).ok()?, &mut byte[..], RecvFlags::OOB).ok()?;
        let [byte] = byte;
        (count == 1).then(|| {
            self.taken.note(conn, before, byte);
            byte
        })
    }

    fn plain(&mut self, conn: u8) -> Vec<u8> {
        let mut bytes = vec![0; 65_536];
        let read = self
            .open(conn)
            .and_then(|mut stream| stream.read(&mut bytes));
        bytes.truncate(read.unwrap_or(0));
        bytes
    }

    fn end(&mut self, conn: u8, how: Ending) -> io::Result<()> {
        match how {
            Ending::Write => self.open(conn)?.shutdown(Shutdown::Write)?,
            Ending::Read => self.open(conn)?.shutdown(Shutdown::Read)?,
            Ending::Abort => return Err(ErrorKind::Unsupported.into()),
            Ending::Close => {
                self.apps.insert(conn, App::Closed);
            }
        }
        Ok(())
    }

    fn has_ended(&mut self, conn: u8, in_order: bool) -> bool {
        match self.apps.get(&conn) {
            // A server's application was never notified of it.
            None | Some(App::Coming | App::Closed | App::Failed) => true,
            Some(App::Connecting(_)) => false,
            Some(App::Open(stream)) => {
                let ready = ready(stream);
                let error = ready.contains(PollFlags::ERR);
                let over = ready.intersects(PollFlags::RDHUP | PollFlags::HUP);
                (over && waiting(stream) == 0 && !error) || (error && !in_order)
            }
        }
    }

    fn rnic(&mut self, act: &RnicAct, _: Option<u32>) -> Result<(), String> {
        Err(format!("a kernel's RNICs do no {act:?}"))
    }

    fn leave(&mut self) {
        for app in self.apps.values() {
            if let App::Open(stream) | App::Connecting(stream) = app {
                // Else it may wait for what is never read.
                let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
            }
        }
        self.apps.clear();
        self.listener = None;
    }

    fn run_out(&mut self) -> Result<(), String> {
        self.leave();
        let until = Instant::now() + TIMEOUT;
        loop {
            let left = rdma::resources().map_err(|error| error.to_string())?;
            if left.queue_pairs <= self.before {
                return Ok(());
            }
            if Instant::now() > until {
                let more = left.queue_pairs - self.before;
                let groups = Smc::open().and_then(|smc| smc.counts());
                let groups = groups.map_or(0, |counts| counts.link_groups.len());
                return Err(format!(
                    "{more} queue pairs and {groups} link groups are left"
                ));
            }
            thread::sleep(PAUSE);
        }
    }
}
