//! A connection as `smcss` of smc-tools 1.8.5 shows it.

use std::fmt::Write as _;
use std::net::{Ipv6Addr, SocketAddr};

use smc_proto::wire::types::DiagnosisCode;
use smc_view::{Technology, state};

/// Room for an address with its port.
const ADDRESS: usize = 23;

/// What carries a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// RDMA.
    SmcR,
    /// TCP, with the reason of this side, and the peer's diagnosis or 0.
    Tcp(u32, u32),
    /// Shared memory.
    SmcD,
    /// Not known, or not decided.
    Unknown,
}

/// A position in a ring: how often it has begun anew, and bytes from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    /// Turns, of which 16 bits count.
    pub wrap: u16,
    /// Bytes.
    pub count: u32,
}

impl Cursor {
    /// The cursor of a position in a stream, in a ring of this size.
    #[must_use]
    pub fn of(position: u64, ring: u32) -> Self {
        let ring = u64::from(ring);
        Self {
            wrap: position.checked_div(ring).unwrap_or(0) as u16,
            count: position.checked_rem(ring).unwrap_or(0) as u32,
        }
    }
}

/// Sizes, cursors and flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Details {
    /// The connection's alert token.
    pub token: u32,
    /// Bytes of the send buffer, the receive buffer and the peer's.
    pub buffers: [u32; 3],
    /// Producer and consumer cursor of what is received.
    pub received: [Cursor; 2],
    /// Producer and consumer cursor of what is sent.
    pub sent: [Cursor; 2],
    /// Flags of both: of the producer, and of the state of the connection.
    pub flags: [[u8; 2]; 2],
    /// What is prepared, sent, and completed.
    pub progress: [Cursor; 3],
}

/// The link of a connection over RDMA.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// Whether this side is the server of the group.
    pub is_server: bool,
    /// Name of the device.
    pub device: String,
    /// Port of the device.
    pub port: u8,
    /// Number of the link.
    pub link: u8,
    /// GIDs of both ends.
    pub gids: [String; 2],
}

/// The memory of a connection over SMC-D.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// GID of this side.
    pub gid: u64,
    /// Token of its memory, or 0 if it is not known.
    pub token: u64,
    /// GID of the peer.
    pub peer_gid: u64,
    /// Token of the peer's memory, or 0 if it is not known.
    pub peer_token: u64,
    /// Number of the link group.
    pub group: u32,
}

/// A connection or a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// State of the connection or listener, by the kernel's number.
    pub state: u8,
    /// User of the connection or listener.
    pub uid: u32,
    /// The inode of its socket.
    pub inode: u64,
    /// The address of this side.
    pub local: SocketAddr,
    /// The address of the peer.
    pub peer: SocketAddr,
    /// Index of the interface, or 0.
    pub interface: u32,
    /// What carries it.
    pub mode: Mode,
    /// Whether reading, and writing, was ended.
    pub shut: [bool; 2],
    /// Sizes and cursors, if they are known.
    pub details: Option<Details>,
    /// The link, if there is one.
    pub link: Option<Link>,
    /// The memory, if it is SMC-D.
    pub memory: Option<Memory>,
    /// The process and the name of its program; `None` for a socket of the kernel's SMC.
    pub owner: Option<(u32, String)>,
    /// What the program says about why it is TCP.
    pub sentence: Option<String>,
    /// What the program says can be done about that.
    pub remedy: Option<String>,
    /// Bytes that the program sent and received, if they are counted.
    pub bytes: Option<[u64; 2]>,
}

/// The name of a state, as `smcss` has it.
#[must_use]
pub fn state_name(state: u8) -> String {
    let name = match state {
        state::ACTIVE => "ACTIVE",
        state::INIT => "INIT",
        state::CLOSED => "CLOSED",
        state::LISTEN => "LISTEN",
        state::PEER_CLOSE_WAIT_1 => "PEERCLOSEWAIT1",
        state::PEER_CLOSE_WAIT_2 => "PEERCLOSEWAIT2",
        state::APP_CLOSE_WAIT_1 => "APPCLOSEWAIT1",
        state::APP_CLOSE_WAIT_2 => "APPCLOSEWAIT2",
        state::APP_FIN_CLOSE_WAIT => "APPFINCLOSEWAIT1",
        state::PEER_FIN_CLOSE_WAIT => "PEERFINCLOSEWAIT",
        state::PEER_ABORT_WAIT => "PEERABORTWAIT",
        state::PROCESS_ABORT => "PROCESSABORT",
        0 => return "0?".to_owned(),
        other => return format!("{other:#x}?"),
    };
    name.to_owned()
}

/// The name of a technology, as `smcss` has it.
#[must_use]
pub const fn technology_name(technology: Technology) -> &'static str {
    match technology {
        Technology::SmcR => "SMCR",
        Technology::SmcD => "SMCD",
        Technology::Tcp => "TCP",
        Technology::Undecided => "?",
    }
}

/// The name of the role of a side of a link group.
#[must_use]
pub const fn role_name(is_server: bool) -> &'static str {
    if is_server { "SERV" } else { "CLNT" }
}

/// A process by its number and the name of its program.
#[must_use]
pub fn process_name(process: u32, program: &str) -> String {
    format!("{process}/{program}")
}

/// A GID as the kernel and smc-tools write it: eight groups of four digits.
#[must_use]
pub fn gid(of: [u8; 16]) -> String {
    let groups = Ipv6Addr::from(of).segments();
    groups.map(|group| format!("{group:04x}")).join(":")
}

impl Row {
    /// The process and its program, or who else has the socket.
    #[must_use]
    pub fn process(&self) -> String {
        match &self.owner {
            Some((process, program)) => process_name(*process, program),
            None => "kernel".to_owned(),
        }
    }

    /// The name of what carries it.
    #[must_use]
    pub const fn mode_name(&self) -> &'static str {
        technology_name(match self.mode {
            Mode::SmcR => Technology::SmcR,
            Mode::SmcD => Technology::SmcD,
            Mode::Tcp(..) => Technology::Tcp,
            Mode::Unknown => Technology::Undecided,
        })
    }

    /// The codes of why it is TCP, if it is: of this side, and of the peer if it sent one.
    #[must_use]
    pub fn reasons(&self) -> Option<String> {
        match self.mode {
            Mode::Tcp(own, 0) => Some(format!("0x{own:08x}")),
            Mode::Tcp(own, peer) => Some(format!("0x{own:08x}/0x{peer:08x}")),
            _ => None,
        }
    }

    /// Why it is TCP and what to do, in words, if it is.
    #[must_use]
    pub fn why(&self) -> Option<(String, String)> {
        let Mode::Tcp(own, peer) = self.mode else {
            return None;
        };
        let code = DiagnosisCode(smc_view::deciding_code(own, peer));
        let or = |own: &Option<String>, of_code: &str| {
            let own = own.clone();
            own.unwrap_or_else(|| of_code.to_owned())
        };
        // The code alone is what a socket of the kernel has, and a program without room for more.
        Some((
            or(&self.sentence, code.sentence()),
            or(&self.remedy, code.remedy()),
        ))
    }
}

/// Which columns are shown.
#[derive(Clone, Copy, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command"
)]
pub struct Columns {
    /// Sizes, cursors and flags.
    pub details: bool,
    /// Memory of SMC-D.
    pub smcd: bool,
    /// Links of SMC-R.
    pub smcr: bool,
    /// Addresses of any length.
    pub wide: bool,
}

impl Columns {
    /// The line above all rows.
    #[must_use]
    pub fn header(self) -> String {
        let mut line = "State          UID   Inode   Local Address           \
                        Peer Address            Intf Mode "
            .to_owned();
        if self.details {
            line += "Shutd Token    Sndbuf   Rcvbuf   Peerbuf  rxprod-Cursor rxcons-Cursor rxFlags \
                     txprod-Cursor txcons-Cursor txFlags txprep-Cursor txsent-Cursor txfin-Cursor  ";
        }
        if self.smcr {
            line += "Role IB-device       Port Linkid GID                                      \
                     Peer-GID";
        } else if self.smcd {
            line += "GID              Token            Peer-GID         Peer-Token       Linkid";
        }
        line
    }

    /// The line of a row.
    #[must_use]
    pub fn line(self, row: &Row) -> String {
        let mut line = String::new();
        self.write(row, &mut line);
        line
    }

    fn write(self, row: &Row, line: &mut String) {
        let name = state_name(row.state);
        let _ = write!(line, "{name:<14} {:05} {:07} ", row.uid, row.inode);
        if row.state == state::INIT {
            return;
        }
        let _ = write!(line, "{:<23} ", self.address(row.local));
        if row.state == state::LISTEN {
            return;
        }
        let peer = self.address(row.peer);
        let _ = write!(line, "{peer:<23} {:04x} ", row.interface);
        if row.state == state::CLOSED {
            return;
        }
        if let Some(reasons) = row.reasons() {
            let _ = write!(line, "TCP {reasons} ");
            return;
        }
        let _ = write!(line, "{:>4} ", row.mode_name());
        if self.details
            && let Some(details) = &row.details
        {
            details.write(row.shut, line);
        }
        if self.smcr
            && let Some(link) = &row.link
        {
            let _ = write!(
                line,
                "{:>4} {:<15} {:02x}   {:02x}     {:<40} {} ",
                role_name(link.is_server),
                link.device,
                link.port,
                link.link,
                link.gids[0],
                link.gids[1]
            );
        }
        if self.smcd
            && let Some(memory) = &row.memory
        {
            let _ = write!(
                line,
                "{:016x} {:016x} {:016x} {:016x} {:08x} ",
                memory.gid, memory.token, memory.peer_gid, memory.peer_token, memory.group
            );
        }
    }

    /// An address and its port, without brackets, cut to its column unless all is wanted.
    fn address(self, at: SocketAddr) -> String {
        let (ip, port) = (at.ip().to_string(), at.port().to_string());
        let room = ADDRESS.saturating_sub(1 + port.len());
        if self.wide || ip.len() <= room {
            return format!("{ip}:{port}");
        }
        let cut: String = ip.chars().take(room.saturating_sub(2)).collect();
        format!("{cut}..:{port}")
    }
}

impl Details {
    fn write(&self, shut: [bool; 2], line: &mut String) {
        // A letter names a direction that was shut down.
        let [no_reads, no_writes] = shut;
        let reads = if no_reads { 'R' } else { '<' };
        let writes = if no_writes { 'W' } else { '>' };
        let _ = write!(line, " {reads}-{writes}  {:08x} ", self.token);
        for size in self.buffers {
            let _ = write!(line, "{size:08x} ");
        }
        for (cursors, flags) in [(self.received, self.flags[0]), (self.sent, self.flags[1])] {
            cursors.iter().for_each(|at| at.write(line));
            let _ = write!(line, "{:02x}:{:02x}   ", flags[0], flags[1]);
        }
        self.progress.iter().for_each(|at| at.write(line));
    }
}

impl Cursor {
    fn write(self, line: &mut String) {
        let _ = write!(line, "{:04x}:{:08x} ", self.wrap, self.count);
    }
}
