//! The types at the seams: commands, completions, events, settings, handles.

use smc_proto::adapter::Rnic;
use smc_proto::command::{
    BufferKind, DataTransmit, DataWrite, QpAddress, RdmaCommand, Segment, TcpCommand,
};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::config::{
    Config, ConnectionConfig, Offers, OnSilence, ProposalVersion, Timeouts, UrgentFlags, UserEids,
    V2Config,
};
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::{
    AnswerError, BufferSpans, ClcError, ClcProgress, ConnOptions, Endpoint, Next, OpenError,
    PollOutcome, ReadOutcome, TcpEvent, Usage,
};
use smc_proto::event::{CloseReason, Event, FallbackReason};
use smc_proto::id::{BufferId, ConnId, DeviceId, GroupId, LanId, LinkId, WrId};
use smc_proto::path::{IsmPath, LocalPath, PathEvent, Paths, RoceVersion, Route};
use smc_proto::stats::Statistics;
use smc_proto::storage::{Pool, PoolHead, Slot, Storage};
use smc_proto::time::{Duration, Instant};
use smc_proto::version::{SmcVersion, Technology, Terms};
use smc_proto::wire::clc::{ClcKind, ClcMessage, Subnets};
use smc_proto::wire::types::{
    DiagnosisCode, Eid, Gid, IsmGid, Mac, Mtu, PeerId, Psn, Qpn, RKey, RToken,
};

use crate::fabric::Tables;
use crate::input::Input;
use crate::observed::{Stored, stored};
use crate::rnic::{self, Nic};
use crate::sink::{Sink, keep};
use crate::values::Any;

/// Handles of live objects: they cannot be made up.
#[derive(Clone, Copy)]
pub struct Handles {
    pub conn: ConnId,
    pub group: GroupId,
    pub link: LinkId,
    pub buffer: BufferId,
}

/// Prints, compares, copies and hashes all of them.
pub fn all(input: &mut Input, sink: &mut Sink, handles: Handles) {
    let Handles {
        conn,
        group,
        link,
        buffer,
    } = handles;
    sink.shown(&conn, &conn);
    sink.shown(&group, &group);
    sink.shown(&link, &link);
    sink.shown(&buffer, &buffer);
    sink.ordered(&conn, &conn);
    sink.ordered(&group, &group);
    sink.ordered(&link, &link);
    sink.ordered(&buffer, &buffer);
    keep((
        group.index(),
        group.generation(),
        conn.index(),
        conn.generation(),
    ));
    keep((
        link.index(),
        link.generation(),
        buffer.index(),
        buffer.generation(),
    ));
    let (device, wr_id) = (DeviceId(input.octet()), WrId(input.u32()));
    sink.hashed(&device, &DeviceId(1));
    sink.ordered(&device, &DeviceId(1));
    sink.hashed(&wr_id, &WrId(2));
    sink.ordered(&wr_id, &WrId(2));

    time(input, sink);
    let config = Config::new(PeerId::new(1, Mac([2; 6])));
    let mut engine = Endpoint::new(config, input.u64(), stored(Tables::default()));
    rnic::answers(input, sink);
    for _ in 0..16 {
        let drawn = command(input, sink, handles);
        adapter(input, &mut engine, drawn, handles.link);
        completion(input, sink, handles);
        event(input, sink, handles);
    }
    settings(input, sink);
    path(input, sink);
    storage(input, sink);
}

fn time(input: &mut Input, sink: &mut Sink) {
    let (a, b) = (
        Instant::from_nanos(input.u64()),
        Instant::from_nanos(input.u64()),
    );
    sink.shown(&a, &b);
    sink.ordered(&a, &b);
    let duration = Duration::new(input.u64(), input.below(1_000_000_000));
    keep((
        a.after(duration),
        a.since(b),
        a.as_nanos(),
        Instant::default(),
    ));
}

/// Has an RNIC execute a command, and all that the engine has.
fn adapter(
    input: &mut Input,
    engine: &mut Endpoint<Stored<Tables>>,
    command: RdmaCommand,
    link: LinkId,
) {
    let now = Instant::from_nanos(input.u64());
    let completions = (link, input.below(4));
    let mut nic = Nic { input, completions };
    nic.execute(engine, now, command);
    keep(nic.drive(engine, now));
}

fn command(input: &mut Input, sink: &mut Sink, handles: Handles) -> RdmaCommand {
    let Handles {
        conn, link, buffer, ..
    } = handles;
    let kind = input.one_of(&[BufferKind::Rmb, BufferKind::Send]);
    sink.hashed(&kind, &BufferKind::Rmb);
    let segment = Segment {
        offset: input.u32(),
        length: input.u32(),
    };
    sink.value(&segment, &Segment::default());
    let peer = QpAddress::new(
        Qpn::any(input),
        Psn::any(input),
        Gid::any(input),
        Mac::any(input),
    );
    sink.value(&peer, &peer);
    let mut spans = BufferSpans::new(buffer, [segment; 2]);
    spans.eye_catcher_at = input.bit().then_some(4);
    sink.value(&spans, &spans);
    keep((spans.len(), spans.is_empty()));
    let commands = [
        RdmaCommand::CreateQp {
            link,
            device: DeviceId(input.octet()),
            port: input.octet(),
            gid_index: input.u16(),
            receive_size: input.u32(),
        },
        RdmaCommand::ConnectQp {
            link,
            peer,
            mtu: Mtu::any(input),
            hop_limit: input.octet(),
        },
        RdmaCommand::ActivateQp {
            link,
            psn: Psn::any(input),
        },
        RdmaCommand::QpToError { link },
        RdmaCommand::DestroyQp { link },
        RdmaCommand::AllocBuffer {
            buffer,
            kind,
            elements: input.octet(),
            element_size: input.u32(),
            eye_catcher: input.bit(),
        },
        RdmaCommand::RegisterBuffer { buffer, link },
        RdmaCommand::DeregisterBuffer { buffer, link },
        RdmaCommand::FreeBuffer { buffer },
        RdmaCommand::ClearElement {
            buffer,
            offset: input.u32(),
            length: input.u32(),
            eye_catcher: input.bit(),
        },
        RdmaCommand::Write {
            link,
            conn,
            buffer,
            source: [segment; 2],
            rkey: RKey::any(input),
            address: input.u64(),
        },
        RdmaCommand::Send {
            link,
            wr_id: WrId(input.u32()),
            payload: input.octets(),
        },
        RdmaCommand::SendLarge {
            link,
            wr_id: WrId(input.u32()),
            length: input.u32(),
        },
    ];
    let command = input.one_of(&commands);
    sink.value(&command, &command);
    let mut transmit = DataTransmit::EMPTY;
    transmit.writes = [DataWrite::new([Segment::default(); 2], input.u64()); 2];
    sink.value(&transmit, &transmit);
    let [write, _] = transmit.writes;
    sink.value(&write, &write);
    let tcp = input.one_of(&[
        TcpCommand::HandOver {
            watch_for_decline: true,
        },
        TcpCommand::Close,
        TcpCommand::Reset,
    ]);
    sink.value(&tcp, &TcpCommand::Close);
    command
}

fn failure(input: &mut Input) -> LinkFailure {
    input.one_of(&[
        LinkFailure::RetriesExhausted,
        LinkFailure::ReceiverNotReady,
        LinkFailure::RemoteAccess,
        LinkFailure::PortDown,
        LinkFailure::DeviceRemoved,
        LinkFailure::Other,
    ])
}

/// An unsolicited completion of a live object.
pub fn any_completion<'a>(
    input: &mut Input,
    handles: Handles,
    payload: &'a [u8],
) -> RdmaCompletion<'a> {
    let Handles {
        conn, link, buffer, ..
    } = handles;
    let completions = [
        RdmaCompletion::QpCreated {
            link,
            qpn: Qpn::any(input),
        },
        RdmaCompletion::QpConnected { link },
        RdmaCompletion::QpActive { link },
        RdmaCompletion::QpDrained { link },
        RdmaCompletion::QpDestroyed { link },
        RdmaCompletion::BufferAllocated { buffer },
        RdmaCompletion::BufferRegistered {
            buffer,
            link,
            rtoken: RToken::any(input),
        },
        RdmaCompletion::BufferDeregistered { buffer, link },
        RdmaCompletion::BufferFreed { buffer },
        RdmaCompletion::ElementCleared {
            buffer,
            offset: input.u32(),
        },
        RdmaCompletion::Sent {
            link,
            wr_id: WrId(input.u32()),
        },
        RdmaCompletion::Received { link, payload },
        RdmaCompletion::LinkRefused { link },
        RdmaCompletion::BufferRefused { buffer },
        RdmaCompletion::LinkFailed {
            link,
            cause: failure(input),
            conn: input.bit().then_some(conn),
        },
        RdmaCompletion::EyeCatcherDamaged { conn },
    ];
    input.one_of(&completions)
}

fn completion(input: &mut Input, sink: &mut Sink, handles: Handles) {
    let payload: [u8; 44] = input.octets();
    let completion = any_completion(input, handles, &payload);
    sink.value(&completion, &completion);
    let cause = failure(input);
    sink.hashed(&cause, &LinkFailure::Other);
}

fn event(input: &mut Input, sink: &mut Sink, handles: Handles) {
    let Handles {
        conn, group, link, ..
    } = handles;
    let mut why = FallbackReason::new(DiagnosisCode::any(input));
    why.peer_diagnosis = input.bit().then(|| DiagnosisCode::any(input));
    sink.value(&why, &why);
    sink.display(&why);
    let reason = input.one_of(&[
        CloseReason::Normal,
        CloseReason::LocalAbort,
        CloseReason::PeerAbort,
        CloseReason::TcpReset,
        CloseReason::CloseTimeout,
        CloseReason::LinksLost,
        CloseReason::PeerMisbehaved,
        CloseReason::RendezvousFailed,
        CloseReason::EyeCatcherDamaged,
        CloseReason::DataLost,
        CloseReason::RmbeConflict,
    ]);
    sink.shown(&reason, &CloseReason::Normal);
    let event = input.one_of(&[
        Event::Proposed { conn },
        Event::Established {
            conn,
            group,
            first_contact: true,
        },
        Event::FellBack { conn, why },
        Event::Readable { conn },
        Event::Writable { conn },
        Event::Urgent { conn },
        Event::Closed { conn, reason },
        Event::GroupUp { group },
        Event::GroupDown { group },
        Event::LinkUp { group, link },
        Event::LinkDown { group, link },
    ]);
    sink.value(&event, &event);

    let next = input.one_of(&[Next::Clc, Next::MaybeDecline, Next::Stop]);
    sink.value(&next, &Next::Stop);
    let progress = input.one_of(&[
        ClcProgress::NeedMore { total: 9 },
        ClcProgress::Consumed { len: 3, next },
        ClcProgress::NotClc,
    ]);
    sink.value(&progress, &ClcProgress::NotClc);
    let mut error = ClcError::Unexpected {
        kind: ClcKind::any(input),
    };
    if let Err(parse) = ClcMessage::parse(&input.octets::<20>()) {
        error = input.one_of(&[error, ClcError::OutOfTurn, ClcError::Parse(parse)]);
    }
    sink.value(&error, &ClcError::OutOfTurn);
    sink.display(&error);
    let tcp = input.one_of(&[TcpEvent::PeerFin, TcpEvent::PeerReset, TcpEvent::Failed]);
    sink.hashed(&tcp, &TcpEvent::Failed);
    let (full, answer) = (
        input.one_of(&[OpenError::Full]),
        input.one_of(&[AnswerError::NotProposed]),
    );
    sink.value(&full, &OpenError::Full);
    sink.display(&full);
    sink.value(&answer, &AnswerError::NotProposed);
    sink.display(&answer);
    let how = input.one_of(&[Shutdown::Read, Shutdown::Write, Shutdown::Both]);
    sink.hashed(&how, &Shutdown::Read);
}

fn settings(input: &mut Input, sink: &mut Sink) {
    let mut config = Config::new(PeerId::any(input));
    config.proposal_version = input.one_of(&[ProposalVersion::V1, ProposalVersion::V2]);
    config.confirm_link_timeout = input.one_of(&[OnSilence::Interoperate, OnSilence::Reset]);
    config.timeouts.keepalive = Duration::from_nanos(input.u64());
    config.connection.coalesce_limit = input.u32();
    config.connection.urgent_flags = input.one_of(&[UrgentFlags::Interoperate, UrgentFlags::Keep]);
    sink.value(&config, &config);
    sink.value(&config.proposal_version, &ProposalVersion::V1);
    sink.value(&config.confirm_link_timeout, &OnSilence::Reset);
    sink.value(&config.connection.urgent_flags, &UrgentFlags::Keep);
    sink.value(&config.timeouts, &Timeouts::DEFAULT);
    sink.value(&config.connection, &ConnectionConfig::DEFAULT);
    let mut eids = UserEids::NONE;
    keep((eids.push(Eid::any(input)), eids.as_slice().len()));
    config.v2.ueids = eids;
    config.offers = Offers::from_bits_truncate(input.octet());
    sink.value(&config.v2, &V2Config::DEFAULT);
    sink.value(&eids, &UserEids::default());
    sink.hashed(&config.offers, &Offers::SMCR);
    let options = ConnOptions::new(Subnets::any(input));
    sink.value(&options, &options);
    let mut statistics = Statistics::default();
    statistics.clc_sent = input.u64();
    sink.value(&statistics, &Statistics::default());
    sink.value(&Usage::default(), &Usage::default());
}

fn path(input: &mut Input, sink: &mut Sink) {
    let mut path = LocalPath::new(
        DeviceId(input.octet()),
        input.octet(),
        Gid::any(input),
        Mac::any(input),
    );
    path.gid_index = input.u16();
    path.mtu = Mtu::any(input);
    path.lan = LanId(input.u16());
    path.subnet_match = input.bit();
    sink.hashed(&path, &path);
    sink.hashed(&path.roce, &RoceVersion::V2);
    sink.hashed(&path.route, &Route::Gateway);
    let version = path.roce.smc();
    sink.ordered(&version, &SmcVersion::V2);
    sink.display(&version);
    keep(version.clc());
    let technology = input.one_of(&[Technology::SmcR, Technology::SmcD]);
    sink.hashed(&technology, &Technology::SmcD);
    sink.display(&technology);
    let polled = input.one_of(&[
        PollOutcome::Nothing,
        PollOutcome::Cursors,
        PollOutcome::More,
    ]);
    sink.hashed(&polled, &PollOutcome::More);
    let taken = ReadOutcome {
        bytes: input.u32(),
        follows: input.bit(),
    };
    sink.hashed(&taken, &taken);
    let terms = Terms::of(technology, version);
    sink.hashed(&terms, &terms);
    let mut ism = IsmPath::new(path.device, IsmGid::any(input));
    ism.pnet_match = input.bit();
    ism.reaches_v1 = input.bit();
    ism.v2 = input.bit();
    ism.attaches = input.bit();
    sink.hashed(&ism, &ism);
    let nothing = Paths::default();
    #[allow(clippy::clone_on_copy)]
    sink.debug(&nothing.clone());
    sink.debug(&Paths::from(&[path]));
    sink.value(&path.lan, &path.lan);
    sink.ordered(&path.lan, &LanId::default());
    let (device, port) = (path.device, path.port);
    let event = input.one_of(&[
        PathEvent::PortDown { device, port },
        PathEvent::PortUp(path),
        PathEvent::DeviceRemoved { device },
    ]);
    sink.hashed(&event, &event);
}

fn storage(input: &mut Input, sink: &mut Sink) {
    let mut tables = stored(Tables::default());
    sink.debug(&tables);
    sink.debug(&tables.tables());
    sink.debug(&tables.views());
    let copy = tables.clone();
    sink.debug(&copy);
    let mut head = PoolHead::EMPTY;
    sink.debug(&head.clone());
    keep(head.used());
    let mut slots = [const { Slot::<u64>::EMPTY }; 3];
    sink.debug(&slots.clone());
    sink.debug(&Pool::new(&mut head, &mut slots));
    keep(input.bit());
}

/// Reads all that an endpoint in use reports of itself.
pub fn endpoint<S: Storage + Clone + core::fmt::Debug>(
    endpoint: &mut Endpoint<S>,
    now: Instant,
    conn: ConnId,
    sink: &mut Sink,
) {
    sink.debug(endpoint);
    sink.debug(&endpoint.clone());
    sink.value(&endpoint.usage(), &Usage::default());
    sink.value(endpoint.statistics(), &Statistics::default());
    sink.value(endpoint.config(), &Config::new(PeerId::default()));
    keep((endpoint.last_steps(), endpoint.poll_timeout()));
    if let Some(proposed) = endpoint.proposal(conn) {
        sink.hashed(&proposed, &proposed);
        if let Some(v2) = &proposed.v2 {
            sink.hashed(v2, v2);
        }
        keep(proposed.ism_gids().last());
    }
    endpoint.fingerprint(now, sink);
    if let Some(connection) = endpoint.conn(conn) {
        sink.debug(&connection);
        keep((connection.state(), connection.is_end_of_stream()));
        keep(connection.is_all_sent());
        keep((connection.send_space(), connection.readable()));
    }
}
