//! Values of version 2 and SMC-D, and everything that can be done with them.

use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::clc::{
    AcceptConfirmV2, FirstContactExtension, GidList, IsmGidEntry, IsmGidList, OfferedPath, PeerOs,
    Proposal, SmcdAcceptConfirm, SmcdAcceptConfirmV2, SmcdOffer, V2Offer,
};
use smc_proto::wire::llc::{
    AddLink, AddLinkExtension, ConfirmLink, ConfirmRkey, DeleteLink, DeleteRkey, Entries,
    LLC_V2_MAX_LENGTH, LlcMessage, RTokenPair, RequestAddLink, RkeyFlags, TestLink, version_of,
};
use smc_proto::wire::types::{
    BufferSize, Chid, Cursor, DiagnosisCode, DmbToken, Eid, FeatureMask, Gid, Hostname, IsmGid,
    RKey, Release,
};

use crate::input::Input;
use crate::sink::{Sink, keep};
use crate::values::{Any, any, ordered_pair, pair};

any! {
    Eid: |i| Eid(i.octets());
    Hostname: |i| Hostname(i.octets());
    Chid: |i| {
        let any = Chid(i.u16());
        i.one_of(&[any, Chid::LOOPBACK])
    };
    DmbToken: |i| DmbToken(i.u64());
    IsmGid: |i| IsmGid { gid: i.u64(), gid_ext: i.u64(), chid: Chid::any(i) };
    IsmGidEntry: |i| IsmGidEntry { gid: i.u64(), chid: Chid::any(i) };
    Release: |i| {
        let any = Release::new(i.octet());
        i.one_of(&[any, Release::V2_0, Release::V2_1])
    };
    FeatureMask: |i| FeatureMask::from_bits_retain(i.u16());
    IsmGidList: |i| {
        let mut list = IsmGidList::new();
        for _ in 0..i.below(6) {
            keep(list.push(IsmGid::any(i)));
        }
        for _ in 0..i.below(6) {
            keep(list.push_entry(IsmGidEntry::any(i)));
        }
        list
    };
    SmcdOffer: |i| SmcdOffer {
        seid: i.bit().then(|| Eid::any(i)),
        devices: IsmGidList::any(i),
    };
    V2Offer: |i| {
        let mut offer = V2Offer {
            path: OfferedPath::any(i),
            release: Release::any(i),
            gid: Gid::any(i),
            max_connections: i.octet(),
            max_links: i.octet(),
            features: FeatureMask::any(i),
            smcd: SmcdOffer::any(i),
            ..V2Offer::default()
        };
        for _ in 0..i.below(10) {
            // The ninth and tenth find no room.
            keep(offer.eids.push(Eid::any(i)));
        }
        offer
    };
    GidList: |i| {
        let mut list = GidList::new();
        for _ in 0..i.below(10) {
            keep(list.push(Gid::any(i)));
        }
        list
    };
    FirstContactExtension: |i| FirstContactExtension {
        direct: i.bit(),
        os: PeerOs::any(i),
        release: Release::any(i),
        hostname: Hostname::any(i),
        max_connections: i.octet(),
        max_links: i.octet(),
        features: FeatureMask::any(i),
    };
    AcceptConfirmV2: |i| AcceptConfirmV2 {
        eid: Eid::any(i),
        extension: FirstContactExtension::any(i),
        gids: GidList::any(i),
    };
    SmcdAcceptConfirmV2: |i| SmcdAcceptConfirmV2 {
        chid: Chid::any(i),
        eid: Eid::any(i),
        gid_ext: i.u64(),
        extension: FirstContactExtension::any(i),
    };
    SmcdAcceptConfirm: |i| SmcdAcceptConfirm {
        first_contact: i.bit(),
        gid: i.u64(),
        token: DmbToken::any(i),
        dmbe_index: i.octet(),
        buffer_size: BufferSize::any(i),
        link_id: i.octets(),
        v2: i.bit().then(|| SmcdAcceptConfirmV2::any(i)),
    };
    CdcIsm: |i| CdcIsm {
        producer: Cursor::any(i),
        consumer: Cursor::any(i),
        producer_flags: Any::any(i),
        connection_flags: Any::any(i),
    };
    Endianness: |i| i.one_of(&[Endianness::Little, Endianness::Big, Endianness::NATIVE]);
}

/// Everything that the codec of version 2 and SMC-D offers.
pub fn wire(input: &mut Input, sink: &mut Sink) {
    names(input, sink);
    let code = DiagnosisCode::any(input);
    sink.display(code.name());
    sink.display(code.sentence());
    sink.display(code.remedy());
    keep(DiagnosisCode::ALL.len());
    let release = ordered_pair::<Release>(input, sink);
    keep((release.number(), release.has_limits(), Release::default()));
    sink.display(&FeatureMask::any(input));
    keep((
        ordered_pair::<Chid>(input, sink).is_emulated(),
        Chid::default(),
        ordered_pair::<DmbToken>(input, sink),
        DmbToken::default(),
    ));
    keep((ordered_pair::<IsmGid>(input, sink), IsmGid::default()));
    clc(input, sink);
    for _ in 0..16 {
        llc(input, sink);
    }
    let (message, _) = pair::<CdcIsm>(input, sink);
    let (a, b) = (Endianness::any(input), Endianness::any(input));
    sink.hashed(&a, &b);
    sink.octets(&message.emit(a));
    keep(CdcIsm::default());
}

fn names(input: &mut Input, sink: &mut Sink) {
    let eid = ordered_pair::<Eid>(input, sink);
    keep((eid.is_user(), eid.is_system(), Eid::default()));
    sink.display(&Eid::system(input.u16(), input.u16()));
    let name = ordered_pair::<Hostname>(input, sink);
    keep((name, Hostname::default()));
    let start = input.below(64) as usize;
    let octets = input.all().get(start..).unwrap_or(&[]);
    for text in [
        core::str::from_utf8(octets).unwrap_or("EID-1"),
        "EID.2   ",
        "",
    ] {
        keep(Hostname::new(text));
        match Eid::user(text) {
            Ok(eid) => sink.display(&eid),
            Err(error) => sink.shown(&error, &error),
        }
    }
}

fn clc(input: &mut Input, sink: &mut Sink) {
    keep(pair::<IsmGidEntry>(input, sink));
    keep(IsmGidEntry::default());
    let (list, _) = pair::<IsmGidList>(input, sink);
    keep((list.entries().len(), IsmGidList::default()));
    let devices = list.iter();
    sink.debug(&devices);
    for device in devices.clone() {
        sink.display(&device);
    }
    keep((&list).into_iter().next());
    keep((pair::<SmcdOffer>(input, sink), SmcdOffer::default()));
    keep(pair::<V2Offer>(input, sink));
    for device in Proposal::any(input).ism_gids() {
        sink.display(&device);
    }
    let (gids, _) = pair::<GidList>(input, sink);
    keep((gids.as_slice().len(), GidList::default()));
    keep(pair::<FirstContactExtension>(input, sink));
    keep(FirstContactExtension::default());
    let (a, b) = (AcceptConfirmV2::any(input), AcceptConfirmV2::any(input));
    sink.hashed(&a, &b);
    let (a, b) = (
        SmcdAcceptConfirmV2::any(input),
        SmcdAcceptConfirmV2::any(input),
    );
    sink.hashed(&a, &b);
    keep((AcceptConfirmV2::default(), SmcdAcceptConfirmV2::default()));
    keep(pair::<SmcdAcceptConfirm>(input, sink).0.device());
}

/// A message of every kind, made of the input.
fn llc(input: &mut Input, sink: &mut Sink) {
    let pairs: [RTokenPair; 5] = core::array::from_fn(|_| RTokenPair::any(input));
    let gids: [Gid; 3] = core::array::from_fn(|_| Gid::any(input));
    let rkeys: [RKey; 12] = core::array::from_fn(|_| RKey::any(input));
    let count = input.below(13) as usize;
    let reply = input.bit();
    let extension = AddLinkExtension {
        direct: input.bit(),
        target_gid: Gid::any(input),
        rtokens: pairs.get(..count).unwrap_or(&[]).into(),
    };
    let add = AddLink {
        extension: input.bit().then_some(extension),
        ..AddLink::any(input)
    };
    let request = RequestAddLink {
        reply,
        rejected: input.bit(),
        gids: gids.get(..count).unwrap_or(&[]).into(),
    };
    let delete = DeleteRkey {
        reply,
        flags: RkeyFlags::any(input),
        unknown: input.octet(),
        rkeys: rkeys.get(..count).unwrap_or(&[]).into(),
    };
    borrowed(&add, &request, &delete, sink);
    let messages = [
        LlcMessage::ConfirmLink(ConfirmLink::any(input)),
        LlcMessage::AddLink(add),
        LlcMessage::DeleteLink(DeleteLink::any(input)),
        LlcMessage::RequestAddLink(request),
        LlcMessage::ConfirmRkey(ConfirmRkey::any(input)),
        LlcMessage::TestLink(TestLink::any(input)),
        LlcMessage::DeleteRkey(delete),
    ];
    let mut buffer = [0; LLC_V2_MAX_LENGTH];
    for message in &messages {
        sink.value(message, message);
        sink.display(message);
        sink.display(&message.display(SmcVersion::V2));
        let version = version_of(&[message.kind(SmcVersion::V2)]);
        keep((version, message.is_reply(), message.encoded_len(version)));
        keep(message.to_static());
        let room = input.below(200) as usize;
        if let Some(part) = buffer.get_mut(..room) {
            sink.value(&message.emit(version, part), &Ok(room));
        }
        let Ok(length) = message.emit(version, &mut buffer) else {
            continue;
        };
        // One byte that is wrong, and every end.
        if let Some(octet) = buffer.get_mut(input.below(length as u32) as usize) {
            *octet ^= input.octet();
        }
        for cut in 0..=length {
            if let Some(octets) = buffer.get(..cut) {
                parse(octets, sink);
            }
        }
    }
}

fn borrowed(
    add: &AddLink<'_>,
    request: &RequestAddLink<'_>,
    delete: &DeleteRkey<'_>,
    sink: &mut Sink,
) {
    sink.value(add, add);
    sink.display(add);
    sink.value(request, request);
    sink.display(request);
    sink.value(delete, delete);
    sink.display(delete);
    let extension = AddLinkExtension::default();
    sink.value(&extension, &extension);
    let rtokens = add.extension.as_ref().unwrap_or(&extension).rtokens;
    keep((rtokens.len(), rtokens.is_empty(), rtokens.iter().clone()));
    for pair in rtokens {
        sink.display(&pair);
    }
    macro_rules! entries {
        ($($entries:expr),*) => {$({
            let entries = $entries;
            sink.value(&entries, &entries);
            sink.display(&entries);
            keep((entries.len(), entries.iter().next(), Entries::clone(&entries)));
            keep((entries.get(1), entries.first(), entries.to_static()));
        })*};
    }
    entries!(rtokens, request.gids, delete.rkeys);
}

/// Bytes as an LLC message of version 2, and as the head of a DMB.
pub fn parse(octets: &[u8], sink: &mut Sink) {
    match LlcMessage::parse(octets, SmcVersion::V2) {
        Ok(message) => sink.display(&message),
        Err(error) => sink.shown(&error, &error),
    }
    if let Some(head) = octets.first_chunk() {
        for order in [Endianness::Little, Endianness::Big] {
            match CdcIsm::parse(head, order) {
                Ok(message) => sink.display(&message),
                Err(error) => sink.shown(&error, &error),
            }
        }
    }
}
