//! Values of every type of `smc_proto::wire`, built from run-time input, and
//! everything that can be done with them.

use bitflags::Flags;
use core::fmt::{Binary, LowerHex, Octal, UpperHex};
use core::hash::Hash;
use core::net::{Ipv4Addr, Ipv6Addr};

use smc_proto::config::Offers;
use smc_proto::connection::Notices;
use smc_proto::version::SmcVersion;
use smc_proto::wire::BufferTooSmall;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::{
    AcceptConfirm, AcceptConfirmV2, ClcKind, ClcMessage, ClcVersion, Decline, Ipv6Prefix, IsmArea,
    MAX_LENGTH, OfferedPath, PeerOs, Proposal, SmcdAcceptConfirm, Subnets, V2Offer,
};
use smc_proto::wire::llc::{
    AddLink, AddLinkContinuation, AddLinkExtension, ConfirmLink, ConfirmLinkFlags, ConfirmRkey,
    ConfirmRkeyContinuation, DeleteLink, DeleteLinkFlags, DeleteRkey, Entries, LinkRToken,
    LlcMessage, RTokenPair, RkeyFlags, TestLink,
};
use smc_proto::wire::types::{
    AddLinkRejectReason, AlertToken, BoundedList, BufferSize, Chid, Cursor, DeleteLinkReason,
    DiagnosisCode, FeatureMask, Gid, LinkNumber, LinkUserId, Mac, Mtu, PeerId, Psn, Qpn, RKey,
    RToken, RmbeIndex,
};

use crate::input::Input;
use crate::sink::{Sink, keep};

/// A value made of run-time input.
pub trait Any: Sized {
    fn any(input: &mut Input) -> Self;
}

macro_rules! any {
    ($($name:ty: |$input:ident| $value:expr;)*) => {$(
        impl Any for $name {
            fn any($input: &mut Input) -> Self {
                $value
            }
        }
    )*};
}

pub(crate) use any;

any! {
    Mac: |i| Mac(i.octets());
    Gid: |i| Gid(i.octets());
    PeerId: |i| PeerId::new(i.u16(), Mac::any(i));
    Qpn: |i| if i.bit() { Qpn::new(i.u32()) } else { Qpn::from_octets(i.octets()) };
    Psn: |i| if i.bit() { Psn::new(i.u32()) } else { Psn::from_octets(i.octets()) };
    RKey: |i| RKey(i.u32());
    RToken: |i| RToken { rkey: RKey::any(i), address: i.u64() };
    RmbeIndex: |i| RmbeIndex(i.octet());
    AlertToken: |i| AlertToken(i.u32());
    LinkNumber: |i| LinkNumber(i.octet());
    LinkUserId: |i| LinkUserId(i.u32());
    Mtu: |i| Mtu::from_code(i.octet());
    BufferSize: |i| {
        if i.bit() { BufferSize::from_code(i.octet()) } else { BufferSize::at_least(i.u32()) }
    };
    Cursor: |i| Cursor { wrap: i.u16(), count: i.u32() };
    DiagnosisCode: |i| {
        let any = DiagnosisCode(i.u32());
        i.one_of(&[any, DiagnosisCode::MEMORY, DiagnosisCode::OUT_OF_SYNC, DiagnosisCode::VLAN])
    };
    DeleteLinkReason: |i| {
        let any = DeleteLinkReason(i.u32());
        i.one_of(&[any, DeleteLinkReason::LOST_PATH, DeleteLinkReason::UNKNOWN_LINK])
    };
    AddLinkRejectReason: |i| AddLinkRejectReason(i.octet() & 0x0f);
    PeerOs: |i| PeerOs(i.octet() & 0x0f);
    ClcVersion: |i| ClcVersion::new(i.octet()).unwrap_or(ClcVersion::V1);
    ClcKind: |i| {
        i.one_of(&[ClcKind::Proposal, ClcKind::Accept, ClcKind::Confirm, ClcKind::Decline])
    };
    OfferedPath: |i| {
        i.one_of(&[OfferedPath::SmcR, OfferedPath::SmcD, OfferedPath::Neither, OfferedPath::Both])
    };
    IsmArea: |i| IsmArea { gid: i.u64(), chid: Chid::any(i) };
    Ipv6Prefix: |i| Ipv6Prefix { address: Ipv6Addr::from(i.octets::<16>()), length: i.octet() };
    Subnets: |i| {
        let mut subnets = Subnets::ipv4(Ipv4Addr::from(i.octets::<4>()), i.octet());
        for _ in 0..i.below(10) {
            // The ninth and tenth find no room.
            let _ = subnets.ipv6.push(Ipv6Prefix::any(i));
        }
        for prefix in &mut subnets.ipv6 {
            prefix.length = i.octet();
        }
        if subnets.ipv6.is_full() {
            return Subnets::ipv6([Ipv6Prefix::any(i); 9]);
        }
        subnets
    };
    Proposal: |i| Proposal {
        version: ClcVersion::any(i),
        v1: OfferedPath::any(i),
        peer_id: PeerId::any(i),
        gid: Gid::any(i),
        mac: Mac::any(i),
        ism: i.bit().then(|| IsmArea::any(i)),
        subnets: Subnets::any(i),
        v2_offer: i.bit().then(|| V2Offer::any(i)),
    };
    AcceptConfirm: |i| AcceptConfirm {
        first_contact: i.bit(),
        peer_id: PeerId::any(i),
        gid: Gid::any(i),
        mac: Mac::any(i),
        qpn: Qpn::any(i),
        rtoken: RToken::any(i),
        rmbe_index: RmbeIndex::any(i),
        alert_token: AlertToken::any(i),
        buffer_size: BufferSize::any(i),
        mtu: Mtu::any(i),
        psn: Psn::any(i),
        v2: i.bit().then(|| AcceptConfirmV2::any(i)),
    };
    Decline: |i| Decline {
        version: ClcVersion::any(i),
        out_of_sync: i.bit(),
        peer_id: PeerId::any(i),
        diagnosis: DiagnosisCode::any(i),
        os: PeerOs::any(i),
    };
    Notices: |i| Notices::from_bits_retain(i.u16());
    ProducerFlags: |i| ProducerFlags::from_bits_retain(i.octet());
    ConnectionFlags: |i| ConnectionFlags::from_bits_retain(i.octet());
    ConfirmLinkFlags: |i| ConfirmLinkFlags::from_bits_retain(i.octet());
    RkeyFlags: |i| RkeyFlags::from_bits_retain(i.octet());
    DeleteLinkFlags: |i| DeleteLinkFlags::from_bits_retain(i.octet());
    Cdc: |i| Cdc {
        sequence: i.u16(),
        alert_token: AlertToken::any(i),
        producer: Cursor::any(i),
        consumer: Cursor::any(i),
        producer_flags: ProducerFlags::any(i),
        connection_flags: ConnectionFlags::any(i),
    };
    LinkRToken: |i| LinkRToken { link: LinkNumber::any(i), rtoken: RToken::any(i) };
    RTokenPair: |i| RTokenPair { reference: RKey::any(i), new: RToken::any(i) };
    ConfirmLink: |i| ConfirmLink {
        reply: i.bit(),
        flags: ConfirmLinkFlags::any(i),
        mac: Mac::any(i),
        gid: Gid::any(i),
        qpn: Qpn::any(i),
        link: LinkNumber::any(i),
        user_id: LinkUserId::any(i),
        max_links: i.octet(),
        max_connections: i.octet(),
    };
    AddLink<'static>: |i| AddLink {
        reply: i.bit(),
        rejection: i.bit().then(|| AddLinkRejectReason::any(i)),
        mac: Mac::any(i),
        gid: Gid::any(i),
        qpn: Qpn::any(i),
        link: LinkNumber::any(i),
        mtu: Mtu::any(i),
        psn: Psn::any(i),
        extension: i.bit().then(|| AddLinkExtension {
            direct: i.bit(),
            target_gid: Gid::any(i),
            rtokens: Entries::inline((0..i.below(3)).map(|_| RTokenPair::any(i))),
        }),
    };
    AddLinkContinuation: |i| {
        let mut message = AddLinkContinuation {
            reply: i.bit(),
            link: LinkNumber::any(i),
            remaining: i.octet(),
            pairs: Default::default(),
        };
        for _ in 0..i.below(4) {
            let _ = message.pairs.push(RTokenPair::any(i));
        }
        message
    };
    DeleteLink: |i| DeleteLink {
        reply: i.bit(),
        flags: DeleteLinkFlags::any(i),
        link: LinkNumber::any(i),
        reason: DeleteLinkReason::any(i),
    };
    ConfirmRkey: |i| {
        let mut message = ConfirmRkey {
            reply: i.bit(),
            flags: RkeyFlags::any(i),
            rtoken: RToken::any(i),
            other_links: i.octet(),
            others: Default::default(),
        };
        for _ in 0..i.below(4) {
            let _ = message.others.push(LinkRToken::any(i));
        }
        message
    };
    ConfirmRkeyContinuation: |i| {
        let mut message = ConfirmRkeyContinuation {
            reply: i.bit(),
            flags: RkeyFlags::any(i),
            remaining: i.octet(),
            others: Default::default(),
        };
        for _ in 0..i.below(5) {
            let _ = message.others.push(LinkRToken::any(i));
        }
        message
    };
    TestLink: |i| TestLink { reply: i.bit(), user_data: i.octets() };
    DeleteRkey<'static>: |i| DeleteRkey {
        reply: i.bit(),
        flags: RkeyFlags::any(i),
        unknown: i.octet(),
        rkeys: Entries::inline((0..i.below(10)).map(|_| RKey::any(i))),
    };
    ClcMessage: |i| match i.octet() & 7 {
        0 => ClcMessage::Proposal(Proposal::any(i)),
        1 => ClcMessage::Accept(AcceptConfirm::any(i)),
        2 => ClcMessage::Confirm(AcceptConfirm::any(i)),
        3 => ClcMessage::SmcdAccept(SmcdAcceptConfirm::any(i)),
        4 => ClcMessage::SmcdConfirm(SmcdAcceptConfirm::any(i)),
        _ => ClcMessage::Decline(Decline::any(i)),
    };
    LlcMessage<'static>: |i| match i.octet() & 7 {
        0 => LlcMessage::ConfirmLink(ConfirmLink::any(i)),
        1 => LlcMessage::AddLink(AddLink::any(i)),
        2 => LlcMessage::AddLinkContinuation(AddLinkContinuation::any(i)),
        3 => LlcMessage::DeleteLink(DeleteLink::any(i)),
        4 => LlcMessage::ConfirmRkey(ConfirmRkey::any(i)),
        5 => LlcMessage::ConfirmRkeyContinuation(ConfirmRkeyContinuation::any(i)),
        6 => LlcMessage::TestLink(TestLink::any(i)),
        _ => LlcMessage::DeleteRkey(DeleteRkey::any(i)),
    };
    Offers: |i| Offers::from_bits_truncate(i.octet());
    BufferTooSmall: |i| BufferTooSmall { needed: i.u64() as usize };
}

/// Two values and what any shown value can do.
pub fn pair<T>(input: &mut Input, sink: &mut Sink) -> (T, T)
where
    T: Any + Clone + PartialEq + core::fmt::Debug + core::fmt::Display + Hash,
{
    let (a, b) = (T::any(input), T::any(input));
    sink.shown(&a, &b);
    (a, b)
}

pub fn ordered_pair<T>(input: &mut Input, sink: &mut Sink) -> T
where
    T: Any + Clone + core::fmt::Debug + core::fmt::Display + Hash + Ord,
{
    let (a, b) = pair::<T>(input, sink);
    sink.ordered(&a, &b);
    a
}

/// Everything that a type made by `bitflags!` offers.
macro_rules! flags {
    ($sink:expr, $input:expr, $($name:ident),*) => {$({
        let (sink, input): (&mut Sink, &mut Input) = ($sink, $input);
        let (mut a, b) = ($name::any(input), $name::any(input));
        flag_traits(sink, input, a, b);
        let name = core::str::from_utf8(input.all()).unwrap_or("URGENT");
        keep($name::from_name(name));
        keep($name::from_bits(b.bits()));
        keep($name::from_bits_truncate(b.bits()));
        keep(($name::empty(), $name::all(), a.is_empty(), a.is_all()));
        keep((a.intersects(b), a.contains(b), a.complement()));
        keep((a.intersection(b), a.union(b), a.difference(b), a.symmetric_difference(b)));
        for (name, flag) in a.iter_names() {
            sink.display(name);
            sink.hash(&flag);
        }
        for flag in b.iter() {
            sink.debug(&flag);
        }
        a.insert(b);
        a.toggle(b);
        a.set(b, input.bit());
        a.remove($name::any(input));
        keep(a);
    })*};
}

/// What it implements; `-` is the difference of sets.
#[allow(clippy::arithmetic_side_effects)]
pub fn flag_traits<F>(sink: &mut Sink, input: &mut Input, a: F, b: F)
where
    F: Flags + Copy + PartialEq + core::fmt::Debug + Hash + Default + Binary + Octal,
    F: LowerHex + UpperHex + FromIterator<F> + Extend<F> + IntoIterator<Item = F>,
    F: core::ops::BitOr<Output = F> + core::ops::BitAnd<Output = F>,
    F: core::ops::BitXor<Output = F> + core::ops::Sub<Output = F> + core::ops::Not<Output = F>,
    F: core::ops::BitOrAssign + core::ops::BitAndAssign + core::ops::BitXorAssign,
    F: core::ops::SubAssign,
    F::Bits: core::fmt::Debug,
{
    sink.hashed(&a, &b);
    let _ = core::fmt::write(sink, format_args!("{a:b} {a:o} {a:x} {a:X} {a:#010b}"));
    keep((a | b, a & b, a ^ b, a - b, !a));
    let mut c = F::default();
    c |= a;
    c &= b;
    c ^= a;
    c -= b;
    let mut d: F = a.into_iter().collect();
    d.extend(b);
    sink.debug(&Flags::bits(&d));
    keep(<F as Flags>::from_bits_retain(Flags::bits(&c)));
    keep(F::all_named());
    keep(input.bit());
}

/// Everything the codec offers, on values made of the input.
pub fn wire(input: &mut Input, sink: &mut Sink) {
    let mac = ordered_pair::<Mac>(input, sink);
    keep((
        ordered_pair::<Gid>(input, sink),
        ordered_pair::<PeerId>(input, sink),
    ));
    keep(PeerId::new(input.u16(), mac));
    let (qpn, psn) = (
        ordered_pair::<Qpn>(input, sink),
        ordered_pair::<Psn>(input, sink),
    );
    keep((qpn.octets(), qpn.value(), psn.octets(), psn.value()));
    keep((
        ordered_pair::<RKey>(input, sink),
        ordered_pair::<RToken>(input, sink),
    ));
    keep((
        ordered_pair::<RmbeIndex>(input, sink),
        ordered_pair::<AlertToken>(input, sink),
    ));
    keep((
        ordered_pair::<LinkNumber>(input, sink),
        ordered_pair::<LinkUserId>(input, sink),
    ));
    let (mtu, size) = (
        ordered_pair::<Mtu>(input, sink),
        ordered_pair::<BufferSize>(input, sink),
    );
    keep((
        mtu.code(),
        mtu.octets(),
        size.code(),
        size.octets(),
        size.is_rfc7609(),
    ));
    keep(pair::<Cursor>(input, sink));
    keep(ordered_pair::<DiagnosisCode>(input, sink).meaning());
    keep(ordered_pair::<DeleteLinkReason>(input, sink).meaning());
    keep(ordered_pair::<AddLinkRejectReason>(input, sink).meaning());
    keep(ordered_pair::<PeerOs>(input, sink).meaning());
    let version = ordered_pair::<ClcVersion>(input, sink);
    keep((version.number(), version.is_v1()));
    keep(pair::<ClcKind>(input, sink));
    let (path, _) = pair::<OfferedPath>(input, sink);
    keep((path.has_smcd(), path.has_smcr()));
    sink.hashed(&IsmArea::any(input), &IsmArea::any(input));
    sink.hashed(&Ipv6Prefix::any(input), &Ipv6Prefix::any(input));
    keep(pair::<Subnets>(input, sink));
    keep(pair::<BufferTooSmall>(input, sink));
    keep((
        pair::<LinkRToken>(input, sink),
        pair::<RTokenPair>(input, sink),
    ));
    bounded_list(input, sink);

    defaults();
    flags!(
        sink,
        input,
        Offers,
        ProducerFlags,
        ConnectionFlags,
        ConfirmLinkFlags,
        RkeyFlags,
        DeleteLinkFlags,
        FeatureMask
    );
    crate::values_v2::wire(input, sink);
    messages(input, sink);
}

fn bounded_list(input: &mut Input, sink: &mut Sink) {
    let length = input.below(5);
    let mut list: BoundedList<u8, 3> = (0..length).map(|_| input.octet()).collect();
    keep((list.push(input.octet()), list.is_full()));
    list.sort_unstable();
    keep((&list).into_iter().count());
    sink.hashed(&list, &BoundedList::default());
    list.clear();
    keep(list.len());
}

fn defaults() {
    keep((
        Mac::default(),
        Gid::default(),
        PeerId::default(),
        Qpn::default(),
        Psn::default(),
    ));
    keep((
        RKey::default(),
        RToken::default(),
        RmbeIndex::default(),
        AlertToken::default(),
    ));
    keep((LinkNumber::default(), LinkUserId::default(), Mtu::default()));
    keep((
        BufferSize::default(),
        Cursor::default(),
        OfferedPath::default(),
    ));
    keep((
        IsmArea::default(),
        Subnets::default(),
        LinkRToken::default(),
        RTokenPair::default(),
    ));
}

fn messages(input: &mut Input, sink: &mut Sink) {
    keep((
        pair::<Proposal>(input, sink),
        pair::<AcceptConfirm>(input, sink),
    ));
    keep(pair::<Decline>(input, sink));
    for _ in 0..16 {
        let (message, _) = pair::<ClcMessage>(input, sink);
        let mut buffer = [0; MAX_LENGTH];
        let room = input.below(MAX_LENGTH as u32) as usize;
        keep((message.kind(), message.encoded_len()));
        if let Some(part) = buffer.get_mut(..room) {
            sink.value(&message.emit(part), &Ok(room));
        }
        sink.value(&message.emit(&mut buffer), &Ok(room));
        sink.octets(&buffer);

        let (message, _) = pair::<LlcMessage<'_>>(input, sink);
        for version in [SmcVersion::V1, SmcVersion::V2] {
            if let Some(octets) = message.emit_short(version) {
                sink.octets(&octets);
            }
            let line = message.display(version);
            sink.debug(&line);
            sink.display(&line);
            keep((message.kind(version), message.is_reply()));
        }
        keep(message.to_static());
    }
    let (confirm, _) = pair::<ConfirmLink>(input, sink);
    keep(confirm.announces_no_eye_catcher());
    keep(pair::<AddLink<'_>>(input, sink));
    keep(pair::<AddLinkContinuation>(input, sink));
    keep(pair::<DeleteLink>(input, sink));
    keep(pair::<ConfirmRkey>(input, sink));
    keep(pair::<ConfirmRkeyContinuation>(input, sink));
    keep(pair::<TestLink>(input, sink));
    keep(pair::<DeleteRkey<'_>>(input, sink));
    let (message, _) = pair::<Cdc>(input, sink);
    sink.octets(&message.emit());
}

/// The flags outside of `wire`.
pub fn notices(input: &mut Input, sink: &mut Sink) {
    flags!(sink, input, Notices);
}
