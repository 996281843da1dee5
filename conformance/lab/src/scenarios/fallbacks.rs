//! Connections that TCP carries in the end.

use super::usual::{ECHO, GREETING, USUAL};
use super::{Expected, Scenario, Setting, reason};
use crate::orders::{HandMessage, Role};

/// Our sockets have a UEID of their own, by which they know each other.
const BETWEEN_OURS: Option<Expected> = Some(Expected::SmcR);

/// Whatever a client sends comes back, over either transport.
const FALLBACK: Scenario = Scenario {
    client: GREETING,
    server: ECHO,
    ..USUAL
};

/// The server declines.
const fn server_declines(why: u32) -> Expected {
    Expected::Tcp(Some((reason::PEER_DECLINED, why)), Some((why, 0)))
}

/// The client does.
const fn client_declines(why: u32) -> Expected {
    Expected::Tcp(Some((why, 0)), Some((reason::PEER_DECLINED, why)))
}

pub(super) const FALLBACKS: &[Scenario] = &[
    Scenario {
        name: "fallback-tcp-client",
        setting: Setting::TcpClient,
        expected: Expected::Tcp(None, Some((reason::PEER_WITHOUT_SMC, 0))),
        ..FALLBACK
    },
    Scenario {
        name: "fallback-tcp-server",
        setting: Setting::TcpServer,
        expected: Expected::Tcp(Some((reason::PEER_WITHOUT_SMC, 0)), None),
        ..FALLBACK
    },
    Scenario {
        name: "fallback-client-without-device",
        setting: Setting::ClientWithoutDevice,
        expected: client_declines(reason::NO_DEVICE),
        alike: Some((reason::NO_DEVICE, reason::NO_SMC_R_DEVICE)),
        ..FALLBACK
    },
    Scenario {
        name: "fallback-server-without-device",
        setting: Setting::ServerWithoutDevice,
        expected: server_declines(reason::NO_SMC_R_DEVICE),
        alike: Some((reason::NO_DEVICE, reason::NO_SMC_R_DEVICE)),
        ..FALLBACK
    },
    Scenario {
        name: "fallback-client-without-ueid",
        setting: Setting::ClientWithoutUeid,
        expected: client_declines(reason::NO_DEVICE),
        with_our_client: Some(server_declines(reason::NO_DEVICE)),
        between_ours: BETWEEN_OURS,
        ..FALLBACK
    },
    Scenario {
        name: "fallback-other-ueids",
        setting: Setting::OtherUeids,
        expected: server_declines(reason::NO_DEVICE),
        between_ours: BETWEEN_OURS,
        ..FALLBACK
    },
    Scenario {
        name: "fallback-server-without-ueid",
        setting: Setting::ServerWithoutUeid,
        expected: server_declines(reason::NO_DEVICE),
        between_ours: BETWEEN_OURS,
        ..FALLBACK
    },
    Scenario {
        name: "fallback-client-without-memory",
        setting: Setting::NoMemory(Role::Client),
        needs_ours: Some(Role::Client),
        // A client without room makes no attempt.
        expected: Expected::Tcp(
            Some((reason::MEMORY, 0)),
            Some((reason::PEER_WITHOUT_SMC, 0)),
        ),
        ..FALLBACK
    },
    Scenario {
        name: "fallback-server-without-memory",
        setting: Setting::NoMemory(Role::Server),
        needs_ours: Some(Role::Server),
        expected: server_declines(reason::MEMORY),
        ..FALLBACK
    },
    Scenario {
        name: "fallback-other-subnet",
        setting: Setting::OtherSubnet,
        expected: server_declines(reason::OTHER_SUBNET),
        ..FALLBACK
    },
    Scenario {
        // Linux's client does not offer version 2 without one, and our sockets have one
        // always: the message is sent by hand.
        name: "fallback-no-eid-offered",
        setting: Setting::ByHand(HandMessage::NoEid),
        needs_ours: Some(Role::Client),
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(
            Some((reason::PEER_DECLINED, reason::NO_UEID)),
            Some((reason::NO_UEID, 0)),
        ),
        ..USUAL
    },
    Scenario {
        name: "fallback-other-mode",
        setting: Setting::ByHand(HandMessage::OtherMode),
        needs_ours: Some(Role::Server),
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(
            Some((reason::OTHER_MODE, 0)),
            Some((reason::PEER_DECLINED, reason::OTHER_MODE)),
        ),
        ..USUAL
    },
    Scenario {
        // No implementation here sends it: without ADD LINK Linux and we go on with one link.
        name: "fallback-add-link-timeout-heard",
        setting: Setting::ByHand(HandMessage::Decline(reason::TIMEOUT_ADD_LINK)),
        needs_ours: Some(Role::Server),
        client: GREETING,
        server: ECHO,
        expected: Expected::Tcp(
            Some((reason::PEER_DECLINED, reason::TIMEOUT_ADD_LINK)),
            Some((reason::TIMEOUT_ADD_LINK, 0)),
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
        expected: server_declines(reason::TIMEOUT_CONFIRM_LINK),
        ..FALLBACK
    },
];
