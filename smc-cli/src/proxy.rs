//! `smcx proxy`: connections passed on, for programs that cannot be preloaded.

mod carry;
mod totals;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use smc_sockets::policy::Transport as Carrier;
use smc_sockets::tokio::{SmcListener, SmcStream};
use smc_sockets::{Policy, Settings, Stack};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::cli::{HostPort, ProxyArguments, Transport, canonical};
use crate::net::{PAUSE, Signals, problem};
use crate::output::{Failure, Screen, grouped};
use crate::policy;
use carry::{Carried, Limits};
use totals::Totals;

/// Lines of connections that wait to be written; further ones make connections wait.
const LINES: usize = 256;

/// A connection that was taken, and what became of it.
struct Passed {
    client: String,
    outcome: Outcome,
}

enum Outcome {
    /// The target was reached.
    Carried(Box<Carried>),
    /// The connection was not made.
    Unreached(io::Error),
    /// No connection could be accepted.
    NotAccepted(io::Error),
}

/// Runs the proxy until a signal ends it.
///
/// # Errors
/// [`Failure::Problem`] if it cannot listen, or had to cut connections off.
pub fn run(
    arguments: &ProxyArguments,
    screen: &Screen,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| problem("proxy", &error))?;
    let outcome = runtime.block_on(serve(arguments, screen, stdout, stderr));
    // What is still in flight was cut off.
    runtime.shutdown_background();
    outcome
}

async fn serve(
    arguments: &ProxyArguments,
    screen: &Screen,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let listen = arguments.to_listen().map_err(Failure::Usage)?;
    let target = arguments.to_connect().map_err(Failure::Usage)?;
    let policy = policy::load(&arguments.policy)?;
    let from = stack(&policy, arguments.from)?;
    let to = stack(&policy, arguments.to)?;
    let shown = listen.to_string();
    let listener = bind(&from, &listen).map_err(|error| problem(&shown, &error))?;
    let mut signals = Signals::to_end().map_err(|error| problem("proxy", &error))?;
    // On a terminal, a command that only waits seems to hang.
    if arguments.verbose || screen.progress {
        let here = listener.local_addr();
        let here = here.map_err(|error| problem(&shown, &error))?;
        // A closed error stream keeps nothing from being carried.
        let _ = writeln!(stderr, "smcx: proxy: {here} to {target}");
    }
    let (report, mut passed) = mpsc::channel(LINES);
    let places = Arc::new(Semaphore::new(arguments.at_once as usize));
    let (end, ended) = watch::channel(false);
    let accepting = tokio::spawn(accept(Proxy {
        listener,
        to,
        target,
        places,
        report,
        ended,
        connect: Duration::from_secs(arguments.connect_timeout.into()),
        idle: (arguments.idle > 0).then(|| Duration::from_secs(arguments.idle.into())),
    }));
    let mut totals = Totals::default();
    let mut note = |passed: &Passed| {
        totals.add(passed);
        if arguments.verbose || !matches!(passed.outcome, Outcome::Carried(_)) {
            let _ = writeln!(stderr, "smcx: proxy: {}", line(passed));
        }
    };
    loop {
        tokio::select! {
            Some(passed) = passed.recv() => note(&passed),
            () = signals.next() => break,
        }
    }
    accepting.abort();
    // Connections that are there may end by themselves. A second signal does not wait.
    let drained = async {
        while let Some(passed) = passed.recv().await {
            note(&passed);
        }
    };
    let drain = Duration::from_secs(arguments.drain.into());
    let is_drained = tokio::select! {
        drained = timeout(drain, drained) => drained.is_ok(),
        () = signals.next() => false,
    };
    if !is_drained {
        let _ = end.send(true);
        let cut = async {
            while let Some(passed) = passed.recv().await {
                note(&passed);
            }
        };
        let _ = timeout(Duration::from_secs(5), cut).await;
    }
    match arguments.json {
        true => writeln!(stdout, "{}", totals.json())?,
        false => totals.text(stdout)?,
    }
    match is_drained {
        true => Ok(()),
        false => Err(Failure::Problem(
            "proxy: connections were cut off that had not ended".to_owned(),
        )),
    }
}

/// A stack whose connections may be carried by a transport only.
fn stack(policy: &Policy, transport: Transport) -> Result<Stack, Failure> {
    let mut settings = Settings::default();
    settings.policy = policy.clone();
    let only = match transport {
        Transport::Auto => None,
        Transport::Ism => Some(Some(Carrier::Ism)),
        Transport::Verbs => Some(Some(Carrier::Verbs)),
        Transport::Tcp => Some(None),
    };
    if let Some(only) = only {
        // What the policy forbids stays forbidden.
        settings.policy.transports.retain(|of| Some(*of) == only);
    }
    Stack::with(settings).map_err(|error| problem("no SMC stack", &error))
}

/// Listens for IPv4 and IPv6 if no address is given.
fn bind(stack: &Stack, at: &HostPort) -> io::Result<SmcListener> {
    SmcListener::from_std(crate::net::listen_on(stack, at)?)
}

/// What passes connections on.
struct Proxy {
    listener: SmcListener,
    to: Stack,
    target: HostPort,
    places: Arc<Semaphore>,
    report: mpsc::Sender<Passed>,
    ended: watch::Receiver<bool>,
    connect: Duration,
    idle: Option<Duration>,
}

async fn accept(proxy: Proxy) {
    loop {
        // Further connections wait where the kernel keeps them.
        let Ok(place) = proxy.places.clone().acquire_owned().await else {
            return;
        };
        let (client, address) = match proxy.listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                let outcome = Outcome::NotAccepted(error);
                let client = "accept".to_owned();
                if proxy.report.send(Passed { client, outcome }).await.is_err() {
                    return;
                }
                sleep(PAUSE).await;
                continue;
            }
        };
        let (to, target, report) = (proxy.to.clone(), proxy.target.clone(), proxy.report.clone());
        let limits = Limits {
            idle: proxy.idle,
            ended: proxy.ended.clone(),
        };
        let connect = proxy.connect;
        tokio::spawn(async move {
            let outcome = match reach(&to, &target, connect).await {
                Ok(server) => {
                    let carried = carry::carry(client, server, limits).await;
                    Outcome::Carried(Box::new(carried))
                }
                Err(error) => {
                    carry::reset(client);
                    Outcome::Unreached(error)
                }
            };
            drop(place);
            let client = canonical(address).to_string();
            // The proxy may have given up waiting.
            let _ = report.send(Passed { client, outcome }).await;
        });
    }
}

async fn reach(stack: &Stack, target: &HostPort, most: Duration) -> io::Result<SmcStream> {
    let HostPort::At(host, port) = target else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let connecting = SmcStream::connect_on(stack, (host.as_str(), *port));
    let connected = timeout(most, connecting).await;
    connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn line(passed: &Passed) -> String {
    let client = &passed.client;
    match &passed.outcome {
        Outcome::Unreached(error) => {
            format!(
                "{client}: the target is not reached: {}",
                crate::output::reason(error)
            )
        }
        Outcome::NotAccepted(error) => format!("{client}: {}", crate::output::reason(error)),
        Outcome::Carried(carried) => {
            let mut line = format!(
                "{client}: from {}, to {}; {} bytes there, {} back",
                carried.from,
                carried.to,
                grouped(carried.there),
                grouped(carried.back),
            );
            if let Some(error) = &carried.error {
                line += &format!("; {error}");
            }
            line
        }
    }
}
