//! Rows as values.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::layout::{CONNECTION_WORDS, GROUP_WORDS, LINK_WORDS, STACK_WORDS};
use crate::text::printable;

/// What carries a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Technology {
    /// Not decided yet.
    #[default]
    Undecided,
    /// Shared memory.
    SmcD,
    /// RDMA.
    SmcR,
    /// TCP, as the connection fell back.
    Tcp,
}

/// The role of this side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Role {
    /// Not known.
    #[default]
    Unknown,
    /// The process connected.
    Client,
    /// The process accepted.
    Server,
}

/// States of connections, by the codes of the kernel.
pub mod state {
    /// Data flows both ways.
    pub const ACTIVE: u8 = 1;
    /// What carries it is not decided.
    pub const INIT: u8 = 2;
    /// Over.
    pub const CLOSED: u8 = 7;
    /// A listener.
    pub const LISTEN: u8 = 10;
    /// Closed by this side, nothing from the peer yet.
    pub const PEER_CLOSE_WAIT_1: u8 = 20;
    /// Both sides are done writing, the peer has not closed.
    pub const PEER_CLOSE_WAIT_2: u8 = 21;
    /// The peer is done, this side may still write.
    pub const APP_CLOSE_WAIT_1: u8 = 22;
    /// The peer was done first, then this side; the application has not closed.
    pub const APP_CLOSE_WAIT_2: u8 = 23;
    /// The peer closed, the application has not.
    pub const APP_FIN_CLOSE_WAIT: u8 = 24;
    /// Closed by this side after the peer; not acknowledged yet.
    pub const PEER_FIN_CLOSE_WAIT: u8 = 25;
    /// Aborted by this side, which waits for the peer's abort.
    pub const PEER_ABORT_WAIT: u8 = 26;
    /// The peer aborted.
    pub const PROCESS_ABORT: u8 = 27;
}

/// A name of at most 16 bytes, of any value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Name(pub [u8; 16]);

impl Name {
    /// A name, cut to 16 bytes.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut name = [0; 16];
        name.iter_mut()
            .zip(text.as_bytes())
            .for_each(|(to, from)| *to = *from);
        Self(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        // It is of another process: nothing in it controls a terminal.
        f.pad(&printable(bytes))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text of at most 32 bytes of any value, such as an EID and a host's name: padded with blanks, as
/// in messages, or with zero bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Label(pub [u8; 32]);

impl Label {
    fn text(&self) -> &[u8] {
        let text = self.0.split(|byte| *byte == 0).next();
        text.unwrap_or_default().trim_ascii_end()
    }

    /// Whether nothing but padding is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    fn words(self) -> [u64; 4] {
        let (high, low) = self.0.split_at(16);
        let half = |half: &[u8]| half.try_into().map_or([0; 2], byte_words);
        let ([a, b], [c, d]) = (half(high), half(low));
        [a, b, c, d]
    }

    fn of_words([a, b, c, d]: [u64; 4]) -> Self {
        let mut label = [0; 32];
        let (high, low) = label.split_at_mut(16);
        high.copy_from_slice(&bytes([a, b]));
        low.copy_from_slice(&bytes([c, d]));
        Self(label)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is of another host: nothing in it controls a terminal.
        f.pad(&printable(self.text()))
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A connection, or a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Connection {
    /// State of the connection or listener, see [`state`]; other values are possible.
    pub state: u8,
    /// What carries it.
    pub technology: Technology,
    /// The role of this side.
    pub role: Role,
    /// Version of SMC.
    pub version: u8,
    /// Whether this side has ended reading, and writing.
    pub shut: (bool, bool),
    /// Number of the link over which it writes.
    pub link: u8,
    /// Number of the connection in its process, never given twice.
    pub serial: u64,
    /// Inode of its TCP socket.
    pub inode: u64,
    /// Address of this side.
    pub local: SocketAddr,
    /// Address of the peer; unspecified for a listener.
    pub peer: SocketAddr,
    /// Index of the network interface, or 0.
    pub interface: u32,
    /// TCP: the reason of this side.
    pub reason: u32,
    /// TCP: the peer's diagnosis, or 0.
    pub peer_reason: u32,
    /// Number of the link group, see [`GroupRecord::number`].
    pub group: Option<u64>,
    /// When it was decided what carries it, in nanoseconds since 1970.
    pub since: u64,
    /// Bytes of the send buffer.
    pub send_buffer: u32,
    /// Bytes of the buffer that the peer writes to.
    pub receive_buffer: u32,
    /// Bytes of the peer's buffer.
    pub peer_buffer: u32,
    /// Number of its stack in the process.
    pub stack: u32,
    /// Alert token of this side.
    pub token: u32,
    /// Alert token of the peer.
    pub peer_token: u32,
    /// Key of the sentence that says why it is TCP, or 0.
    pub sentence: u32,
    /// Key of the sentence that says what to do about that, or 0.
    pub remedy: u32,
    /// SMC-D: GID of this side.
    pub gid: u64,
    /// SMC-D: GID of the peer.
    pub peer_gid: u64,
    /// Number of the connection at the engine of its stack, by which its events are known; `None`
    /// if SMC does not carry it.
    pub conn: Option<u64>,
    /// The process does not note when it closes the connection, which is the kernel's alone. Readers
    /// leave it out once the process has no descriptor of a socket with this inode.
    pub unattended: bool,
}

impl Connection {
    /// One between these addresses of which nothing else is known.
    #[must_use]
    pub fn new(local: SocketAddr, peer: SocketAddr) -> Self {
        Self {
            state: state::INIT,
            technology: Technology::Undecided,
            role: Role::Unknown,
            version: 0,
            shut: (false, false),
            link: 0,
            serial: 0,
            inode: 0,
            local,
            peer,
            interface: 0,
            reason: 0,
            peer_reason: 0,
            group: None,
            since: 0,
            send_buffer: 0,
            receive_buffer: 0,
            peer_buffer: 0,
            stack: 0,
            token: 0,
            peer_token: 0,
            sentence: 0,
            remedy: 0,
            gid: 0,
            peer_gid: 0,
            conn: None,
            unattended: false,
        }
    }

    pub(crate) fn encode(&self) -> [u64; CONNECTION_WORDS] {
        let bytes = [
            self.state,
            technology_code(self.technology),
            role_code(self.role),
            self.version,
            u8::from(self.shut.0) | u8::from(self.shut.1) << 1,
            self.link,
            u8::from(self.local.is_ipv4()),
            u8::from(self.unattended),
        ];
        let (local, peer) = (address(self.local.ip()), address(self.peer.ip()));
        let ports = u32::from(self.local.port()) | u32::from(self.peer.port()) << 16;
        [
            u64::from_ne_bytes(bytes),
            self.serial,
            self.inode,
            local[0],
            local[1],
            peer[0],
            peer[1],
            pair(ports, self.interface),
            pair(self.reason, self.peer_reason),
            self.group.unwrap_or(u64::MAX),
            self.since,
            pair(self.send_buffer, self.receive_buffer),
            pair(self.peer_buffer, self.stack),
            pair(self.token, self.peer_token),
            pair(self.sentence, self.remedy),
            self.gid,
            self.peer_gid,
            self.conn.map_or(0, |conn| conn.wrapping_add(1)),
        ]
    }

    /// The connection; `None` if the row is free.
    pub(crate) fn decode(words: &[u64; CONNECTION_WORDS]) -> Option<Self> {
        let [
            first,
            serial,
            inode,
            l0,
            l1,
            p0,
            p1,
            ports,
            reasons,
            group,
            since,
            rest @ ..,
        ] = *words;
        let [buffers, peer, tokens, sentence, gid, peer_gid, conn] = rest;
        let [
            state,
            technology,
            role,
            version,
            shut,
            link,
            is_ipv4,
            unattended,
        ] = first.to_ne_bytes();
        let (ports, interface) = halves(ports);
        let ((reason, peer_reason), (send_buffer, receive_buffer)) =
            (halves(reasons), halves(buffers));
        let ((peer_buffer, stack), (token, peer_token)) = (halves(peer), halves(tokens));
        let (sentence, remedy) = halves(sentence);
        let at = |words, port| SocketAddr::new(ip(words, is_ipv4 != 0), port);
        (state != 0).then_some(Self {
            state,
            technology: technology_of(technology),
            role: role_of(role),
            version,
            shut: (shut & 1 != 0, shut & 2 != 0),
            link,
            serial,
            inode,
            local: at([l0, l1], ports as u16),
            peer: at([p0, p1], (ports >> 16) as u16),
            interface,
            reason,
            peer_reason,
            group: (group != u64::MAX).then_some(group),
            since,
            send_buffer,
            receive_buffer,
            peer_buffer,
            stack,
            token,
            peer_token,
            sentence,
            remedy,
            gid,
            peer_gid,
            conn: conn.checked_sub(1),
            unattended: unattended != 0,
        })
    }
}

/// Sets the state in the first word of a connection's row.
pub(crate) const fn set_state([of, ..]: &mut [u8; 8], state: u8) {
    *of = state;
}

/// Notes in the first word of a connection's row that reading, or writing, was ended.
pub(crate) const fn set_shut([_, _, _, _, shut, ..]: &mut [u8; 8], reading: bool) {
    *shut |= if reading { 1 } else { 2 };
}

/// How far a connection has got, in bytes since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Written to the peer's buffer.
    pub written: u64,
    /// Free in the send buffer again.
    pub completed: u64,
    /// Read by the peer, as far as it announced that.
    pub peer_consumed: u64,
    /// Written by the peer.
    pub arrived: u64,
    /// CDC messages sent.
    pub messages: u64,
    /// When it had got so far, in nanoseconds since 1970.
    pub at: u64,
}

/// A link group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct GroupRecord {
    /// Number of the group, unique in its stack while the group lasts.
    pub number: u64,
    /// SMC-D or SMC-R.
    pub technology: Technology,
    /// The role of this side.
    pub role: Role,
    /// Version of SMC.
    pub version: u8,
    /// Release of version 2.
    pub release: u8,
    /// Most links.
    pub max_links: u8,
    /// Most connections.
    pub max_connections: u8,
    /// No IP gateway is between both ends.
    pub direct: bool,
    /// The VLAN, or 0.
    pub vlan: u16,
    /// Number of its stack in the process.
    pub stack: u32,
    /// When it came up, in nanoseconds since 1970.
    pub since: u64,
    /// SMC-D: GIDs of this side and of the peer.
    pub gids: (u64, u64),
    /// Version 2: EID that both hosts have in common.
    pub eid: Label,
    /// Version 2: name of the peer's host, as the peer gives it.
    pub peer_host: Label,
    /// Version 2: number of the peer's operating system, 1 z/OS, 2 Linux, 3 AIX.
    pub peer_os: u8,
}

impl GroupRecord {
    pub(crate) fn encode(&self) -> [u64; GROUP_WORDS] {
        let bytes = [
            1,
            technology_code(self.technology),
            role_code(self.role),
            self.version,
            self.release,
            self.max_links,
            self.max_connections,
            u8::from(self.direct),
        ];
        let mut words = [0; GROUP_WORDS];
        let vlan = u32::from(self.vlan) | u32::from(self.peer_os) << 16;
        let first = [
            u64::from_ne_bytes(bytes),
            self.number,
            pair(vlan, self.stack),
            self.since,
            self.gids.0,
            self.gids.1,
        ];
        let all = first.into_iter().chain(self.eid.words());
        let all = all.chain(self.peer_host.words());
        words.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        words
    }

    pub(crate) fn decode(words: &[u64; GROUP_WORDS]) -> Option<Self> {
        let [first, number, vlan, since, gid, peer_gid, labels @ ..] = *words;
        let [e0, e1, e2, e3, h0, h1, h2, h3, ..] = labels;
        let [
            used,
            technology,
            role,
            version,
            release,
            max_links,
            max_connections,
            direct,
        ] = first.to_ne_bytes();
        let (vlan, stack) = halves(vlan);
        (used != 0).then_some(Self {
            number,
            technology: technology_of(technology),
            role: role_of(role),
            version,
            release,
            max_links,
            max_connections,
            direct: direct != 0,
            vlan: vlan as u16,
            stack,
            since,
            gids: (gid, peer_gid),
            eid: Label::of_words([e0, e1, e2, e3]),
            peer_host: Label::of_words([h0, h1, h2, h3]),
            peer_os: (vlan >> 16) as u8,
        })
    }
}

/// A link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LinkRecord {
    /// Number of the link, unique in its stack while the link lasts.
    pub number: u64,
    /// The number of its group.
    pub group: u64,
    /// Number of its stack in the process.
    pub stack: u32,
    /// Number of the link in the group, the same at both ends.
    pub link: u8,
    /// Whether connections may use it.
    pub active: bool,
    /// Whether it shares an RNIC with another link of the group.
    pub asymmetric: bool,
    /// Port of the device.
    pub port: u8,
    /// Name of the device.
    pub device: Name,
    /// Name of the network interface.
    pub interface: Name,
    /// PNET ID of the port; empty if it has none.
    pub pnet: Name,
    /// GID of this end.
    pub gid: [u8; 16],
    /// GID of the other end.
    pub peer_gid: [u8; 16],
    /// Numbers by which both ends know the link: of this end, and of the peer's. 0 if it is not
    /// known.
    pub user_ids: (u32, u32),
}

impl LinkRecord {
    pub(crate) fn encode(&self) -> [u64; LINK_WORDS] {
        let flags = u8::from(self.active) | u8::from(self.asymmetric) << 1;
        let [s0, s1, s2, s3] = self.stack.to_ne_bytes();
        let bytes = [1, self.link, flags, self.port, s0, s1, s2, s3];
        let (device, interface) = (name_words(self.device), name_words(self.interface));
        let pnet = name_words(self.pnet);
        let (gid, peer) = (byte_words(self.gid), byte_words(self.peer_gid));
        let mut words = [0; LINK_WORDS];
        words
            .iter_mut()
            .zip([
                u64::from_ne_bytes(bytes),
                self.number,
                self.group,
                device[0],
                device[1],
                interface[0],
                interface[1],
                gid[0],
                gid[1],
                peer[0],
                peer[1],
                pnet[0],
                pnet[1],
                pair(self.user_ids.0, self.user_ids.1),
            ])
            .for_each(|(to, from)| *to = from);
        words
    }

    pub(crate) fn decode(words: &[u64; LINK_WORDS]) -> Option<Self> {
        let [
            first,
            number,
            group,
            d0,
            d1,
            i0,
            i1,
            g0,
            g1,
            p0,
            p1,
            n0,
            n1,
            user_ids,
            ..,
        ] = *words;
        let [used, link, flags, port, stack @ ..] = first.to_ne_bytes();
        (used != 0).then_some(Self {
            number,
            group,
            stack: u32::from_ne_bytes(stack),
            link,
            active: flags & 1 != 0,
            asymmetric: flags & 2 != 0,
            port,
            device: name([d0, d1]),
            interface: name([i0, i1]),
            pnet: name([n0, n1]),
            gid: bytes([g0, g1]),
            peer_gid: bytes([p0, p1]),
            user_ids: halves(user_ids),
        })
    }
}

/// A stack of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StackRecord {
    /// Number of the stack in the process, from 1.
    pub number: u32,
    /// Most connections.
    pub connections: u32,
    /// Bytes of the buffer of a connection over shared memory.
    pub shared_buffer: u32,
    /// Bytes of the buffer of a connection over RDMA.
    pub rdma_buffer: u32,
    /// Shared memory is used with other processes.
    pub shares_memory: bool,
    /// There are RNICs.
    pub has_rnics: bool,
    /// Peer ID of the stack: instance and MAC.
    pub peer_id: [u8; 8],
}

impl StackRecord {
    pub(crate) fn encode(&self) -> [u64; STACK_WORDS] {
        let flags = 1 | u64::from(self.shares_memory) << 1 | u64::from(self.has_rnics) << 2;
        let mut words = [0; STACK_WORDS];
        words
            .iter_mut()
            .zip([
                flags,
                pair(self.number, self.connections),
                pair(self.shared_buffer, self.rdma_buffer),
                u64::from_ne_bytes(self.peer_id),
            ])
            .for_each(|(to, from)| *to = from);
        words
    }

    pub(crate) fn decode(words: &[u64; STACK_WORDS]) -> Option<Self> {
        let [flags, numbers, buffers, peer_id, ..] = *words;
        let ((number, connections), (shared_buffer, rdma_buffer)) =
            (halves(numbers), halves(buffers));
        (flags & 1 != 0).then_some(Self {
            number,
            connections,
            shared_buffer,
            rdma_buffer,
            shares_memory: flags & 2 != 0,
            has_rnics: flags & 4 != 0,
            peer_id: peer_id.to_ne_bytes(),
        })
    }
}

const fn technology_code(technology: Technology) -> u8 {
    match technology {
        Technology::Undecided => 0,
        Technology::SmcD => 1,
        Technology::SmcR => 2,
        Technology::Tcp => 3,
    }
}

const fn technology_of(code: u8) -> Technology {
    match code {
        1 => Technology::SmcD,
        2 => Technology::SmcR,
        3 => Technology::Tcp,
        _ => Technology::Undecided,
    }
}

const fn role_code(role: Role) -> u8 {
    match role {
        Role::Unknown => 0,
        Role::Client => 1,
        Role::Server => 2,
    }
}

const fn role_of(code: u8) -> Role {
    match code {
        1 => Role::Client,
        2 => Role::Server,
        _ => Role::Unknown,
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn byte_words(bytes: [u8; 16]) -> [u64; 2] {
    let word = u128::from_be_bytes(bytes);
    [(word >> 64) as u64, word as u64]
}

fn bytes([high, low]: [u64; 2]) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

fn name_words(name: Name) -> [u64; 2] {
    byte_words(name.0)
}

fn name(words: [u64; 2]) -> Name {
    Name(bytes(words))
}

pub(crate) fn address(ip: IpAddr) -> [u64; 2] {
    let ip = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    byte_words(ip.octets())
}

pub(crate) fn ip(words: [u64; 2], is_ipv4: bool) -> IpAddr {
    let ip = Ipv6Addr::from(bytes(words));
    match ip.to_ipv4_mapped() {
        Some(ip) if is_ipv4 => ip.into(),
        _ => ip.into(),
    }
}
