//! Conversations in which nothing is wrong, in the order in which they are tried.

use super::sweeps::{RANDOM_SIZES, SIZES, URGENT_ASKS, URGENT_SWEEP};
use super::usual::{ECHO, GREETING, KIB, MIB, USUAL};
use super::{Campaign, Connections, Scenario, Setting};
use crate::conversation::Step;

/// A round of the soak: an echo, and streams both ways.
const SOAK_CLIENT: &[Step] = &[
    Step::Send(5 * KIB),
    Step::Receive(5 * KIB),
    Step::Exchange(4 * MIB),
    Step::Shutdown,
    Step::End,
];
const SOAK_SERVER: &[Step] = &[
    Step::Receive(5 * KIB),
    Step::Send(5 * KIB),
    Step::Exchange(4 * MIB),
    Step::Shutdown,
    Step::End,
];

/// An urgent byte, and then the peer's stream is read, which moves the consumer cursor.
const URGENT_AND_READ: &[Step] = &[
    Step::Send(100),
    Step::SendUrgent,
    Step::Receive(300 * KIB),
    Step::Send(5_000),
    Step::Shutdown,
    Step::End,
];
const WRITE_AND_URGENT: &[Step] = &[
    Step::Send(300 * KIB),
    Step::ReceiveUrgent(100),
    Step::Receive(5_000),
    Step::End,
    Step::Shutdown,
];
/// The end of the stream follows an urgent byte that is not read yet.
const URGENT_AND_SHUTDOWN: &[Step] = &[
    Step::Send(100),
    Step::SendUrgent,
    Step::Shutdown,
    Step::Receive(5_000),
    Step::End,
];
const LATE_URGENT_AND_ANSWER: &[Step] = &[
    Step::Pause(1_000),
    Step::ReceiveUrgent(100),
    Step::End,
    Step::Send(5_000),
    Step::Shutdown,
];
/// The end of the connection does.
const URGENT_AND_CLOSE: &[Step] = &[Step::Send(100), Step::SendUrgent];
const LATE_URGENT: &[Step] = &[Step::Pause(1_000), Step::ReceiveUrgent(100), Step::End];

pub(super) static CONVERSATIONS: &[Scenario] = &[
    Scenario {
        name: "echo-sizes",
        client: &SIZES,
        server: ECHO,
        ..USUAL
    },
    Scenario {
        name: "stream-4m-up",
        setting: Setting::Buffers(64 * 1024, 64 * 1024),
        windows: true,
        client: &[Step::Send(4 * MIB), Step::Shutdown, Step::End],
        server: &[Step::Receive(4 * MIB), Step::End, Step::Shutdown],
        ..USUAL
    },
    Scenario {
        name: "stream-4m-down",
        setting: Setting::Buffers(64 * 1024, 64 * 1024),
        windows: true,
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
        // Linux's sender waits until the urgent byte was consumed, and its receiver
        // consumes it with the bytes behind it: if there are none before, never.
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
        timeout: 3,
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
        // Before the reader takes the urgent byte, CDC messages without data follow it: for
        // each window that the writer reads.
        name: "urgent-then-update-to-server",
        setting: Setting::Buffers(64 * 1024, 64 * 1024),
        client: URGENT_AND_READ,
        server: WRITE_AND_URGENT,
        ..USUAL
    },
    Scenario {
        name: "urgent-then-update-to-client",
        setting: Setting::Buffers(64 * 1024, 64 * 1024),
        client: WRITE_AND_URGENT,
        server: URGENT_AND_READ,
        ..USUAL
    },
    Scenario {
        name: "urgent-then-half-close-to-server",
        client: URGENT_AND_SHUTDOWN,
        server: LATE_URGENT_AND_ANSWER,
        ..USUAL
    },
    Scenario {
        name: "urgent-then-half-close-to-client",
        client: LATE_URGENT_AND_ANSWER,
        server: URGENT_AND_SHUTDOWN,
        ..USUAL
    },
    Scenario {
        name: "urgent-then-close-to-server",
        client: URGENT_AND_CLOSE,
        server: LATE_URGENT,
        ..USUAL
    },
    Scenario {
        name: "urgent-then-close-to-client",
        client: LATE_URGENT,
        server: URGENT_AND_CLOSE,
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
        groups: (0, 1),
        connections: Connections::InTurn(30),
        client: GREETING,
        server: ECHO,
        ..USUAL
    },
    Scenario {
        name: "in-turn-500",
        campaign: Campaign::Full,
        connections: Connections::InTurn(500),
        groups: (0, 1),
        client: GREETING,
        server: ECHO,
        ..USUAL
    },
    Scenario {
        name: "at-once-300",
        campaign: Campaign::Full,
        connections: Connections::AtOnce(300),
        groups: (1, 2),
        client: GREETING,
        server: ECHO,
        timeout: 120,
        ..USUAL
    },
    Scenario {
        name: "stream-64m-both",
        campaign: Campaign::Full,
        client: &[Step::Exchange(64 * MIB), Step::Shutdown, Step::End],
        server: &[Step::Exchange(64 * MIB), Step::Shutdown, Step::End],
        timeout: 60,
        ..USUAL
    },
    Scenario {
        name: "echo-random-sizes",
        campaign: Campaign::Full,
        client: &RANDOM_SIZES,
        server: ECHO,
        ..USUAL
    },
    Scenario {
        name: "urgent-sweep-to-server",
        campaign: Campaign::Full,
        setting: Setting::Buffers(64 * 1024, 64 * 1024),
        client: &URGENT_SWEEP,
        server: &URGENT_ASKS,
        ..USUAL
    },
    Scenario {
        name: "urgent-sweep-to-client",
        campaign: Campaign::Full,
        setting: Setting::Buffers(64 * 1024, 64 * 1024),
        client: &URGENT_ASKS,
        server: &URGENT_SWEEP,
        ..USUAL
    },
    Scenario {
        name: "soak-100",
        campaign: Campaign::Full,
        connections: Connections::InTurn(100),
        client: SOAK_CLIENT,
        server: SOAK_SERVER,
        groups: (0, 1),
        ..USUAL
    },
    Scenario {
        name: "in-turn-10000",
        campaign: Campaign::Full,
        connections: Connections::InTurn(10_000),
        client: GREETING,
        server: ECHO,
        groups: (0, 1),
        // All of it within some ten of these.
        timeout: 180,
        ..USUAL
    },
    Scenario {
        name: "in-turn-1000",
        campaign: Campaign::Full,
        connections: Connections::InTurn(1_000),
        client: GREETING,
        server: ECHO,
        groups: (0, 1),
        ..USUAL
    },
];
