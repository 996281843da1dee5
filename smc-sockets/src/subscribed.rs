//! Events for subscribers of the crate `tracing`: what carries each connection, and what the engine
//! does. Without the feature `tracing` nothing is made.
//!
//! | target | level | event |
//! |---|---|---|
//! | `smc_sockets` | `INFO` | a connection is over SMC, or is TCP and why |
//! | `smc_sockets::engine` | `WARN` | the peer or a device broke a rule, a link failed |
//! | `smc_sockets::engine` | `DEBUG` | CLC and LLC messages, states of connections, groups and links |
//! | `smc_sockets::engine` | `TRACE` | CDC messages, cursors, buffers, timers |
//!
//! Events of the engine are made only while a subscriber wants `DEBUG` of their target, since the
//! engine takes its general path for all bytes meanwhile. An event belongs to no span: any thread
//! may serve a connection, and the event names its subject.

#[cfg(feature = "tracing")]
mod on {
    use std::net::SocketAddr;

    use ::tracing::{Level, enabled, event, info};
    use smc_proto::trace::{Kind, Subject, TraceEvent};
    use smc_view::Role;

    use crate::carrier::Carrier;

    /// Target of what the engine does.
    const ENGINE: &str = "smc_sockets::engine";

    /// Whether a subscriber wants the events of the engine.
    #[inline]
    pub(crate) fn is_on() -> bool {
        enabled!(target: ENGINE, Level::DEBUG)
    }

    /// Gives an event of the engine of a stack to the subscriber.
    pub(crate) fn observe(stack: u16, subject: Subject, happened: &TraceEvent) {
        macro_rules! emit {
            ($level:expr) => {
                event!(
                    target: ENGINE,
                    $level,
                    stack,
                    %subject,
                    kind = happened.kind().full_name(),
                    "{happened}"
                )
            };
        }
        match level(happened.kind()) {
            Level::WARN => emit!(Level::WARN),
            Level::DEBUG => emit!(Level::DEBUG),
            _ => emit!(Level::TRACE),
        }
    }

    fn level(kind: Kind) -> Level {
        match kind {
            Kind::ClcMalformed
            | Kind::ClcUnexpected
            | Kind::CdcViolation
            | Kind::CdcDataLost
            | Kind::LlcMalformed
            | Kind::LinkBroken
            | Kind::LinkRefused
            | Kind::LinkFailed
            | Kind::Violation
            | Kind::BufferRefused
            | Kind::DeviceRemoved => Level::WARN,
            _ => match kind.group() {
                "cdc" | "data" | "buffer" | "timer" => Level::TRACE,
                _ => Level::DEBUG,
            },
        }
    }

    /// Says what carries a connection.
    pub(crate) fn decided(ends: Option<(SocketAddr, SocketAddr)>, carrier: &Carrier, role: Role) {
        let (local, peer) = ends.unzip();
        let (local, peer) = (
            local.map(::tracing::field::display),
            peer.map(::tracing::field::display),
        );
        let role = match role {
            Role::Client => "client",
            Role::Server => "server",
            Role::Unknown => "unknown",
        };
        match carrier {
            Carrier::Smc(terms) => info!(
                target: "smc_sockets",
                local,
                peer,
                role,
                technology = %terms.technology,
                version = %terms.version,
                "connection over SMC"
            ),
            Carrier::Tcp(why) => info!(
                target: "smc_sockets",
                local,
                peer,
                role,
                code = why.reason().code.0,
                peer_code = why.reason().peer_diagnosis.map(|code| code.0),
                reason = %why,
                "connection over TCP"
            ),
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use std::net::SocketAddr;

    use smc_proto::trace::{Subject, TraceEvent};
    use smc_view::Role;

    use crate::carrier::Carrier;

    #[inline(always)]
    pub(crate) const fn is_on() -> bool {
        false
    }

    #[inline(always)]
    pub(crate) const fn observe(_stack: u16, _subject: Subject, _happened: &TraceEvent) {}

    #[inline(always)]
    pub(crate) const fn decided(
        _ends: Option<(SocketAddr, SocketAddr)>,
        _carrier: &Carrier,
        _role: Role,
    ) {
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) use off::*;
#[cfg(feature = "tracing")]
pub(crate) use on::*;
