//! Injected failures of allocation: a table refuses slots on purpose. For tests only:
//! without the feature `allocation-failures` a table refuses nothing that it has.

/// Which requests for a slot of a table are refused, whether it has one or not.
/// Requests are counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AllocationFailure {
    /// None.
    #[default]
    None,
    /// The one with this number.
    Only(u32),
    /// The request with this number, and all that follow it.
    From(u32),
}

/// What a table was asked for, and what it refuses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Injected {
    pub(super) requests: u32,
    pub(super) failure: AllocationFailure,
}

impl Injected {
    pub(super) const NOTHING: Self = Self {
        requests: 0,
        failure: AllocationFailure::None,
    };

    /// Counts a request: whether it is refused.
    pub(super) fn refuses(&mut self) -> bool {
        self.requests = self.requests.saturating_add(1);
        match self.failure {
            AllocationFailure::None => false,
            AllocationFailure::Only(number) => self.requests == number,
            AllocationFailure::From(number) => self.requests >= number,
        }
    }
}
