//! An ISM device that takes its time: answers to what was asked for a connection come
//! when that is gone and another one has its buffers.

use conformance::rig::Ism;
use conformance::rig::peer::smcd::{Mode, eid, half};
use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint, Next, TcpEvent};
use smc_proto::event::Event;
use smc_proto::id::{BufferId, ConnId, DeviceId};
use smc_proto::path::{IsmPath, Paths};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::version::SmcVersion;
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH, SmcdAcceptConfirm, Subnets};
use smc_proto::wire::types::{BufferSize, DmbToken, Mac, PeerId};

const DEVICE: DeviceId = DeviceId(0);
const NOW: Instant = Instant::from_nanos(1);
const MODE: Mode = Mode::new(SmcVersion::V2, false);

/// A client whose device does not map DMBs: its send buffers are used again.
struct Client {
    endpoint: Endpoint<Owned>,
    device: Ism,
}

impl Client {
    fn new() -> Self {
        let mut config = Config::new(PeerId::new(1, Mac([2; 6])));
        config.offers = Offers::SMCD_V2;
        config.v2.ueids.push(eid()).expect("the first one");
        Self {
            endpoint: Endpoint::new(config, 1, Owned::new(Limits::for_connections(8))),
            device: Ism::default(),
        }
    }

    /// A connection whose Accept names this DMB of the server.
    fn accepted(&mut self, first_contact: bool, token: u64, size: BufferSize) -> ConnId {
        let ism = [IsmPath::new(DEVICE, MODE.device(1))];
        let paths = Paths::new(&[], &ism);
        let options = ConnOptions::new(Subnets::default());
        let conn = self.endpoint.connect(NOW, options, paths).unwrap();
        assert!(matches!(self.poll_clc(), Some(ClcMessage::Proposal(_))));
        let accept = ClcMessage::SmcdAccept(SmcdAcceptConfirm {
            buffer_size: size,
            ..half(MODE, first_contact, token)
        });
        let mut bytes = [0; MAX_LENGTH];
        let len = accept.emit(&mut bytes).unwrap();
        let next = Next::MaybeDecline;
        assert_eq!(
            self.endpoint.handle_clc(NOW, conn, &bytes[..len]),
            Ok(ClcProgress::Consumed { len, next })
        );
        conn
    }

    fn poll_clc(&mut self) -> Option<ClcMessage> {
        let mut bytes = [0; MAX_LENGTH];
        let (_, length) = self.endpoint.poll_clc(NOW, &mut bytes).unwrap()?;
        Some(ClcMessage::parse(&bytes[..length]).unwrap().0)
    }

    fn reports(&mut self, completion: IsmCompletion) {
        self.endpoint.handle_ism(NOW, completion);
    }

    /// The device answers what it is asked for, but for binding to a DMB: that is
    /// returned.
    fn serve(&mut self) -> Option<(BufferId, DmbToken, u32)> {
        let mut binding = None;
        while let Some(command) = self.endpoint.poll_ism(NOW, DEVICE) {
            self.device.check(&command).unwrap();
            let done = self.device.done(&command);
            if let IsmCommand::AttachDmb {
                buffer,
                token,
                length,
                ..
            } = command
            {
                assert_eq!(binding, None, "one at a time");
                binding = Some((buffer, token, length));
            } else {
                self.reports(done.expect("nothing is sent"));
            }
        }
        binding
    }

    fn is_established(&mut self, conn: ConnId) -> bool {
        std::iter::from_fn(|| self.endpoint.poll_event())
            .any(|event| matches!(event, Event::Established { conn: c, .. } if c == conn))
    }
}

#[test]
fn a_binding_that_comes_late_is_not_taken_for_that_of_the_next_connection() {
    let mut client = Client::new();
    // One connection makes the group.
    let first = client.accepted(true, 0xa, BufferSize::K16);
    let (buffer, _, _) = client.serve().expect("a binding");
    client.reports(IsmCompletion::DmbAttached { buffer });
    assert!(matches!(
        client.poll_clc(),
        Some(ClcMessage::SmcdConfirm(_))
    ));
    assert!(client.is_established(first));

    // The next one is reset while its send buffer is being bound to DMB 0xb.
    let second = client.accepted(false, 0xb, BufferSize::K16);
    let (late, token, _) = client.serve().expect("a binding");
    assert_eq!(token, DmbToken(0xb));
    client.endpoint.handle_tcp(NOW, second, TcpEvent::PeerReset);

    // The one after that is to write to DMB 0xc, which is far longer.
    let third = client.accepted(false, 0xc, BufferSize::K512);
    let bound = client.serve();
    client.reports(IsmCompletion::DmbAttached { buffer: late });
    let (buffer, token, length) = bound.or_else(|| client.serve()).expect("a binding");
    assert_eq!((token, length), (DmbToken(0xc), BufferSize::K512.octets()));
    assert!(
        client.poll_clc().is_none(),
        "nothing is bound to that DMB yet"
    );
    client.reports(IsmCompletion::DmbAttached { buffer });
    assert!(matches!(
        client.poll_clc(),
        Some(ClcMessage::SmcdConfirm(_))
    ));
    assert!(client.is_established(third));
}
