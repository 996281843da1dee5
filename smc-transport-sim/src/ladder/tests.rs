use std::sync::{Arc, Mutex};

use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::{ClcMessage, ClcVersion, Decline, MAX_LENGTH, PeerOs};
use smc_proto::wire::types::{AlertToken, Cursor, DiagnosisCode, PeerId};

use super::*;
use crate::fabric::{Fabric, FabricConfig};
use crate::fault::{FaultAction, FaultPlan, Trigger};
use crate::tcp::{Side, SmcOption, TcpSplit};

fn decline() -> Vec<u8> {
    let decline = Decline {
        version: ClcVersion::V1,
        out_of_sync: false,
        peer_id: PeerId::default(),
        diagnosis: DiagnosisCode::NO_DEVICE,
        os: PeerOs::UNKNOWN,
    };
    let mut bytes = [0; MAX_LENGTH];
    let length = ClcMessage::Decline(decline).emit(&mut bytes).unwrap();
    bytes[..length].to_vec()
}

#[test]
fn clc_messages_are_found_however_tcp_cuts_them() {
    for split in [TcpSplit::Whole, TcpSplit::Every(1), TcpSplit::Random(20)] {
        let mut fabric = Fabric::new(FabricConfig::default(), 3);
        let ladder = Arc::new(Mutex::new(Ladder::new(100)));
        fabric.observe(Box::new(ladder.clone()));
        let (client, server) = (fabric.add_host("client"), fabric.add_host("server"));
        let cut = FaultAction::TcpSplit(split);
        fabric.set_faults(FaultPlan::none().with(Trigger::At(Instant::ZERO), client, cut));
        let tcp = fabric.tcp_open(client, server, SmcOption::BOTH);
        while fabric.step() {}
        fabric.tcp_send(tcp, Side::Client, &decline());
        while fabric.step() {}
        fabric.tcp_send(tcp, Side::Server, b"hello");
        while fabric.step() {}
        fabric.tcp_close(tcp, Side::Server);
        while fabric.step() {}
        let ladder = ladder.lock().unwrap();
        let transcript = "
            client > server: TCP SYN with SMC option
            server > client: TCP SYN-ACK with SMC option
            client > server: CLC Decline
            server > client: TCP 5 octets
            server > client: TCP FIN
        ";
        ladder.expect(transcript).unwrap();
        ladder.expect("...\n server > client: TCP FIN").unwrap();
        ladder.expect("client > server: TCP SYN\n...").unwrap();
        assert!(ladder.expect("client > server: TCP SYN").is_err());
        assert!(ladder.expect("server > client: TCP SYN\n...").is_err());
        assert!(
            ladder.to_string().contains("│────────────────────▶│"),
            "{ladder}"
        );
    }
}

#[test]
fn sends_are_described_as_text() {
    let cdc = Cdc {
        sequence: 7,
        alert_token: AlertToken(9),
        producer: Cursor { wrap: 0, count: 5 },
        consumer: Cursor::default(),
        producer_flags: ProducerFlags::empty(),
        connection_flags: ConnectionFlags::empty(),
    };
    assert_eq!(describe::send(&cdc.emit()), cdc.to_string());
    assert_eq!(
        describe::send(&[0x55; 9]),
        "SEND 9 octets: 5555555555555555…"
    );
    assert_eq!(describe::send(&[]), "SEND 0 octets: ");
}

#[test]
fn the_latest_messages_are_kept() {
    let mut ladder = Ladder::new(2);
    ladder.on_host(HostId(0), "a");
    ladder.on_host(HostId(1), "b");
    for number in 0..5 {
        ladder.add(Rung {
            at: Instant::ZERO,
            source: HostId(number % 2),
            destination: None,
            outcome: Outcome::Dropped,
            text: number.to_string(),
        });
    }
    assert_eq!(ladder.messages(), ["b > ?: 3 [lost]", "a > ?: 4 [lost]"]);
    assert_eq!(ladder.forgotten(), 3);
    assert!(ladder.to_string().contains("3 messages before"));
}
