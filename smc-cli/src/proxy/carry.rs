//! One connection and the one it is passed on to.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use smc_sockets::Carrier;
use smc_sockets::tokio::{OwnedReadHalf, OwnedWriteHalf, SmcStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::output::reason;

/// Bytes that are on the way in each direction between the two connections.
const CHUNK: usize = 64 << 10;

/// How often bytes are counted within the time after which a connection is idle.
const CHECKS: u32 = 4;

/// What ends a connection besides its ends.
pub(super) struct Limits {
    /// Time over which nothing comes.
    pub(super) idle: Option<Duration>,
    /// Whether the proxy ends.
    pub(super) ended: watch::Receiver<bool>,
}

/// A connection that has ended.
pub(super) struct Carried {
    /// What carried the connection that was taken.
    pub(super) from: Carrier,
    /// What carried the one to the target.
    pub(super) to: Carrier,
    /// Bytes from the client to the target.
    pub(super) there: u64,
    /// Bytes from the target to the client.
    pub(super) back: u64,
    pub(super) error: Option<Broken>,
}

/// Why a connection did not end by both its ends.
pub(super) enum Broken {
    Client(io::Error),
    Target(io::Error),
    Idle,
    Ended,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => write!(f, "the client's side broke: {}", reason(error)),
            Self::Target(error) => write!(f, "the target's side broke: {}", reason(error)),
            Self::Idle => f.write_str("reset, as nothing came for too long"),
            Self::Ended => f.write_str("cut off, as the proxy ended"),
        }
    }
}

/// Which side an error is of.
enum Side<T> {
    From(T),
    To(T),
}

/// Carries a connection until both directions have ended, or one side breaks.
pub(super) async fn carry(client: SmcStream, target: SmcStream, mut limits: Limits) -> Carried {
    // Bytes leave as they came: their sender knows what belongs together.
    let _ = client.set_nodelay(true);
    let _ = target.set_nodelay(true);
    let (from, to) = (*client.carrier(), *target.carrier());
    let (there, back) = (AtomicU64::new(0), AtomicU64::new(0));
    let (mut client_read, mut client_write) = client.into_split();
    let (mut target_read, mut target_write) = target.into_split();
    let error = {
        let both = async {
            let forth = pass(&mut client_read, &mut target_write, &there);
            let back = pass(&mut target_read, &mut client_write, &back);
            let forth = async {
                forth.await.map_err(|side| match side {
                    Side::From(error) => Broken::Client(error),
                    Side::To(error) => Broken::Target(error),
                })
            };
            let back = async {
                back.await.map_err(|side| match side {
                    Side::From(error) => Broken::Target(error),
                    Side::To(error) => Broken::Client(error),
                })
            };
            tokio::try_join!(forth, back).err()
        };
        tokio::select! {
            error = both => error,
            () = idle(limits.idle, &there, &back) => Some(Broken::Idle),
            () = end(&mut limits.ended) => Some(Broken::Ended),
        }
    };
    let client = client_read.reunite(client_write);
    let target = target_read.reunite(target_write);
    if let (Some(_), Ok(client), Ok(target)) = (&error, client, target) {
        // Neither end may take what it has for all there was.
        reset(client);
        reset(target);
    }
    Carried {
        from,
        to,
        there: there.load(Ordering::Relaxed),
        back: back.load(Ordering::Relaxed),
        error,
    }
}

/// Ends a connection so that its peer sees that it broke.
pub(super) fn reset(stream: SmcStream) {
    // It may be broken already.
    let _ = stream.set_linger(Some(Duration::ZERO));
}

/// Passes one direction on, and its end.
async fn pass(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    count: &AtomicU64,
) -> Result<(), Side<io::Error>> {
    let mut bytes = vec![0; CHUNK];
    loop {
        let len = from.read(&mut bytes).await.map_err(Side::From)?;
        if len == 0 {
            return to.shutdown().await.map_err(Side::To);
        }
        let part = bytes.get(..len).unwrap_or_default();
        // Nothing more is read before this is written: a peer that does not read stops the
        // other one.
        to.write_all(part).await.map_err(Side::To)?;
        count.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// Waits until nothing came in either direction for so long.
async fn idle(most: Option<Duration>, there: &AtomicU64, back: &AtomicU64) {
    let Some(most) = most else {
        return std::future::pending().await;
    };
    let counts = || (there.load(Ordering::Relaxed), back.load(Ordering::Relaxed));
    let (mut last, mut idle) = (counts(), 0);
    while idle < CHECKS {
        sleep(most / CHECKS).await;
        let now = counts();
        idle = if now == last { idle + 1 } else { 0 };
        last = now;
    }
}

async fn end(ended: &mut watch::Receiver<bool>) {
    // Without its other end, the proxy is gone.
    let _ = ended.wait_for(|ended| *ended).await;
}
