//! All events.

use super::declare::events;
use super::field::{FIELD_OCTETS, Field, Flags, Reader, Writer};
use super::{
    BufferStep, FieldInfo, GroupStep, LinkStep, LlcKind, QpStep, RendezvousStep, Side, TcpAction,
    TimerKind, Value,
};
use crate::command::BufferKind;
use crate::completion::LinkFailure;
use crate::connection::{CloseCause, CloseState, PeerMisbehaved};
use crate::event::CloseReason;
use crate::id::{ConnId, DeviceId, GroupId, LinkId};
use crate::time::Instant;
use crate::version::{SmcVersion, Technology};
use crate::wire::clc::ClcKind;
use crate::wire::types::{AlertToken, DeleteLinkReason, DiagnosisCode, DmbToken, LinkNumber};

events! {
    // ---- CLC, of a connection ----------------------------------------------------------

    0x01 ClcSent clc:sent "A CLC message was given to the embedder, to be sent." {
        message: ClcKind = "Its kind.",
        version: u8 = "Its version.",
        length: u16 = "Its length in bytes.",
        code: Option<DiagnosisCode> = "The diagnosis code of a Decline.",
    }
    0x02 ClcReceived clc:received "A CLC message was received." {
        message: ClcKind = "Its kind.",
        version: u8 = "Its version.",
        length: u16 = "Its length in bytes.",
        code: Option<DiagnosisCode> = "The diagnosis code of a Decline.",
    }
    0x03 ClcMalformed clc:malformed
        "Bytes that are no CLC message were received where one was due: TCP is reset." {
        length: u16 = "Bytes shown.",
    }
    0x04 ClcUnexpected clc:unexpected
        "A CLC message of another kind than the one due was received: TCP is reset." {
        message: ClcKind = "Its kind.",
    }
    0x05 ClcUnsolicited clc:unsolicited "Bytes were received while a message of this side was due." {
        length: u16 = "Bytes shown.",
    }

    // ---- rendezvous, of a connection ---------------------------------------------------

    0x08 RendezvousStarted rendezvous:started "The rendezvous of a TCP connection began." {
        side: Side = "Side of this endpoint.",
        option: bool = "Whether both SYNs carried the SMC option.",
    }
    0x09 RendezvousMoved rendezvous:moved "The rendezvous went to another state." {
        old: RendezvousStep = "State before.",
        new: RendezvousStep = "State now.",
    }
    0x0a Declining rendezvous:declining "This side decided to decline." {
        code: DiagnosisCode = "Diagnosis code of the Decline.",
        out_of_sync: bool = "Whether the peer is asked to give the link group up.",
        crossing: bool = "Whether a Decline of the peer may cross this one.",
    }
    0x0b FellBack rendezvous:fell_back "The connection is plain TCP." {
        code: DiagnosisCode = "Diagnosis code of this side.",
        peer_code: Option<DiagnosisCode> = "Diagnosis code in the peer's Decline.",
    }
    0x0c Established rendezvous:established "Data can flow over SMC." {
        group: GroupId = "Link group of the connection.",
        first_contact: bool = "Whether the connection created the group.",
        technology: Technology = "How bytes get to the peer.",
    }

    // ---- connection --------------------------------------------------------------------

    0x10 ConnMoved conn:moved "The close handshake went to another state." {
        old: CloseState = "State before.",
        new: CloseState = "State now.",
        cause: Option<CloseCause> = "Why the connection ends, once that is known.",
    }
    0x11 ConnClosed conn:closed "The connection ended." {
        reason: CloseReason = "How.",
    }
    0x12 ConnFreed conn:freed "The slot of the connection is free again."
    0x13 LinkChanged conn:link_changed "The connection goes on over another link." {
        from: LinkNumber = "Number of the link before.",
        to: LinkId = "The link now.",
    }
    0x14 TcpAction conn:tcp_action "The embedder is to do something with the TCP connection." {
        action: TcpAction = "What.",
    }
    0x15 TcpFin conn:tcp_fin "The peer sent FIN on the TCP connection."
    0x16 TcpReset conn:tcp_reset "The TCP connection was reset by the peer."
    0x17 TcpFailed conn:tcp_failed "The TCP connection failed."
    0x18 Lent conn:lent
        "The data path was lent to a thread: its messages and cursors make no events until it is \
         returned."
    0x19 Returned conn:returned "The data path was returned." {
        sent: u32 = "CDC messages sent meanwhile.",
        received: u32 = "CDC messages received meanwhile.",
    }

    // ---- CDC, of a connection ----------------------------------------------------------

    0x20 CdcSent cdc:sent "A CDC message is sent." {
        sequence: u16 = "Its sequence number.",
        producer: u32 = "Count of its producer cursor.",
        consumer: u32 = "Count of its consumer cursor.",
        producer_flags: Flags = "Byte 24: B, P, U, R, F.",
        connection_flags: Flags = "Byte 25: D, C, A.",
    }
    0x21 CdcReceived cdc:received "A CDC message was received." {
        sequence: u16 = "Its sequence number; 0 over SMC-D.",
        producer: u32 = "Count of its producer cursor.",
        consumer: u32 = "Count of its consumer cursor.",
        producer_flags: Flags = "Byte 24: B, P, U, R, F.",
        connection_flags: Flags = "Byte 25: D, C, A.",
    }
    0x23 CdcStale cdc:stale "The message is not newer than the last one: it was ignored."
    0x24 CdcBackward cdc:backward
        "A cursor of the message is behind the last one and was kept, the rest was applied."
    0x25 CdcViolation cdc:violation "The message breaks the protocol: the connection aborts." {
        fault: PeerMisbehaved = "How.",
    }
    0x26 CdcIgnored cdc:ignored "The connection takes no message in its state." {
        state: CloseState = "The state.",
    }
    0x27 CdcValidated cdc:validated "The message validates a failover: nothing is missing."
    0x28 CdcDataLost cdc:data_lost "The message validates a failover: data was lost."
    0x29 CdcUnknown cdc:unknown "A CDC message is for no connection of the link group." {
        token: Option<AlertToken> = "Its alert token; none over SMC-D.",
    }
    0x2a CdcEarly cdc:early "A CDC message was received during the rendezvous, and is kept." {
        sequence: u16 = "Its sequence number; 0 over SMC-D.",
    }

    // ---- data, of a connection ---------------------------------------------------------

    0x30 Produced data:produced "The application gave bytes to be sent." {
        bytes: u32 = "How many.",
        total: u64 = "Bytes since the connection began.",
    }
    0x31 Written data:written "Bytes were written to the peer's ring." {
        bytes: u32 = "How many.",
        total: u64 = "Bytes since the connection began.",
    }
    0x32 Rewound data:rewound "Bytes are to be written again, over another link." {
        bytes: u32 = "How many.",
        total: u64 = "Bytes written since the connection began, without these.",
    }
    0x33 PeerConsumed data:peer_consumed "The peer's consumer cursor moved." {
        bytes: u32 = "How far.",
        total: u64 = "Bytes since the connection began.",
    }
    0x34 Received data:received "The peer's producer cursor moved." {
        bytes: u32 = "How far.",
        total: u64 = "Bytes since the connection began.",
    }
    0x35 Consumed data:consumed "The application read bytes." {
        bytes: u32 = "How many.",
        total: u64 = "Bytes since the connection began.",
    }
    0x36 WindowFull data:window_full "The peer's ring is full."
    0x37 WindowOpen data:window_open "The peer's ring has room again." {
        bytes: u32 = "How much.",
    }
    0x38 BufferFull data:buffer_full "The send buffer is full."
    0x39 BufferOpen data:buffer_open "The send buffer has room again, or writes fail from now on."
    0x3a Released data:released
        "Bytes of the send buffer are free: messages about them completed, or the peer read them." {
        bytes: u32 = "How many.",
        total: u64 = "Bytes since the connection began.",
    }
    0x3b UrgentReceived data:urgent_received "The peer announced urgent data." {
        present: bool = "Whether the urgent byte is in the ring.",
    }

    // ---- LLC, of a link ----------------------------------------------------------------

    0x40 LlcSent llc:sent "An LLC message is sent." {
        message: LlcKind = "Its type.",
        reply: bool = "Whether it is a reply.",
        version: SmcVersion = "Its form.",
        flags: Flags = "Byte 3: R and others.",
        link: Option<LinkNumber> = "The link that it deletes, 0 if all.",
        reason: Option<DeleteLinkReason> = "Why, in DELETE LINK.",
    }
    0x41 LlcReceived llc:received "An LLC message was received." {
        message: LlcKind = "Its type.",
        reply: bool = "Whether it is a reply.",
        version: SmcVersion = "Its form.",
        flags: Flags = "Byte 3: R and others.",
        link: Option<LinkNumber> = "The link that it deletes, 0 if all.",
        reason: Option<DeleteLinkReason> = "Why, in DELETE LINK.",
    }
    0x42 LlcIgnored llc:ignored
        "A message was dropped: of an unknown optional type, or for a link or group that ends." {
        message: u8 = "Its type byte.",
    }
    0x43 LlcMalformed llc:malformed "A SEND is no message: the link fails." {
        message: u8 = "Its type byte.",
        length: u16 = "Its length in bytes.",
    }

    // ---- link --------------------------------------------------------------------------

    0x50 LinkCreated link:created "A link was created." {
        group: GroupId = "Its link group.",
        device: DeviceId = "Its RNIC.",
        port: u8 = "Its port.",
    }
    0x51 LinkMoved link:moved "The link went to another state." {
        old: LinkStep = "State before.",
        new: LinkStep = "State now.",
        reason: Option<DeleteLinkReason> = "Why it is removed.",
        failed: bool = "Whether it failed.",
    }
    0x52 QpMoved link:qp_moved "The queue pair of the link went to another state." {
        old: QpStep = "State before.",
        new: QpStep = "State now.",
    }
    0x53 LinkUp link:up "Connections can use the link." {
        number: LinkNumber = "Its number.",
        group: GroupId = "Its link group.",
    }
    0x54 LinkFreed link:freed "The slot of the link is free again." {
        group: GroupId = "The link group that it belonged to.",
    }
    0x55 LinkBroken link:broken "The RNIC reported that the queue pair broke." {
        cause: LinkFailure = "Why.",
    }
    0x56 LinkRefused link:refused "The RNIC refused a command of the link."
    0x57 LinkFailed link:failed "The link is given up." {
        reason: DeleteLinkReason = "Why.",
        close: CloseReason = "What becomes of connections that have no other link.",
    }
    0x58 Violation link:violation "The peer broke the protocol on the link."

    // ---- link group --------------------------------------------------------------------

    0x60 GroupCreated group:created "A link group was created." {
        side: Side = "Side of this endpoint.",
        technology: Technology = "How bytes get to the peer.",
        version: SmcVersion = "Version of the protocol.",
    }
    0x61 GroupMoved group:moved "The link group went to another state." {
        old: GroupStep = "State before.",
        new: GroupStep = "State now.",
        reason: Option<CloseReason> = "Why it ends.",
    }
    0x62 GroupJoined group:joined "A connection belongs to the link group." {
        conn: ConnId = "The connection.",
    }
    0x63 GroupLeft group:left "A connection left the link group." {
        conn: ConnId = "The connection.",
    }
    0x64 GroupFreed group:freed "The slot of the link group is free again."

    // ---- buffer ------------------------------------------------------------------------

    0x70 BufferCreated buffer:created "A buffer is needed." {
        buffer: BufferKind = "What it is for.",
        elements: u8 = "Number of elements.",
        bytes: u32 = "Bytes of each element.",
    }
    0x71 BufferAllocated buffer:allocated "The buffer has memory."
    0x72 BufferRegistered buffer:registered "The buffer is registered with the RNIC of a link." {
        link: LinkId = "The link.",
    }
    0x73 BufferDeregistered buffer:deregistered "A registration of the buffer is undone." {
        link: LinkId = "The link.",
    }
    0x74 BufferRefused buffer:refused "The device refused a command of the buffer." {
        step: BufferStep = "What it was to do.",
    }
    0x75 BufferFreed buffer:freed "The slot of the buffer is free again."
    0x76 ElementAssigned buffer:assigned
        "The buffer, or an element of it, was assigned to a connection." {
        conn: ConnId = "The connection.",
        element: u8 = "Index of the element, from 1.",
    }
    0x77 ElementReleased buffer:released "A connection released the buffer, or its element." {
        conn: ConnId = "The connection.",
    }
    0x78 ElementCleared buffer:cleared "An element of the buffer was zeroed."
    0x79 DmbRegistered buffer:dmb_registered "The buffer is a DMB that the peer can write to." {
        token: DmbToken = "Its token.",
    }
    0x7a DmbAttached buffer:dmb_attached "The DMB of the peer is mapped as send buffer."
    0x7b DmbDetached buffer:dmb_detached "The DMB of the peer is no longer mapped."
    0x7c DmbWithdrawn buffer:dmb_withdrawn "The peer took its DMB back."

    // ---- timers, of any object ---------------------------------------------------------

    0x80 TimerArmed timer:armed "A deadline was set." {
        timer: TimerKind = "What for.",
        at: Instant = "When it passes, in nanoseconds.",
    }
    0x81 TimerStopped timer:stopped "A deadline was cleared." {
        timer: TimerKind = "What for.",
    }
    0x82 TimerFired timer:fired "A deadline passed." {
        timer: TimerKind = "What for.",
    }

    // ---- device ------------------------------------------------------------------------

    0x90 PortUp device:port_up "A port has carrier." {
        port: u8 = "The port.",
    }
    0x91 PortDown device:port_down "A port lost its carrier." {
        port: u8 = "The port.",
    }
    0x92 DeviceRemoved device:removed "The device is gone."
    0x93 PeerVanished device:peer_vanished "A peer of the ISM device is gone."
    0x94 IsmEvent device:ism_event "A peer of the ISM device sent an event." {
        code: u32 = "Its code.",
    }
}
