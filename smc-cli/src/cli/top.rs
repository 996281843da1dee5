//! Arguments of `top`.

use clap::{Args, ValueEnum};

/// Arguments of `top`.
#[derive(Args, Debug)]
pub struct TopArguments {
    /// Take a sample every SECONDS.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,
    /// What connections are sorted by at first.
    #[arg(short, long, value_enum, default_value_t = SortKey::Rate, value_name = "KEY")]
    pub sort: SortKey,
    /// Show only connections whose line contains TEXT, in upper or lower case.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub filter: String,
}

/// What connections are sorted by.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SortKey {
    /// Bytes a second, both ways.
    #[default]
    Rate,
    /// Bytes a second that the program sends.
    Sent,
    /// Bytes a second that the program receives.
    Received,
    /// Round trips a second.
    Trips,
    /// Stalls a second.
    Stalls,
    /// Process.
    Process,
}

impl SortKey {
    /// All of them, in the order of the columns.
    pub const ALL: [Self; 6] = [
        Self::Rate,
        Self::Sent,
        Self::Received,
        Self::Trips,
        Self::Stalls,
        Self::Process,
    ];

    /// The one behind it, and behind the last one the first.
    #[must_use]
    pub fn next(self) -> Self {
        let mut all = Self::ALL.into_iter().cycle().skip_while(|at| *at != self);
        all.nth(1).unwrap_or_default()
    }

    /// Name of the sort key on the screen.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Sent => "sent",
            Self::Received => "received",
            Self::Trips => "trips",
            Self::Stalls => "stalls",
            Self::Process => "process",
        }
    }
}
