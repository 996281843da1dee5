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
    /// Propose a policy by what running programs do over SMC: for which ports and peers it pays.
    ///
    /// The proposal goes to the standard output, with its reasons as comments; nothing is
    /// changed. It names the ports of connections of which at least half carried --bytes or
    /// --calls over SMC, and their peers; and it excludes peers with which each attempt ended
    /// at TCP after a handshake. A key of which nothing was seen is left out, and so as by
    /// default. Programs of this user count, unless --user names others.
    #[command(after_help = "Examples:\n  \
        smcx policy learn --for 600 > proposal.toml   ten minutes of what this user's programs do\n  \
        smcx policy check proposal.toml               what each line would do\n  \
        smcx policy learn --user 110 --user 33        of the users of services, as root")]
    Learn(PolicyLearnArguments),
}

/// Arguments of `policy learn`.
#[derive(Args, Debug)]
pub struct PolicyLearnArguments {
    /// Take samples for so long, and not what there is now alone.
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(0..=604_800))]
    pub seconds: u64,
    /// SMC pays for a connection that carried so many bytes, both ways together.
    #[arg(long, value_name = "BYTES", default_value_t = 65_536)]
    pub bytes: u64,
    /// SMC pays for a connection with so many calls, sends and receives together.
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub calls: u64,
    /// Take programs of this user, and not those of one's own; more than once for more.
    #[arg(long, value_name = "UID")]
    pub user: Vec<u32>,
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
