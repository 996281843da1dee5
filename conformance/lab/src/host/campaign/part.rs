//! What either end has to do in a scenario, and that both do it.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::super::Trouble;
use super::direction::{Direction, End};
use super::pair::Pair;
use super::settings;
use crate::orders::{Family, Held, Order, Role, Session};
use crate::scenarios::{ANSWER, Connections, GREETING, Scenario, Setting};

/// The parts of both ends.
pub(super) struct Parts {
    client: Session,
    server: Session,
}

/// What both ends held.
#[derive(Default)]
pub(super) struct Holdings {
    pub(super) client: Vec<Held>,
    pub(super) server: Vec<Held>,
    /// Set if the part was over before everything happened that should.
    pub(super) early: Option<String>,
}

/// Both parts of a scenario, at a port.
pub(super) fn of(scenario: &Scenario, v1: bool, port: u16) -> Parts {
    let (client, server) = settings::addresses(scenario.setting);
    let session = |role| Session {
        role,
        family: family(scenario.setting, role),
        local: match role {
            Role::Client => client,
            Role::Server => server,
        },
        v1,
        ueids: settings::ueids(scenario.setting, role),
        address: server,
        port,
        connections: scenario.connections,
        unprivileged: scenario.setting == Setting::Unprivileged(role),
        by_hand: match scenario.setting {
            Setting::ByHand(message) if message.role() == role => Some(message),
            _ => None,
        },
        memory: (scenario.setting == Setting::NoMemory(role)).then_some(0),
        buffers: buffers(scenario.setting, role),
        steps: match role {
            Role::Client => scenario.client.to_vec(),
            Role::Server => scenario.server.to_vec(),
        },
        timeout: scenario.timeout * 1_000,
    };
    Parts {
        client: session(Role::Client),
        server: session(Role::Server),
    }
}

impl Parts {
    /// A greeting in their place, at the next port.
    fn greeting(&self) -> Self {
        let greet = |session: &Session, steps: &[_]| Session {
            port: session.port + 1,
            connections: Connections::InTurn(1),
            steps: steps.to_vec(),
            ..session.clone()
        };
        Self {
            client: greet(&self.client, GREETING),
            server: greet(&self.server, ANSWER),
        }
    }
}

/// Lets both ends hold their parts; if one dies, then also a greeting behind that.
pub(super) fn hold(
    pair: &mut Pair,
    parts: &Parts,
    scenario: &Scenario,
    direction: Direction,
    capture: &Path,
) -> Result<(Holdings, Option<Holdings>), Trouble> {
    let timeout = Duration::from_secs(scenario.timeout);
    let begin = |pair: &mut Pair, parts: &Parts| {
        let client = order(direction.client, &parts.client);
        pair.begin(&client, &order(direction.server, &parts.server), timeout)
    };
    if let Some(server) = begin(pair, parts)? {
        let holdings = Holdings {
            server,
            ..Holdings::default()
        };
        return Ok((holdings, None));
    }
    let Some((after, role)) = scenario.dies else {
        pair.disturb(capture, scenario.disturbances, timeout)?;
        return Ok((held(pair, scenario, timeout)?, None));
    };
    thread::sleep(Duration::from_millis(after));
    let mut holdings = Holdings::default();
    match (role, direction.server) {
        (Role::Server, End::Kernel) => {
            pair.replace_server(parts.server.v1)?;
            settings::apply(pair, scenario.setting)?;
        }
        _ => {
            pair.guest(role).order(&Order::KillOurs)?;
            let (dead, _) = pair.held(role, 0, timeout)?;
            match role {
                Role::Client => holdings.client = dead,
                Role::Server => holdings.server = dead,
            }
        }
    }
    match role {
        Role::Client => holdings.server = pair.held(Role::Server, 0, timeout)?.0,
        Role::Server => holdings.client = pair.held(Role::Client, 0, timeout)?.0,
    }
    let greeting = parts.greeting();
    let then = match begin(pair, &greeting)? {
        Some(server) => Holdings {
            server,
            ..Holdings::default()
        },
        None => held(pair, scenario, timeout)?,
    };
    Ok((holdings, Some(then)))
}

fn held(pair: &mut Pair, scenario: &Scenario, timeout: Duration) -> Result<Holdings, Trouble> {
    let count = |role| {
        let disturbances = scenario.disturbances.iter();
        disturbances.filter(|each| each.role == role).count()
    };
    let (client, early) = pair.held(Role::Client, count(Role::Client), timeout)?;
    let (server, also) = pair.held(Role::Server, count(Role::Server), timeout)?;
    Ok(Holdings {
        client,
        server,
        early: early.or(also),
    })
}

/// An end with TCP only is a socket of the kernel's, whichever SMC that end has.
fn order(end: End, session: &Session) -> Order {
    match (end, session.family) {
        (End::Ours, Family::Smc) => Order::HoldOurs(session.clone()),
        _ => Order::Hold(session.clone()),
    }
}

fn family(setting: Setting, role: Role) -> Family {
    match (setting, role) {
        (Setting::TcpClient, Role::Client) | (Setting::TcpServer, Role::Server) => Family::Tcp,
        _ => Family::Smc,
    }
}

fn buffers(setting: Setting, role: Role) -> Option<u32> {
    match (setting, role) {
        (Setting::Buffers(client, _), Role::Client) => Some(client),
        (Setting::Buffers(_, server), Role::Server) => Some(server),
        _ => None,
    }
}
