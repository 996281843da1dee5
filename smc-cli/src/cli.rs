//! The arguments of the command.

mod demo;
#[cfg(target_os = "linux")]
mod devices;
#[cfg(target_os = "linux")]
mod links;
#[cfg(target_os = "linux")]
mod metrics;
#[cfg(target_os = "linux")]
mod net;
#[cfg(target_os = "linux")]
mod perf;
#[cfg(target_os = "linux")]
mod policy;
#[cfg(target_os = "linux")]
mod proxy;
#[cfg(target_os = "linux")]
mod run;
mod sim;
#[cfg(target_os = "linux")]
mod ss;
#[cfg(target_os = "linux")]
mod stats;
#[cfg(target_os = "linux")]
mod target;
#[cfg(target_os = "linux")]
mod top;
#[cfg(target_os = "linux")]
mod trace;
mod values;

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

pub use demo::{DEFAULT_BYTES, DemoArguments};
#[cfg(target_os = "linux")]
pub use devices::{DevicesArguments, PolicyArgument};
#[cfg(target_os = "linux")]
pub use links::{InfoArguments, LinksArguments};
#[cfg(target_os = "linux")]
pub use metrics::MetricsArguments;
#[cfg(target_os = "linux")]
pub use net::{ConnectArguments, ListenArguments, Transport, WhyArguments};
#[cfg(target_os = "linux")]
pub use perf::PerfArguments;
#[cfg(target_os = "linux")]
pub use policy::{PolicyCheckArguments, PolicyCommand, PolicyLearnArguments};
#[cfg(target_os = "linux")]
pub use proxy::ProxyArguments;
#[cfg(target_os = "linux")]
pub use run::{RunArguments, Size};
pub use sim::{Profile, SimArguments};
#[cfg(target_os = "linux")]
pub use ss::SsArguments;
#[cfg(target_os = "linux")]
pub use stats::{StatsArguments, StatsFormat};
#[cfg(target_os = "linux")]
pub use target::{HostPort, Target, canonical};
#[cfg(target_os = "linux")]
pub use top::{SortKey, TopArguments};
#[cfg(target_os = "linux")]
pub use trace::TraceArguments;
pub use values::{Percentages, Seeds};

/// See SMC-R at work, and decode what kernels send.
#[derive(Parser, Debug)]
#[command(
    name = "smcx",
    version,
    about,
    after_help = "Examples:\n  \
        smcx                               the demo: a file's worth through two SMC stacks\n  \
        smcx demo --file f --pcap f.pcapng the same with a file of yours, and a capture of it\n  \
        smcx decode capture.pcap           SMC messages of a capture, one a line\n  \
        smcx decode capture.pcap --json    the same as JSON, one object a line\n  \
        smcx check capture.pcap            what in it breaks RFC 7609\n  \
        smcx sim --seeds 0..1000           runs with faults, each drawn from its seed\n  \
        smcx run redis-server              a program as it is, over SMC\n  \
        smcx listen 5000, smcx connect localhost 5000   netcat through shared memory\n  \
        smcx perf                          how fast that is\n  \
        smcx perf --server, smcx perf --client HOST   and between two hosts\n  \
        smcx proxy 6380 db.example:6379    TCP here, SMC to there\n  \
        smcx ss                            connections of all programs, with their processes\n  \
        smcx top                           what they do, live\n  \
        smcx links                         their link groups and links\n  \
        smcx stats                         what they have counted\n  \
        smcx metrics --listen 9137         the same for Prometheus, over HTTP\n  \
        smcx trace PID                     what its SMC does, event by event\n  \
        smcx devices                       what could carry SMC here, and why not\n  \
        smcx why localhost 5000            would a connection use SMC, and if not, why\n  \
        smcx policy check policy.toml      what a policy says, line by line\n  \
        smcx policy learn                  a policy proposed by what programs do\n  \
        smcx completions bash              completion script for a shell"
)]
pub struct Cli {
    /// What to do; without it, the demo.
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Cli {
    /// Whether the arguments fit each other.
    ///
    /// # Errors
    /// A sentence that names what does not.
    pub fn check(&self) -> Result<(), String> {
        match &self.command {
            Some(Command::Demo(arguments)) => arguments.check(),
            Some(Command::Sim(arguments)) => arguments.check(),
            #[cfg(target_os = "linux")]
            Some(Command::Listen(arguments)) => arguments.target.to_listen().map(drop),
            #[cfg(target_os = "linux")]
            Some(Command::Connect(arguments)) => arguments.target.to_connect().map(drop),
            #[cfg(target_os = "linux")]
            Some(Command::Why(arguments)) => arguments.target.to_connect().map(drop),
            #[cfg(target_os = "linux")]
            Some(Command::Proxy(arguments)) => {
                arguments.to_listen()?;
                arguments.to_connect().map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Carry a file from one simulated host to another and back over SMC-R.
    ///
    /// Two hosts, an RNIC and an SMC engine on each, and nothing but bytes
    /// between them. The client sends the file, the server echoes it; then
    /// both close and take the link group down. Time is virtual: the same seed
    /// and the same bytes give the same run and the same capture.
    ///
    /// With several RNICs the link group has several links. Links can be made to
    /// die on the way: the connection moves to another one, with every byte, and
    /// ends only if there is none.
    #[command(after_help = "Examples:\n  \
        smcx demo                                  pseudo-random bytes of a seed\n  \
        smcx demo --file photo.jpg                 a file\n  \
        smcx demo --bytes 1g --ring 512            1 GiB through rings of 512 KiB\n  \
        smcx demo --bytes 1m --pcap demo.pcapng    every frame, for Wireshark or smcx decode\n  \
        smcx demo --json | jq .gbit_per_s          numbers only\n  \
        smcx demo --rnics 2 --kill-link 50         a link dies half way: failover\n  \
        smcx demo --rnics 2 --kill-link 30,60 --revive 45\n  \
        smcx demo --rnics 1 --kill-link 50         no link is left: the transfer ends, status 1\n\n\
        Seconds and Gbit/s are of real time, with SHA-256 and the capture included, unless they\n\
        are called virtual. Gbit/s counts the bytes once although they go both ways.")]
    Demo(DemoArguments),
    /// Run simulations with faults, each drawn from a seed.
    ///
    /// In each run two or three hosts with several RNICs open connections to each
    /// other while links, ports, RNICs, hosts, clocks and TCP fail. Invariants of
    /// the engines are checked after every step; in the end, every byte must have
    /// arrived wherever a link was usable all the time, and both ends must agree.
    /// A seed determines a run: whatever fails can be run again.
    #[command(after_help = "Examples:\n  \
        smcx sim --seeds 0..1000                        a thousand runs, on all cores\n  \
        smcx sim --seeds 0..1000 --jobs 2               the same on two of them\n  \
        smcx sim --seeds 7..8 --trace | less            the messages of one run\n  \
        smcx sim --seeds 7..8 --pcap seed-7.pcapng      its frames, for Wireshark or smcx decode\n  \
        smcx sim --seeds 0..1000 --json | jq .failed    numbers only\n\n\
        The table counts how often faults took effect, and what the link group was doing.")]
    Sim(SimArguments),
    /// Show the SMC messages in a capture.
    ///
    /// Reads pcap and pcapng files, gzip or not, taken from Ethernet or from
    /// Linux' "any" interface. TCP connections whose SYN carries the SMC option
    /// are followed for CLC messages, RoCE packets for LLC and CDC messages and
    /// RDMA WRITEs.
    ///
    /// With --live, frames come from a network interface and messages are shown as they
    /// pass. That takes CAP_NET_RAW, as of tcpdump, and changes nothing on the interface.
    #[command(after_help = "Examples:\n  \
        smcx decode capture.pcap                      one line a message\n  \
        smcx decode capture.pcapng.gz --verbose       all fields\n  \
        smcx decode capture.pcap --retransmissions    repeated packets as well\n  \
        smcx decode capture.pcap --json | jq -r 'select(.proto == \"clc\") | .type'\n  \
        smcx decode --live eth0                       until interrupted\n  \
        tcpdump -U -w - | smcx decode -               of another program, as it comes\n\n\
        Lines: frame number, seconds since the first frame, sender -> receiver, protocol, message.\n\
        Malformed messages are shown in place.")]
    Decode(DecodeArguments),
    /// Judge the SMC conversations in a capture.
    ///
    /// Follows connections, link groups, links, RMBs, cursors and windows from their
    /// beginnings, and reports each message that breaks a requirement of RFC 7609 or of
    /// this project's description of version 2, with the frame and the requirement's
    /// ID. What is known of Linux kernels is reported as a note. Rules for which the
    /// capture has too little are passed over, and counted.
    #[command(after_help = "Examples:\n  \
        smcx check capture.pcapng          findings, one a line, and a summary\n  \
        smcx check capture.pcap --json     the same as JSON, one object a line\n  \
        smcx check --rules                 every rule")]
    Check(CheckArguments),
    /// Run a program that knows nothing of SMC over SMC.
    ///
    /// A library is preloaded into the program, and into those it starts in turn. TCP
    /// connections whose peer speaks SMC, such as another program run like this, are
    /// carried by shared memory or RDMA; all others stay TCP. What the library cannot reach
    /// is named first, and runs over TCP: statically linked programs, programs of another C
    /// library or architecture, Go programs, and programs that gain rights when executed.
    ///
    /// The options -r, -t and -d are those of smc_run, and so are the variables SMC_RCVBUF,
    /// SMC_SNDBUF and SMC_DEBUG.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx run redis-server --port 7000            a server\n  \
        smcx run redis-benchmark -p 7000             its client, by shared memory\n  \
        smcx run --stats -- curl http://localhost/   and what carried its connections\n  \
        smcx run --require -- pgbench -S             fails if SMC was possible and TCP was used")]
    Run(RunArguments),
    /// Wait for a connection, and copy it from and to the standard streams.
    ///
    /// Like netcat. A peer on this host that speaks SMC is reached through shared
    /// memory, every other one over TCP. In the end, one line on the error stream names
    /// which it was.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx listen 5000 > file                      receive a file\n  \
        smcx listen localhost 5000 --exec 'tr a-z A-Z' --keep-open\n  \
        smcx listen 5000 --transport tcp             plain TCP, to compare\n\n\
        A port alone is one of all addresses, of IPv4 and IPv6.")]
    Listen(ListenArguments),
    /// Connect, and copy the standard streams to and from there.
    ///
    /// Like netcat: when the standard input ends, that direction of the connection is
    /// ended; when the peer has ended the other one, too, the command ends. What is typed on
    /// a terminal is not waited for then.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx connect localhost 5000 < file           send a file\n  \
        smcx connect localhost:5000                  talk")]
    Connect(ConnectArguments),
    /// Measure connections: between two hosts, or within this one.
    ///
    /// With --server and --client HOST it is used like iperf3: streams of bytes to the
    /// server (or from it, --reverse, or both, --bidir), with a line for each interval and a
    /// table at the end; what carried each stream, and why it was TCP. With --round-trip,
    /// messages go there and back, and the table has percentiles of their times. SMC carries
    /// the streams where the policy permits it and both hosts can.
    ///
    /// Without either, a second process is started for the other end. Three things are
    /// measured: bytes a second one way, the time of a message there and back, and
    /// connections opened and closed one after the other.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx perf                          shared memory and TCP, side by side, within this host\n  \
        smcx perf --transport ism --json   numbers only\n  \
        smcx perf --server                 wait for clients, at port 5210\n  \
        smcx perf --client db.example -P 4 -t 30       four streams to it\n  \
        smcx perf --client db.example --round-trip     times of messages of 64 bytes\n  \
        smcx perf --client db.example --bidir -n 10g -J   both directions, as JSON\n\n\
        Keys of the JSON are those of iperf3 where it has them. The server is no iperf3, and\n\
        takes no client of it. It serves one test at a time, and others are refused as long.")]
    Perf(PerfArguments),
    /// Pass TCP connections on over SMC, or SMC connections over TCP.
    ///
    /// For programs that cannot run under \"smcx run\": each connection to LISTEN is passed
    /// on to TARGET, byte by byte. Either side is SMC where the policy permits it and its
    /// peer can, and TCP where not; --from and --to narrow it. The end of one direction is
    /// passed on as that; a connection that breaks on one side is reset on the other.
    ///
    /// SIGINT or SIGTERM ends it: no further connection is taken, those there have --drain
    /// seconds to end, and a table shows what was carried.
    #[cfg(target_os = "linux")]
    #[command(
        visible_alias = "forward",
        after_help = "Examples:\n  \
        smcx proxy 127.0.0.1:6380 db.example:6379 --from tcp    clients here speak TCP\n  \
        smcx proxy 5432 localhost:15432 --to tcp                the server here speaks TCP\n  \
        smcx proxy :8080 web.example:80 -v                      a line for each connection"
    )]
    Proxy(ProxyArguments),
    /// Explain and propose policies: the files that define which connections may use SMC.
    #[cfg(target_os = "linux")]
    #[command(subcommand, arg_required_else_help = true)]
    Policy(PolicyCommand),
    /// Explain whether a connection would use SMC, and if not, why.
    ///
    /// A dry run: every condition, from the TCP option to the link, with what was found,
    /// where it is decided, and what to do. No other host is asked; with --connect, the
    /// connection is made and what carries it is printed.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx why db.example 5432                 what stands in the way\n  \
        smcx why localhost:5000 --connect        and what really comes of it\n  \
        smcx why localhost:5000 --json | jq '.conditions[] | select(.state == \"fails\")'\n\n\
        States: holds, fails, open (only the peer knows), idle (it does not come to it).")]
    Why(WhyArguments),
    /// List what could carry SMC here: RoCE devices, ISM functions, shared memory.
    ///
    /// Ports, GIDs with their types, MTUs, PNET IDs and pause frames; usable, or why not:
    /// what ibv_devinfo, smc_rnics and ethtool -a show together. The command needs no right and
    /// no library. On a machine without RDMA it prints that.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx devices                                           for people\n  \
        smcx devices -d                                        as smcr device and smcd device\n  \
        smcx devices --json | jq '.rnics[].ports[] | select(.usable).gids'")]
    Devices(DevicesArguments),
    /// List connections over SMC: of programs with smc-sockets or under "smcx run", and of
    /// the kernel's own SMC.
    ///
    /// States, codes and columns are those of smcss of smc-tools, and the process and its
    /// program come last; "kernel" for sockets of AF_SMC. Programs of this user are shown, and
    /// to root those of all. They need not do anything for it, and may be stopped.
    ///
    /// Cursors of a program's connection are those of its last wait; flags are not known
    /// then, and neither are tokens of memory.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx ss                            connections that are not listeners\n  \
        smcx ss -a --explain               all, and why those are TCP that are\n  \
        smcx ss -dD -W                     cursors, GIDs and tokens of SMC-D\n  \
        smcx ss --json | jq -r 'select(.mode == \"TCP\") | .why'")]
    Ss(SsArguments),
    /// Show what programs do over SMC, live: connections by their rates, and link groups.
    ///
    /// A line for each connection: bytes it sends and receives a second, round trips (calls
    /// that send or that receive, whichever are fewer), stalls (writes that found no room); and
    /// below, each link group with its links and a line of its rate over time. Programs of this
    /// user are shown, and to root those of all.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx top                           by rate, each second\n  \
        smcx top -s stalls -f redis        connections of one program, by stalls\n\n\
        Keys: q ends it, s sorts by the next column, r reverses the order, p pauses, / begins a\n\
        filter, Esc removes it, arrows and pages scroll.")]
    Top(TopArguments),
    /// Show what the engine of a program does, event by event, as it happens.
    ///
    /// Messages of CLC, LLC and CDC in and out, states of connections, links and link groups,
    /// bytes produced and consumed, buffers, timers: one line each, with seconds since the trace
    /// began, process and stack, object, and the addresses of a connection. With --json, text
    /// sequences that tools for qlog read.
    ///
    /// The process may run already; it has to be this user's, or one of any user for root, and
    /// has to use smc-sockets or run under "smcx run". It writes events only while this command
    /// reads them. It never waits: what is read too late is lost, and counted.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx trace 4242                              everything, until interrupted\n  \
        smcx trace 4242 -c :7000 -k conn,cdc         of connections with port 7000\n  \
        smcx trace -o t.txt -- redis-cli -p 7000 ping    a program from its first event on\n  \
        smcx trace 4242 --json --for 10 > t.sqlog    ten seconds, for qlog's tools\n  \
        smcx trace --list-kinds                      all kinds of events")]
    Trace(TraceArguments),
    /// List link groups of programs, and the links of SMC-R: state, device, connections.
    ///
    /// Columns are those of smcd linkgroup, smcr linkgroup and its link-show, and the process
    /// and its program come last. Programs of this user are shown, and to root those of all.
    /// Link groups of the kernel's own SMC are not: smcr and smcd list those.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx links                         link groups, and links of SMC-R\n  \
        smcx links -R -dd                  all that is known of those over RDMA\n  \
        smcx links --json | jq 'select(.links[]?.state != \"LINK_ACTIVE\")'")]
    Links(LinksArguments),
    /// Show what SMC is on this machine: versions, features, EIDs, hardware, the kernel's settings.
    ///
    /// Rows are those of smcr info and smcd info, for programs with smc-sockets or under "smcx
    /// run" as this command is built; n/a is what there is not.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx info                          for people\n  \
        smcx info --json | jq .roce        versions of SMC-R that a port here serves")]
    Info(InfoArguments),
    /// Show what the running programs have counted over SMC: connections, bytes, sizes.
    ///
    /// The sum of all processes of this user, or to root of all users, for as long as each
    /// lives: what a process counted goes with it. Rows are those of smcd stats and smcr stats;
    /// counts of TCP and of handshakes that failed are not divided by SMC-D and SMC-R, and
    /// reasons of fallbacks are counted since each process began. With --format entstat, fields
    /// are those of AIX' entstat, -d adds those of SMC, and -r begins the figures anew.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx stats                         since the last --reset\n  \
        smcx stats -d                      with versions, reasons of TCP, calls\n  \
        smcx stats --format entstat -d     as entstat -d smc_r0 on AIX\n  \
        smcx stats --absolute --json | jq .SMCD.SMC_TX_BYTES")]
    Stats(StatsArguments),
    /// Export what programs do over SMC as metrics, for Prometheus and the like.
    ///
    /// OpenMetrics text of all processes of this user, or to root of all users: connections,
    /// bytes, sizes, fallbacks by reason, links. It is written once, or with --listen answered
    /// to HTTP requests for /metrics. Each user, by the label uid, has sums of its own.
    ///
    /// While the exporter runs, no counter falls: what a process counted stays in the sums when
    /// it has ended. What it counted after it was last read is lost.
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:\n  \
        smcx metrics                       once, to the standard output\n  \
        smcx metrics --listen 9137         at http://127.0.0.1:9137/metrics\n  \
        smcx metrics --listen [::]:9137 -v    at all addresses: there is no password\n\n\
        docs/operate.md describes each metric; docs/grafana-smc.json is a dashboard of them.")]
    Metrics(MetricsArguments),
    /// Write the manual pages, or all completions, into a directory.
    #[command(hide = true, subcommand)]
    Generate(GenerateCommand),
    /// Write a completion script for a shell.
    #[command(after_help = "Examples:\n  \
        smcx completions bash > /usr/share/bash-completion/completions/smcx\n  \
        smcx completions zsh > ~/.zfunc/_smcx\n  \
        smcx completions fish > ~/.config/fish/completions/smcx.fish")]
    Completions {
        /// The shell.
        shell: Shell,
        /// One JSON object with the shell and its script.
        #[arg(long)]
        json: bool,
    },
}

/// Files of an installation.
#[derive(Subcommand, Debug)]
pub enum GenerateCommand {
    /// Manual pages of all commands: smcx.1, smcx-demo.1 and so on.
    Man {
        /// Where to; it is created if it is missing.
        directory: PathBuf,
    },
    /// Completions by the names that shells look for: smcx (bash), _smcx (zsh), smcx.fish.
    Completions {
        /// Where to; it is created if it is missing.
        directory: PathBuf,
    },
}

/// The command with all that its help shows.
#[must_use]
pub fn command() -> clap::Command {
    crate::status::documented(Cli::command())
}

/// Arguments of `check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// Capture to judge: pcap or pcapng, gzip or not; "-" for standard input.
    #[arg(required_unless_present = "rules")]
    pub file: Option<PathBuf>,
    /// One JSON object a line: each finding, then a summary.
    #[arg(long)]
    pub json: bool,
    /// Show the rules, as tables in Markdown.
    #[arg(long, conflicts_with_all = ["file", "json"])]
    pub rules: bool,
}

/// Arguments of `decode`.
#[derive(Args, Debug)]
pub struct DecodeArguments {
    /// Capture to read: pcap or pcapng, gzip or not; "-" for standard input.
    #[cfg_attr(target_os = "linux", arg(required_unless_present = "live"))]
    #[cfg_attr(not(target_os = "linux"), arg(required = true))]
    pub file: Option<PathBuf>,
    /// Capture from this interface; "any" for all of them.
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "INTERFACE", conflicts_with = "file")]
    pub live: Option<String>,
    /// End after this many frames.
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "FRAMES", requires = "live",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// All fields of each message, one a line.
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// Show messages that were sent again, too.
    #[arg(long)]
    pub retransmissions: bool,
}
