use super::*;
use crate::config::Config;
use crate::endpoint::ConnOptions;
use crate::event::Event;
use crate::id::LanId;
use crate::path::{LocalPath, RoceVersion, Route};
use crate::storage::Fixed;
use crate::wire::clc::{ClcMessage, MAX_LENGTH, Subnets};
use crate::wire::types::{DiagnosisCode, Gid, Mac, PeerId};

type Stack = Endpoint<Fixed<1, 1, 1, 2, 2, 2>>;

const NOW: Instant = Instant::from_nanos(1);

fn stack(number: u8) -> (Stack, LocalPath) {
    let mac = Mac([2, 0, 0, 0, 0, number]);
    let config = Config::new(PeerId::new(u16::from(number), mac));
    let path = LocalPath {
        device: DeviceId(0),
        port: 1,
        gid_index: 0,
        gid: Gid([number; 16]),
        mac,
        mtu: Mtu::M1024,
        lan: LanId(0),
        subnet_match: true,
        roce: RoceVersion::V1,
        route: Route::Direct,
    };
    (Stack::new(config, u64::from(number), Fixed::new()), path)
}

/// A server that has accepted a Proposal, and needs a queue pair and memory.
fn server() -> Stack {
    let (mut client, port) = stack(1);
    let (mut server, path) = stack(2);
    let options = ConnOptions::new(Subnets::default());
    client.connect(NOW, options.clone(), &[port]).unwrap();
    let conn = server.listen(NOW, options).unwrap();
    let mut bytes = [0; MAX_LENGTH];
    let (_, length) = client.poll_clc(NOW, &mut bytes).unwrap().unwrap();
    let _ = server.handle_clc(NOW, conn, &bytes[..length]).unwrap();
    assert_eq!(server.poll_event(), Some(Event::Proposed { conn }));
    server.accept(NOW, conn, &[path]).unwrap();
    server
}

/// The CLC message that the server sends.
fn next_clc(server: &mut Stack) -> Option<ClcMessage> {
    let mut bytes = [0; MAX_LENGTH];
    let (_, length) = server.poll_clc(NOW, &mut bytes).unwrap()?;
    Some(ClcMessage::parse(&bytes[..length]).unwrap().0)
}

/// When queue pairs are created.
#[derive(Clone, Copy)]
enum Creates {
    AtOnce,
    Later,
    Never,
}

struct Fake {
    creates: Creates,
    has_room: bool,
    /// What it reports over and over.
    endless: Option<RdmaCompletion<'static>>,
    /// A queue pair that is to be created later.
    asked: Option<LinkId>,
    /// Completions taken.
    reported: usize,
    doorbells: usize,
}

impl Fake {
    fn new(creates: Creates) -> Self {
        Self {
            creates,
            has_room: true,
            endless: None,
            asked: None,
            reported: 0,
            doorbells: 0,
        }
    }
}

impl Rnic for Fake {
    fn device(&self) -> DeviceId {
        DeviceId(0)
    }
    fn create_qp(&mut self, link: LinkId, _: u8, _: u16, receive_size: u32) -> Answer<Qpn> {
        assert_eq!(receive_size, 44);
        match self.creates {
            Creates::AtOnce => Answer::Done(Qpn::new(7)),
            Creates::Later => {
                self.asked = Some(link);
                Answer::Later
            }
            Creates::Never => Answer::Failed(Refused),
        }
    }
    fn connect_qp(&mut self, _: LinkId, _: QpAddress, _: Mtu, _: u8) -> Answer {
        Answer::Done(())
    }
    fn activate_qp(&mut self, _: LinkId, _: Psn) -> Answer {
        Answer::Done(())
    }
    fn drain_qp(&mut self, _: LinkId) -> Answer {
        Answer::Done(())
    }
    fn destroy_qp(&mut self, _: LinkId) -> Answer {
        Answer::Done(())
    }
    fn alloc_buffer(&mut self, _: BufferId, _: BufferKind, _: u8, _: u32, _: bool) -> Answer {
        Answer::Done(())
    }
    fn register_buffer(&mut self, buffer: BufferId, _: LinkId) -> Answer<RToken> {
        Answer::Done(RToken {
            rkey: crate::wire::types::RKey(buffer.index() + 1),
            address: 0,
        })
    }
    fn deregister_buffer(&mut self, _: BufferId, _: LinkId) -> Answer {
        Answer::Done(())
    }
    fn free_buffer(&mut self, _: BufferId) -> Answer {
        Answer::Done(())
    }
    fn clear_element(&mut self, _: BufferId, _: u32, _: u32, _: bool) -> Answer {
        Answer::Done(())
    }
    fn write(
        &mut self,
        _: LinkId,
        _: BufferId,
        _: [Segment; 2],
        _: RToken,
    ) -> Result<(), LinkFailure> {
        Ok(())
    }
    fn send(&mut self, _: LinkId, _: WrId, _: &[u8; CDC_LENGTH]) -> Answer<(), LinkFailure> {
        Answer::Done(())
    }
    fn poll_completion(&mut self) -> Option<RdmaCompletion<'_>> {
        let later = self
            .asked
            .filter(|_| matches!(self.creates, Creates::AtOnce));
        if let Some(link) = later {
            self.asked = None;
            let qpn = Qpn::new(7);
            return Some(RdmaCompletion::QpCreated { link, qpn });
        }
        self.reported += usize::from(self.endless.is_some());
        self.endless
    }
    fn has_room(&self) -> bool {
        self.has_room
    }
    fn ring_doorbell(&mut self) {
        self.doorbells += 1;
    }
}

#[test]
fn what_is_done_at_once_is_reported_at_once() {
    let mut server = server();
    let mut rnic = Fake::new(Creates::AtOnce);
    assert!(rnic.drive(&mut server, NOW));
    assert_eq!(rnic.doorbells, 1);
    assert!(matches!(next_clc(&mut server), Some(ClcMessage::Accept(a)) if a.qpn == Qpn::new(7)));
    assert!(!rnic.drive(&mut server, NOW));
    assert_eq!(rnic.doorbells, 1);
}

#[test]
fn what_is_done_later_is_awaited() {
    let mut server = server();
    let mut rnic = Fake::new(Creates::Later);
    assert!(rnic.drive(&mut server, NOW));
    assert_eq!(next_clc(&mut server), None);
    rnic.creates = Creates::AtOnce;
    assert!(rnic.drive(&mut server, NOW));
    assert!(matches!(next_clc(&mut server), Some(ClcMessage::Accept(_))));
}

#[test]
fn without_a_queue_pair_the_server_declines() {
    let mut server = server();
    let mut rnic = Fake::new(Creates::Never);
    assert!(rnic.drive(&mut server, NOW));
    match next_clc(&mut server) {
        Some(ClcMessage::Decline(decline)) => {
            assert_eq!(decline.diagnosis, DiagnosisCode::LINK_READY);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn while_there_is_no_room_commands_stay_in_the_engine() {
    let mut server = server();
    let mut rnic = Fake::new(Creates::AtOnce);
    rnic.has_room = false;
    assert!(!rnic.drive(&mut server, NOW));
    assert_eq!(next_clc(&mut server), None);
    rnic.has_room = true;
    assert!(rnic.drive(&mut server, NOW));
    assert!(matches!(next_clc(&mut server), Some(ClcMessage::Accept(_))));
}

#[test]
fn completions_without_end_keep_the_caller_for_a_while_only() {
    let mut server = server();
    let mut rnic = Fake::new(Creates::Later);
    assert!(rnic.drive(&mut server, NOW));
    let link = rnic.asked.unwrap();
    let wr_id = WrId(99);
    rnic.endless = Some(RdmaCompletion::Sent { link, wr_id });
    assert!(rnic.drive(&mut server, NOW));
    assert_eq!(rnic.reported, MOST_AT_ONCE);
}
