//! Ends, devices and memory that fail.

use super::usual::{ECHO, GREETING, MIB, USUAL};
use super::{Campaign, Connections, Disturbance, Expected, Scenario, Setting, reason};
use crate::conversation::Step;
use crate::orders::Role;

/// Streams both ways under which a link goes down.
const EXCHANGE: &[Step] = &[Step::Exchange(8 * MIB), Step::Shutdown, Step::End];

/// A part in which the other end closes first. Soft-RoCE repeats for ever what Linux's server
/// sent over a link whose other end is gone; if it is the last to close it waits for that.
const EXCHANGE_AND_STAY: &[Step] = &[
    Step::Exchange(8 * MIB),
    Step::Shutdown,
    Step::End,
    Step::Pause(2_000),
];

/// An interface goes down while four such streams are on the wire, and comes up again.
const fn down_and_up(role: Role, interface: u8) -> [Disturbance; 2] {
    let down = Disturbance {
        after: 8 * MIB,
        role,
        interface,
        up: false,
    };
    let up = Disturbance {
        after: 32 * MIB,
        up: true,
        ..down
    };
    [down, up]
}

pub(super) const FAULTS: &[Scenario] = &[
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
        name: "idle-beyond-test-link",
        campaign: Campaign::Full,
        client: &[
            Step::Echoed(1_000),
            Step::Pause(70_000),
            Step::Echoed(1_000),
            Step::Shutdown,
        ],
        server: ECHO,
        timeout: 100,
        ..USUAL
    },
    Scenario {
        name: "abort-by-client",
        needs_ours: Some(Role::Client),
        client: &[Step::Send(100_000), Step::Receive(1), Step::Abort],
        server: &[Step::Receive(100_000), Step::Send(1), Step::Reset],
        ..USUAL
    },
    Scenario {
        name: "abort-by-server",
        needs_ours: Some(Role::Server),
        client: &[Step::Receive(100_000), Step::Send(1), Step::Reset],
        server: &[Step::Send(100_000), Step::Receive(1), Step::Abort],
        ..USUAL
    },
    Scenario {
        name: "idle-2s-test-link",
        setting: Setting::TestLink(2),
        own_guests: true,
        client: &[
            Step::Echoed(1_000),
            Step::Pause(7_000),
            Step::Echoed(1_000),
            Step::Shutdown,
            Step::End,
        ],
        server: ECHO,
        ..USUAL
    },
    Scenario {
        // More SENDs at once than we have receives: what finds none is tried again.
        name: "work-requests-2048-sends",
        setting: Setting::WorkRequests(2048, 2048),
        own_guests: true,
        connections: Connections::AtOnce(100),
        client: GREETING,
        server: ECHO,
        ..USUAL
    },
    Scenario {
        // Fewer receives than we have SENDs: what finds none is tried again.
        name: "work-requests-2-receives",
        setting: Setting::WorkRequests(16, 2),
        own_guests: true,
        connections: Connections::AtOnce(100),
        client: GREETING,
        server: ECHO,
        ..USUAL
    },
    Scenario {
        name: "memory-limit-at-client",
        setting: Setting::Unprivileged(Role::Client),
        needs_ours: Some(Role::Client),
        connections: Connections::AtOnce(40),
        client: GREETING,
        server: ECHO,
        expected: Expected::Limited(Role::Client, reason::MEMORY),
        timeout: 60,
        ..USUAL
    },
    Scenario {
        name: "memory-limit-at-server",
        setting: Setting::Unprivileged(Role::Server),
        needs_ours: Some(Role::Server),
        connections: Connections::AtOnce(40),
        client: GREETING,
        server: ECHO,
        expected: Expected::Limited(Role::Server, reason::MEMORY),
        timeout: 60,
        ..USUAL
    },
    Scenario {
        // Not for every change: soft-RoCE itself may warn when a link goes under load.
        name: "two-devices-used-link-down-up",
        campaign: Campaign::Full,
        setting: Setting::TwoDevices,
        own_guests: true,
        connections: Connections::AtOnce(4),
        disturbances: &down_and_up(Role::Server, 0),
        client: EXCHANGE,
        server: EXCHANGE,
        timeout: 60,
        ..USUAL
    },
    // A server that is Linux's answers DELETE LINK only when its own writes have failed,
    // later than its peer waits.
    Scenario {
        name: "two-devices-client-link-down-up",
        campaign: Campaign::Full,
        setting: Setting::TwoDevices,
        own_guests: true,
        connections: Connections::AtOnce(4),
        disturbances: &down_and_up(Role::Client, 0),
        client: EXCHANGE_AND_STAY,
        server: EXCHANGE,
        timeout: 60,
        ..USUAL
    },
    Scenario {
        name: "two-devices-clients-second-link-down-up",
        campaign: Campaign::Full,
        setting: Setting::TwoDevices,
        own_guests: true,
        connections: Connections::AtOnce(4),
        disturbances: &down_and_up(Role::Client, 1),
        client: EXCHANGE_AND_STAY,
        server: EXCHANGE,
        timeout: 60,
        ..USUAL
    },
    Scenario {
        name: "two-devices-servers-second-link-down-up",
        campaign: Campaign::Full,
        setting: Setting::TwoDevices,
        own_guests: true,
        connections: Connections::AtOnce(4),
        disturbances: &down_and_up(Role::Server, 1),
        client: EXCHANGE,
        server: EXCHANGE,
        timeout: 60,
        ..USUAL
    },
    Scenario {
        name: "server-dies",
        campaign: Campaign::Full,
        setting: Setting::TestLink(2),
        own_guests: true,
        dies: Some((6_000, Role::Server)),
        client: &[Step::Echoed(1_000), Step::Reset],
        server: ECHO,
        timeout: 90,
        ..USUAL
    },
    Scenario {
        name: "client-dies",
        campaign: Campaign::Full,
        setting: Setting::TestLink(2),
        own_guests: true,
        needs_ours: Some(Role::Client),
        dies: Some((6_000, Role::Client)),
        client: ECHO,
        server: &[Step::Echoed(1_000), Step::Reset],
        timeout: 90,
        ..USUAL
    },
];
