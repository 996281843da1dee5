//! Arguments of `policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with a policy.
#[derive(Subcommand, Debug)]
pub enum PolicyCommand {
    /// Explain what each line of a policy does, and what is wrong with it.
    ///
    /// The file is read as "smcx run" and programs would read it. Lines that have no effect,
    /// or one that may surprise, are noted. Nothing is changed.
    #[command(after_help = "Examples:\n  \
        smcx policy check                        the policy that counts here\n  \
        smcx policy check /etc/smc/policy.toml   a file\n  \
        smcx policy check policy.toml --json | jq '.notes'")]
    Check(PolicyCheckArguments),
}

/// Arguments of `policy check`.
#[derive(Args, Debug)]
pub struct PolicyCheckArguments {
    /// The policy; without it, the file that $SMC_POLICY names, else the first of
    /// $XDG_CONFIG_HOME/smc/policy.toml and /etc/smc/policy.toml that is there.
    pub file: Option<PathBuf>,
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
}
