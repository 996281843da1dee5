//! A rendezvous by hand: CLC messages that our sockets never send, for the answers of a kernel.
//! Then TCP carries the conversation.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept, bind, connect, listen, socket_with, sockopt,
};
use smc_lab::conversation::{self, Conversation};
use smc_lab::netlink::smc::{Carried, SocketView};
use smc_lab::orders::{HandMessage, Held, Role, Session};
use smc_lab::scenarios::reason;
use smc_proto::wire::clc::{
    ClcHeader, ClcMessage, ClcVersion, Decline, HEADER_LENGTH, OfferedPath, Proposal,
    SmcdAcceptConfirm, SmcdAcceptConfirmV2, Subnets, V2Offer,
};
use smc_proto::wire::types::{BufferSize, DiagnosisCode, DmbToken, Gid, Mac, PeerId, PeerOs};
use smc_sockets::tcp_option::Marks;

use crate::setup;

/// The identity of an end that has no link group, and will have none.
const IDENTITY: PeerId = PeerId([0, 0x85, 2, 0, 0, 0, 0, 0x85]);

/// The connection of a session, with a hand-made message for a rendezvous.
pub(crate) fn hold(
    session: &Session,
    message: HandMessage,
    listening: impl FnOnce() -> io::Result<()>,
) -> io::Result<Held> {
    let marks = setup::marks()?;
    let stream = match session.role {
        Role::Client => connected(session, &marks)?,
        Role::Server => accepted(session, &marks, listening)?,
    };
    let timeout = Duration::from_millis(session.timeout);
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    if !marks.verdict(&stream)? {
        return Err(io::Error::other("the peer's SYN has no SMC option"));
    }
    let carried = rendezvous(&stream, message, session.v1)?;
    let view = SocketView {
        inode: 0,
        state: 0,
        carried,
        link: None,
    };
    let began = Instant::now();
    let plain = Plain(stream);
    let outcome = conversation::hold(&plain, session.role, &session.steps, timeout);
    Ok(Held::new(Some(view), outcome, began))
}

fn open(marks: &Marks) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    marks.opt_in(&socket)?;
    Ok(socket)
}

fn connected(session: &Session, marks: &Marks) -> io::Result<TcpStream> {
    let socket = open(marks)?;
    connect(&socket, &SocketAddrV4::new(session.address, session.port))?;
    Ok(socket.into())
}

fn accepted(
    session: &Session,
    marks: &Marks,
    listening: impl FnOnce() -> io::Result<()>,
) -> io::Result<TcpStream> {
    let socket = open(marks)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, session.port));
    bind(&socket, &any)?;
    listen(&socket, 1)?;
    listening()?;
    let timeout = Duration::from_millis(session.timeout);
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout))? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(accept(&socket)?.into()),
    }
}

/// Sends the message; returns why TCP carries the connection then.
fn rendezvous(stream: &TcpStream, message: HandMessage, v1: bool) -> io::Result<Carried> {
    match message {
        HandMessage::NoEid => send(stream, &without_eid())?,
        HandMessage::OtherMode => {
            receive_proposal(stream)?;
            send(stream, &of_shared_memory(v1))?;
        }
        HandMessage::Decline(code) => {
            receive_proposal(stream)?;
            send(stream, &decline(code, v1))?;
            return Ok(Carried::Tcp(code, 0));
        }
    }
    match receive(stream)? {
        ClcMessage::Decline(decline) => {
            Ok(Carried::Tcp(reason::PEER_DECLINED, decline.diagnosis.0))
        }
        other => Err(io::Error::other(format!("no Decline, but {other}"))),
    }
}

/// SMC-R in version 2, and no EID that could be in common.
fn without_eid() -> ClcMessage {
    ClcMessage::Proposal(Proposal {
        version: ClcVersion::V2,
        v1: OfferedPath::Neither,
        peer_id: IDENTITY,
        gid: Gid::default(),
        mac: Mac::default(),
        ism: None,
        subnets: Subnets::default(),
        v2_offer: Some(V2Offer::default()),
    })
}

/// SMC-D, which was not offered here.
fn of_shared_memory(v1: bool) -> ClcMessage {
    ClcMessage::SmcdAccept(SmcdAcceptConfirm {
        first_contact: false,
        gid: 1,
        token: DmbToken(1),
        dmbe_index: 0,
        buffer_size: BufferSize::K64,
        link_id: [0; 4],
        v2: (!v1).then(SmcdAcceptConfirmV2::default),
    })
}

fn decline(code: u32, v1: bool) -> ClcMessage {
    ClcMessage::Decline(Decline {
        version: if v1 { ClcVersion::V1 } else { ClcVersion::V2 },
        out_of_sync: false,
        peer_id: IDENTITY,
        diagnosis: DiagnosisCode(code),
        os: PeerOs(0),
    })
}

fn send(mut stream: &TcpStream, message: &ClcMessage) -> io::Result<()> {
    let mut bytes = vec![0; message.encoded_len()];
    message.emit(&mut bytes).map_err(io::Error::other)?;
    stream.write_all(&bytes)
}

fn receive(mut stream: &TcpStream) -> io::Result<ClcMessage> {
    let mut bytes = vec![0; HEADER_LENGTH];
    stream.read_exact(&mut bytes)?;
    let header = ClcHeader::parse(&bytes).map_err(io::Error::other)?;
    bytes.resize(usize::from(header.length), 0);
    let rest = bytes.get_mut(HEADER_LENGTH..).unwrap_or_default();
    stream.read_exact(rest)?;
    let (message, _) = ClcMessage::parse(&bytes).map_err(io::Error::other)?;
    Ok(message)
}

fn receive_proposal(stream: &TcpStream) -> io::Result<()> {
    match receive(stream)? {
        ClcMessage::Proposal(_) => Ok(()),
        other => Err(io::Error::other(format!("no Proposal, but {other}"))),
    }
}

/// A connection that TCP carries from the first byte of the conversation on.
struct Plain(TcpStream);

impl Conversation for Plain {
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(bytes)
    }

    fn send_urgent(&self, _: u8) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn receive_urgent(&self, _: Duration) -> io::Result<u8> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn abort(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn shutdown(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}
