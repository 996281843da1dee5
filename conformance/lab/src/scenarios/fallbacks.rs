//! Connections that TCP carries in the end.

use super::usual::{ECHO, GREETING, USUAL};
use super::{Expected, Scenario, Setting, reason};
use crate::orders::Role;

/// Our sockets have a UEID of their own, by which they know each other.
const BETWEEN_OURS: Option<Expected> = Some(Expected::SmcR);

pub(super) const FALLBACKS: &[Scenario] = &[
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
    Scenario {
        name: "fallback-client-without-memory",
        setting: Setting::NoMemory(Role::Client),
        needs_ours: Some(Role::Client),
        client: GREETING,
        server: ECHO,
        // Who has no room asks nobody.
        expected: Expected::Tcp(
            Some((reason::MEMORY, 0)),
            Some((reason::PEER_WITHOUT_SMC, 0)),
        ),
        ..USUAL
    },
    Scenario {
        name: "fallback-server-without-memory",
        setting: Setting::NoMemory(Role::Server),
        needs_ours: Some(Role::Server),
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(
            Some((reason::PEER_DECLINED, reason::MEMORY)),
            Some((reason::MEMORY, 0)),
        ),
        ..USUAL
    },
    Scenario {
        name: "fallback-other-subnet",
        setting: Setting::OtherSubnet,
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(
            Some((reason::PEER_DECLINED, reason::OTHER_SUBNET)),
            Some((reason::OTHER_SUBNET, 0)),
        ),
        ..USUAL
    },
    Scenario {
        // Linux's server and its client, and ours, decline almost at the same time. If the
        // messages cross, Linux's server gives the other one's to its application.
        name: "fallback-link-not-confirmed",
        needs_ours: Some(Role::Server),
        setting: Setting::RoceBlocked,
        own_guests: true,
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(
            Some((reason::PEER_DECLINED, reason::TIMEOUT_CONFIRM_LINK)),
            Some((reason::TIMEOUT_CONFIRM_LINK, 0)),
        ),
        ..USUAL
    },
];
