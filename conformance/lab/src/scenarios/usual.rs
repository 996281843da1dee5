//! What most scenarios have in common.

use super::{Campaign, Connections, Expected, Scenario, Setting};
use crate::conversation::Step;

pub(super) const KIB: u64 = 1024;
pub(super) const MIB: u64 = 1024 * KIB;

pub(super) const USUAL: Scenario = Scenario {
    name: "",
    campaign: Campaign::Quick,
    connections: Connections::InTurn(1),
    setting: Setting::Usual,
    client: &[],
    server: &[],
    expected: Expected::SmcR,
    with_our_client: None,
    between_ours: None,
    timeout: 20,
    linux_fails: None,
    needs_ours: None,
    own_guests: false,
    disturbances: &[],
    dies: None,
    groups: (0, 0),
    windows: false,
    alike: None,
};

/// Returns what comes.
pub(super) const ECHO: &[Step] = &[Step::Echo, Step::Shutdown];
/// A few bytes there and back.
pub const GREETING: &[Step] = &[Step::Echoed(3 * KIB), Step::Shutdown, Step::End];
/// What answers it.
pub const ANSWER: &[Step] = ECHO;
