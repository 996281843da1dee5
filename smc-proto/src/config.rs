//! Every number and choice that may need tuning, each with its source.

use crate::time::Duration;
use crate::version::SERVES_V2;
use crate::wire::types::{BufferSize, PeerId};

mod version2;

pub use version2::{MAX_UEIDS, Offers, UserEids, V2Config};

/// Most links a group can have: 8 symmetric and one asymmetric (LINK-011, LINK-020).
pub(crate) const LINKS_PER_GROUP: usize = 9;
/// Most RMBs of each side in a group (RMB-001).
pub(crate) const RMBS_PER_GROUP: u16 = 255;
/// Most SENDs in flight on a link, a power of two; each may follow two WRITEs.
/// Linux has as many.
pub(crate) const SEND_SLOTS: usize = 16;
/// Of these, free for data; the others are kept for LLC (CDC-003).
pub(crate) const DATA_SLOTS: u32 = 14;
/// Most LLC replies that wait on a link, a power of two; a peer that asks for one
/// more without waiting for answers loses the link (reliability H14).
pub(crate) const REPLY_SLOTS: usize = 8;
/// The lowest limit of connections in a link group that release 1 knows (V2-027).
pub(crate) const LEAST_CONNECTIONS: u8 = 16;
/// Most candidate ISM devices considered for one connection.
pub const MAX_ISM_PATHS: usize = 4;
/// Most candidate paths considered for one connection.
pub const MAX_PATHS: usize = 4;
/// Most RNICs of one endpoint.
pub const MAX_DEVICES: usize = 16;
/// Most ports that are remembered for further links.
pub const MAX_PORTS: usize = 32;
/// Most rounds of ADD LINK CONTINUATION: 255 RMBs of the side that has more, two
/// per round, and as many again for a peer that counts otherwise.
pub(crate) const CONTINUATION_ROUNDS: u8 = 254;

/// Settings of one endpoint. [`Config::new`] gives the interoperable defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Identity of this stack instance, in every CLC message (CLC-016, CLC-019).
    /// Must change when the stack restarts.
    pub peer_id: PeerId,
    /// What may be offered and accepted.
    pub offers: Offers,
    /// Version nibble of the Proposals sent: 2 as Linux does even when it offers
    /// only version 1, or 1 as RFC 7609 writes it (decision 8).
    pub proposal_version: ProposalVersion,
    /// How this side introduces itself in version 2.
    pub v2: V2Config,
    /// Whether RMB elements start with an eye catcher (RFC 7609 4.2). Linux never
    /// has one, and the bytes are left out only if both peers agree (decision 3).
    pub eye_catcher: bool,
    /// Most connections in one link group, 1 to 255 (RMB-001, Linux: 255). Fewer
    /// than 16 cannot be advertised in version 2.1, where 16 are advertised then (V2-027).
    pub connections_per_group: u8,
    /// Elements of each RMB this side allocates, 1 to 255 (RMB-002). One element
    /// gives each connection its own memory region, as Linux does.
    pub elements_per_rmb: u8,
    /// How often a CONFIRM RKEY that the peer refused "for now" is repeated before
    /// the RMB is given up.
    pub rkey_retries: u8,
    /// Most links in one link group, 1 to 8 (LINK-012). A limit of 1 is a matter of
    /// version 2.1 and counts as 2 otherwise, where every group wants a second link;
    /// more than 2 are a matter of version 1.
    pub max_links: u8,
    /// Size of the receive buffer (RMB element) unless the connection asks otherwise.
    pub receive_buffer: BufferSize,
    /// Size of the DMB of SMC-D; that of the receive buffer if not given.
    pub dmb: Option<BufferSize>,
    /// Size of the send buffer unless the connection asks otherwise.
    pub send_buffer: BufferSize,
    /// What to do when the first CONFIRM LINK or its reply does not come (decision 1).
    pub confirm_link_timeout: OnSilence,
    /// What to do when the first-contact ADD LINK or its reply does not come (decision 2).
    pub add_link_timeout: OnSilence,
    /// Whether a TCP reset ends an SMC connection whose link lives (decision 5).
    pub tcp_reset_aborts: bool,
    /// Waits of the handshake and of LLC.
    pub timeouts: Timeouts,
    /// Data path and closing of connections.
    pub connection: ConnectionConfig,
}

/// Version nibble of the Proposals an endpoint sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProposalVersion {
    /// RFC 7609's 52 bytes and more, which cannot offer version 2.
    V1,
    /// The form of deployed peers, whatever is offered.
    V2,
}

/// Reaction to a peer that stays silent in the first contact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnSilence {
    /// What deployed peers do: Decline and fall back to TCP, or go on with one link.
    Interoperate,
    /// What RFC 7609 C.7.1 says: reset the TCP connection.
    Reset,
}

/// CDC messages that carry P and U, the flags of urgent data (URG-009).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UrgentFlags {
    /// Linux's way: P until the urgent byte is published, P and U in the message
    /// that publishes it, neither in those behind it. (Over SMC-D U alone stays until the
    /// peer has acknowledged the byte.)
    Interoperate,
    /// RFC 7609's way (4.7.5): P and U stay until a message publishes the next data. A
    /// Linux peer loses the urgent byte if another message follows before it is read, and
    /// the writer waits for its acknowledgement for ever.
    Keep,
}

/// Waits, all counted from the event that starts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Timeouts {
    /// For each CLC message of the peer (CLC-067; Linux waits 6 s).
    pub clc_message: Duration,
    /// For the whole rendezvous, whatever the peer sends (reliability H9).
    pub rendezvous: Duration,
    /// Client: for the first CONFIRM LINK (Linux: 4 s, twice the server's wait).
    pub confirm_link_request: Duration,
    /// For the reply to any LLC request (Linux: 2 s).
    pub llc_reply: Duration,
    /// Client: for the first-contact ADD LINK (Linux: 2 s and 1 s more for a Decline).
    pub add_link_request: Duration,
    /// For a Decline of the peer after an LLC timeout (Linux: 1 s).
    pub decline: Duration,
    /// For the rest of a Decline that crossed ours, once both sides are on TCP and
    /// bytes arrived that begin like one: longer than TCP takes to repeat a lost
    /// segment. For the first of its bytes there is no limit.
    pub crossing_decline: Duration,
    /// Server: pause between the Confirm and CONFIRM LINK, because a Linux client
    /// listens to LLC only after its Confirm has left.
    pub confirm_link_delay: Duration,
    /// For local control commands (queue pair, registration) before they count as
    /// refused.
    pub control_command: Duration,
    /// Idle time of a link after which TEST LINK is sent (Linux: 30 s).
    pub keepalive: Duration,
    /// For the reply to TEST LINK (Linux: 2 s).
    pub test_link_reply: Duration,
    /// Server: life of a link group without connections (Linux: 600 s).
    pub group_idle_server: Duration,
    /// Client: the same, longer so that the server acts first (Linux: 610 s).
    pub group_idle_client: Duration,
    /// Server: how long a link group without connections that was deleted is kept for what
    /// the client still has to send DELETE LINK, unless it has before: its RNIC repeats for ever
    /// what no peer acknowledges (Linux with soft-RoCE). Zero is not at all.
    pub group_farewell: Duration,
    /// Life of an RMB without connections before DELETE RKEY (RMB-029).
    pub rmb_idle: Duration,
    /// For a free send slot, before the link counts as failed (Linux: 10 s).
    pub send_slot: Duration,
    /// Pause before a CONFIRM RKEY that the peer refused "for now" is repeated (LLC-067).
    pub rkey_retry: Duration,
    /// For CONFIRM LINK on an added link and for its reply (Linux: 5 s).
    pub added_link: Duration,
    /// Pause before a further link is tried again; doubled with each failure
    /// (LINK-049, TIMER-012, TIMER-018, TIMER-019).
    pub add_link_retry: Duration,
    /// Longest such pause.
    pub add_link_retry_most: Duration,
}

/// Data path and closing of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnectionConfig {
    /// In the states that wait for the peer's close after a full local close
    /// (TIMER-032, AMB-34).
    pub close_wait: Duration,
    /// In PeerAbortWait (TIMER-033).
    pub abort_wait: Duration,
    /// For unsent data after a local close, before the close turns into an abort.
    pub linger: Duration,
    /// Longest time small writes are held back while a CDC message is on its way (FLOW-022).
    pub coalesce: Duration,
    /// Most bytes held back for coalescing; more are sent at once.
    pub coalesce_limit: u32,
    /// Longest time small writes are held back because the application asked for it.
    pub cork: Duration,
    /// How long the published consumer cursor may lag after R=1 (FLOW-014).
    pub cursor_lag: Duration,
    /// How long P and U stay after urgent data was published (URG-009).
    pub urgent_flags: UrgentFlags,
    /// Whether bytes that had arrived stay readable when the peer or the network ends a connection
    /// abnormally, as with TCP in Linux. RFC 7609 discards them (ABORT-008, ABORT-018), and so does
    /// the default.
    ///
    /// Where this is set, [`Event::Reset`](crate::event::Event::Reset) reports such an end at once.
    /// Reads give the bytes, and an end of the stream that the peer had sent before; writes fail with
    /// [`ApiMisuse::Reset`](crate::connection::ApiMisuse::Reset). The receive buffer and the handle
    /// are kept until the application has closed or aborted the connection, at the latest. Over SMC-D
    /// the own abort is sent when everything was read, as the peer may give memory back after it
    /// (D-061); over SMC-R at once. Nothing is added after the end: report what devices have received before a reset of TCP, or a failure.
    /// Bytes are discarded in any case if the peer broke the protocol, or the receive buffer is
    /// damaged or in dispute (RMB-025).
    pub keep_received: bool,
}

impl Config {
    /// Interoperable defaults for a stack with this identity.
    #[must_use]
    pub const fn new(peer_id: PeerId) -> Self {
        Self {
            peer_id,
            offers: Offers::SMCR,
            proposal_version: ProposalVersion::V2,
            v2: V2Config::DEFAULT,
            eye_catcher: false,
            connections_per_group: 255,
            elements_per_rmb: 1,
            rkey_retries: 20,
            max_links: 2,
            receive_buffer: BufferSize::K64,
            dmb: None,
            send_buffer: BufferSize::K64,
            confirm_link_timeout: OnSilence::Interoperate,
            add_link_timeout: OnSilence::Interoperate,
            tcp_reset_aborts: false,
            timeouts: Timeouts::DEFAULT,
            connection: ConnectionConfig::DEFAULT,
        }
    }
}

impl Config {
    /// What is offered and accepted: what the configuration says, as far as this build has it.
    pub(crate) fn served_offers(&self) -> Offers {
        if SERVES_V2 {
            self.offers
        } else {
            self.offers & Offers::V1
        }
    }

    /// The limit of connections that version 2.1 advertises.
    //= V2-027
    pub(crate) fn advertised_connections(&self) -> u8 {
        self.connections_per_group.max(LEAST_CONNECTIONS)
    }

    /// The limit of links that version 2.1 advertises. Version 2 has messages for three
    /// links at most, two of them symmetric (V2-159).
    //= V2-214
    pub(crate) fn advertised_links(&self) -> u8 {
        self.max_links.clamp(1, 2)
    }
}

impl Timeouts {
    /// Defaults that fit a Linux peer.
    pub const DEFAULT: Self = Self {
        //= V2-083
        clc_message: Duration::from_secs(6),
        rendezvous: Duration::from_secs(20),
        //= TIMER-005
        //= V2-180
        confirm_link_request: Duration::from_secs(4),
        //= TIMER-006
        llc_reply: Duration::from_secs(2),
        add_link_request: Duration::from_secs(3),
        decline: Duration::from_secs(1),
        crossing_decline: Duration::from_secs(120),
        confirm_link_delay: Duration::from_millis(5),
        control_command: Duration::from_secs(5),
        keepalive: Duration::from_secs(30),
        test_link_reply: Duration::from_secs(2),
        group_idle_server: Duration::from_secs(600),
        group_idle_client: Duration::from_secs(610),
        group_farewell: Duration::from_millis(300),
        rmb_idle: Duration::from_secs(60),
        send_slot: Duration::from_secs(10),
        rkey_retry: Duration::from_millis(50),
        added_link: Duration::from_secs(5),
        add_link_retry: Duration::from_secs(30),
        add_link_retry_most: Duration::from_secs(600),
    };
}

impl ConnectionConfig {
    /// Defaults.
    pub const DEFAULT: Self = Self {
        close_wait: Duration::from_secs(60),
        abort_wait: Duration::from_secs(5),
        linger: Duration::from_secs(60),
        coalesce: Duration::from_millis(1),
        coalesce_limit: 32 << 10,
        cork: Duration::from_millis(200),
        cursor_lag: Duration::from_millis(100),
        urgent_flags: UrgentFlags::Interoperate,
        //= ABORT-008
        //= ABORT-018
        keep_received: false,
    };
}
