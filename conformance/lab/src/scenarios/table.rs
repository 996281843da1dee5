//! All scenarios, in the order in which they are tried.

use super::{Campaign, Connections, Expected, Scenario, Setting, reason};
use crate::conversation::Step;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

const USUAL: Scenario = Scenario {
    name: "",
    campaign: Campaign::Quick,
    connections: Connections::InTurn(1),
    setting: Setting::Usual,
    client: &[],
    server: &[],
    expected: Expected::SmcR,
    with_our_client: None,
    between_ours: None,
    patience: 20,
    linux_fails: None,
    alike: None,
};

/// `2^k - 1`, `2^k` and `2^k + 1` octets for k up to 18, and about a ring of 64 KiB.
pub(super) const SIZES: [Step; 64] = {
    let mut steps = [Step::End; 64];
    let mut k = 0;
    let mut next = 0;
    while k <= 18 {
        let size = 1_u64 << k;
        // 2^0 - 1 octets are none to wait for.
        if k > 0 {
            steps[next] = Step::Echoed(size - 1);
            next += 1;
        }
        steps[next] = Step::Echoed(size);
        steps[next + 1] = Step::Echoed(size + 1);
        next += 2;
        k += 1;
    }
    steps[next] = Step::Echoed(64 * KIB - 64);
    steps[next + 1] = Step::Echoed(64 * KIB + 64);
    next += 2;
    while next < 62 {
        // Odd sizes move every later one to other places of the ring.
        steps[next] = Step::Echoed(1_000 + 7_919 * next as u64);
        next += 1;
    }
    steps[62] = Step::Shutdown;
    steps
};

const ECHO: &[Step] = &[Step::Echo, Step::Shutdown];
const GREETING: &[Step] = &[Step::Echoed(3 * KIB), Step::Shutdown, Step::End];

/// Our sockets have a UEID of their own, by which they know each other.
const BETWEEN_OURS: Option<Expected> = Some(Expected::SmcR);

/// All that is tried.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "echo-sizes",
        client: &SIZES,
        server: ECHO,
        ..USUAL
    },
    Scenario {
        name: "stream-4m-up",
        client: &[Step::Send(4 * MIB), Step::Shutdown, Step::End],
        server: &[Step::Receive(4 * MIB), Step::End, Step::Shutdown],
        ..USUAL
    },
    Scenario {
        name: "stream-4m-down",
        client: &[Step::Receive(4 * MIB), Step::End, Step::Shutdown],
        server: &[Step::Send(4 * MIB), Step::Shutdown, Step::End],
        ..USUAL
    },
    Scenario {
        name: "stream-4m-both",
        client: &[Step::Exchange(4 * MIB), Step::Shutdown, Step::End],
        server: &[Step::Exchange(4 * MIB), Step::Shutdown, Step::End],
        ..USUAL
    },
    Scenario {
        name: "half-close-client-first",
        client: &[
            Step::Send(10_000),
            Step::Shutdown,
            Step::Receive(200_000),
            Step::End,
        ],
        server: &[
            Step::Receive(10_000),
            Step::End,
            Step::Send(200_000),
            Step::Shutdown,
        ],
        ..USUAL
    },
    Scenario {
        name: "half-close-server-first",
        client: &[
            Step::Receive(10_000),
            Step::End,
            Step::Send(200_000),
            Step::Shutdown,
        ],
        server: &[
            Step::Send(10_000),
            Step::Shutdown,
            Step::Receive(200_000),
            Step::End,
        ],
        ..USUAL
    },
    Scenario {
        name: "close-unread-at-server",
        client: &[Step::Send(20_000), Step::Receive(1), Step::Reset],
        server: &[Step::Receive(1), Step::Send(1), Step::Pause(200)],
        ..USUAL
    },
    Scenario {
        name: "close-unread-at-client",
        client: &[Step::Receive(1), Step::Send(1), Step::Pause(200)],
        server: &[Step::Send(20_000), Step::Receive(1), Step::Reset],
        ..USUAL
    },
    Scenario {
        name: "urgent-to-server",
        client: &[
            Step::Send(100),
            Step::SendUrgent,
            Step::Receive(1),
            Step::Send(1),
            Step::SendUrgent,
            Step::Receive(1),
            Step::Send(5_000),
            Step::Shutdown,
            Step::End,
        ],
        server: &[
            Step::ReceiveUrgent(100),
            Step::Send(1),
            Step::ReceiveUrgent(1),
            Step::Send(1),
            Step::Receive(5_000),
            Step::End,
            Step::Shutdown,
        ],
        ..USUAL
    },
    Scenario {
        // Linux's sender waits until the urgent octet was consumed, and its receiver
        // consumes it with the octets behind it: if there are none before, never.
        name: "urgent-alone-to-server",
        client: &[
            Step::SendUrgent,
            Step::Receive(1),
            Step::Send(5_000),
            Step::Shutdown,
        ],
        server: &[
            Step::ReceiveUrgent(0),
            Step::Send(1),
            Step::Receive(5_000),
            Step::End,
        ],
        patience: 3,
        linux_fails: Some("Receive(5000): "),
        ..USUAL
    },
    Scenario {
        name: "urgent-to-client",
        client: &[
            Step::ReceiveUrgent(1_000),
            Step::Send(1),
            Step::Receive(70_000),
            Step::End,
        ],
        server: &[
            Step::Send(1_000),
            Step::SendUrgent,
            Step::Receive(1),
            Step::Send(70_000),
            Step::Shutdown,
            Step::End,
        ],
        ..USUAL
    },
    Scenario {
        name: "slow-reader",
        client: &[Step::Send(MIB), Step::Shutdown, Step::End],
        server: &[
            Step::Receive(1),
            Step::Pause(1_500),
            Step::Receive(MIB / 2),
            Step::Pause(1_500),
            Step::Receive(MIB / 2 - 1),
            Step::End,
            Step::Shutdown,
        ],
        ..USUAL
    },
    Scenario {
        name: "buffers-16k-512k",
        setting: Setting::Buffers(16 * 1024, 512 * 1024),
        client: &[Step::Exchange(MIB), Step::Shutdown, Step::End],
        server: &[Step::Exchange(MIB), Step::Shutdown, Step::End],
        ..USUAL
    },
    Scenario {
        name: "buffers-512k-16k",
        setting: Setting::Buffers(512 * 1024, 16 * 1024),
        client: &[Step::Exchange(MIB), Step::Shutdown, Step::End],
        server: &[Step::Exchange(MIB), Step::Shutdown, Step::End],
        ..USUAL
    },
    Scenario {
        name: "in-turn-30",
        connections: Connections::InTurn(30),
        client: GREETING,
        server: ECHO,
        ..USUAL
    },
    Scenario {
        name: "in-turn-500",
        campaign: Campaign::Full,
        connections: Connections::InTurn(500),
        client: GREETING,
        server: ECHO,
        ..USUAL
    },
    Scenario {
        name: "at-once-300",
        campaign: Campaign::Full,
        connections: Connections::AtOnce(300),
        client: GREETING,
        server: ECHO,
        patience: 120,
        ..USUAL
    },
    Scenario {
        name: "stream-64m-both",
        campaign: Campaign::Full,
        client: &[Step::Exchange(64 * MIB), Step::Shutdown, Step::End],
        server: &[Step::Exchange(64 * MIB), Step::Shutdown, Step::End],
        patience: 60,
        ..USUAL
    },
    Scenario {
        name: "idle-beyond-test-link",
        campaign: Campaign::Full,
        client: &[
            Step::Echoed(1_000),
            Step::Pause(70_000),
            Step::Echoed(1_000),
            Step::Shutdown,
        ],
        server: ECHO,
        patience: 100,
        ..USUAL
    },
    Scenario {
        name: "fallback-tcp-client",
        setting: Setting::TcpClient,
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(None, Some((reason::PEER_WITHOUT_SMC, 0))),
        ..USUAL
    },
    Scenario {
        name: "fallback-tcp-server",
        setting: Setting::TcpServer,
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(Some((reason::PEER_WITHOUT_SMC, 0)), None),
        ..USUAL
    },
    Scenario {
        name: "fallback-client-without-device",
        setting: Setting::ClientWithoutDevice,
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(
            Some((reason::NO_DEVICE, 0)),
            Some((reason::PEER_DECLINED, reason::NO_DEVICE)),
        ),
        alike: Some((reason::NO_DEVICE, reason::NO_SMC_R_DEVICE)),
        ..USUAL
    },
    Scenario {
        name: "fallback-server-without-device",
        setting: Setting::ServerWithoutDevice,
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(
            Some((reason::PEER_DECLINED, reason::NO_SMC_R_DEVICE)),
            Some((reason::NO_SMC_R_DEVICE, 0)),
        ),
        alike: Some((reason::NO_DEVICE, reason::NO_SMC_R_DEVICE)),
        ..USUAL
    },
    Scenario {
        name: "fallback-client-without-ueid",
        setting: Setting::ClientWithoutUeid,
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(
            Some((reason::NO_DEVICE, 0)),
            Some((reason::PEER_DECLINED, reason::NO_DEVICE)),
        ),
        with_our_client: Some(Expected::Tcp(
            Some((reason::PEER_DECLINED, reason::NO_DEVICE)),
            Some((reason::NO_DEVICE, 0)),
        )),
        between_ours: BETWEEN_OURS,
        ..USUAL
    },
    Scenario {
        name: "fallback-other-ueids",
        setting: Setting::OtherUeids,
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(
            Some((reason::PEER_DECLINED, reason::NO_DEVICE)),
            Some((reason::NO_DEVICE, 0)),
        ),
        between_ours: BETWEEN_OURS,
        ..USUAL
    },
    Scenario {
        name: "fallback-server-without-ueid",
        setting: Setting::ServerWithoutUeid,
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(
            Some((reason::PEER_DECLINED, reason::NO_DEVICE)),
            Some((reason::NO_DEVICE, 0)),
        ),
        between_ours: BETWEEN_OURS,
        ..USUAL
    },
];
