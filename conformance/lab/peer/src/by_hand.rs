//! A rendezvous by hand: CLC messages that our sockets never say, for what a kernel answers.
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
use smc_lab::orders::{Engagement, Held, Role, Saying};
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

/// The connection of an engagement, with `saying` for a rendezvous.
pub(crate) fn hold(
    engagement: &Engagement,
    saying: Saying,
    listening: impl FnOnce() -> io::Result<()>,
) -> io::Result<Held> {
    let marks = setup::marks()?;
    let stream = match engagement.role {
        Role::Client => connected(engagement, &marks)?,
        Role::Server => accepted(engagement, &marks, listening)?,
    };
    let patience = Duration::from_millis(engagement.patience);
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    if !marks.verdict(&stream)? {
        return Err(io::Error::other("the peer's SYN does not say SMC"));
    }
    let carried = rendezvous(&stream, saying, engagement.v1)?;
    let view = SocketView {
        inode: 0,
        state: 0,
        carried,
        link: None,
    };
    let began = Instant::now();
    let plain = Plain(stream);
    let outcome = conversation::hold(&plain, engagement.role, &engagement.steps, patience);
    Ok(Held::new(Some(view), outcome, began))
}

fn open(marks: &Marks) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    marks.opt_in(&socket)?;
    Ok(socket)
}

fn connected(engagement: &Engagement, marks: &Marks) -> io::Result<TcpStream> {
    let socket = open(marks)?;
    connect(
        &socket,
        &SocketAddrV4::new(engagement.address, engagement.port),
    )?;
    Ok(socket.into())
}

fn accepted(
    engagement: &Engagement,
    marks: &Marks,
    listening: impl FnOnce() -> io::Result<()>,
) -> io::Result<TcpStream> {
    let socket = open(marks)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, engagement.port));
    bind(&socket, &any)?;
    listen(&socket, 1)?;
    listening()?;
    let patience = Duration::from_millis(engagement.patience);
    let timeout = Timespec::try_from(patience).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout))? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(accept(&socket)?.into()),
    }
}

/// Says it; why TCP carries the connection then.
fn rendezvous(stream: &TcpStream, saying: Saying, v1: bool) -> io::Result<Carried> {
    match saying {
        Saying::NoEid => say(stream, &without_eid())?,
        Saying::OtherMode => {
            heard_proposal(stream)?;
            say(stream, &of_shared_memory(v1))?;
        }
        Saying::Decline(code) => {
            heard_proposal(stream)?;
            say(stream, &decline(code, v1))?;
            return Ok(Carried::Tcp(code, 0));
        }
    }
    match hear(stream)? {
        ClcMessage::Decline(told) => Ok(Carried::Tcp(reason::PEER_DECLINED, told.diagnosis.0)),
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

/// SMC-D, which nobody offers here.
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

fn say(mut stream: &TcpStream, message: &ClcMessage) -> io::Result<()> {
    let mut octets = vec![0; message.encoded_len()];
    message.emit(&mut octets).map_err(io::Error::other)?;
    stream.write_all(&octets)
}

fn hear(mut stream: &TcpStream) -> io::Result<ClcMessage> {
    let mut octets = vec![0; HEADER_LENGTH];
    stream.read_exact(&mut octets)?;
    let header = ClcHeader::parse(&octets).map_err(io::Error::other)?;
    octets.resize(usize::from(header.length), 0);
    let rest = octets.get_mut(HEADER_LENGTH..).unwrap_or_default();
    stream.read_exact(rest)?;
    let (message, _) = ClcMessage::parse(&octets).map_err(io::Error::other)?;
    Ok(message)
}

fn heard_proposal(stream: &TcpStream) -> io::Result<()> {
    match hear(stream)? {
        ClcMessage::Proposal(_) => Ok(()),
        other => Err(io::Error::other(format!("no Proposal, but {other}"))),
    }
}

/// A connection that TCP carries from the first octet of the conversation on.
struct Plain(TcpStream);

impl Conversation for Plain {
    fn send(&self, octets: &[u8]) -> io::Result<usize> {
        (&self.0).write(octets)
    }

    fn receive(&self, octets: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(octets)
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
