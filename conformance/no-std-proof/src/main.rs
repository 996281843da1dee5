//! `smc-proto` without std, without an allocator, without a reachable panic.
//!
//! The program has no runtime. It starts two endpoints in static memory, lets
//! them open, use, close, abort and lose connections, and shows every public
//! function of the crate values that are read from standard input, so that
//! nothing is decided by the compiler. It exits with 0 only if every byte that
//! arrived was the one that was sent; see [`Failure`] for the other codes.
//!
//! The panic handler calls a function that exists nowhere: if the optimised
//! program can panic at all, it does not link. `check.sh` builds, runs and
//! inspects it.
#![no_std]
#![no_main]

mod connections;
#[cfg(feature = "trace")]
mod events;
mod fabric;
mod input;
mod ism_pair;
mod objects;
#[cfg_attr(not(feature = "trace"), path = "unobserved.rs")]
mod observed;
mod parsers;
mod rnic;
mod scenarios;
mod sink;
mod smcd;
mod system;
mod values;
mod values_v2;

use core::cell::UnsafeCell;

use fabric::Pair;
use input::Input;
use ism_pair::IsmPair;
use sink::Sink;

/// Exit code of a program that panicked; only with the feature `panics`.
#[cfg(feature = "panics")]
const PANICKED: u8 = 101;
/// Exit code where a panic would be if the compiler could not see that the
/// place is never reached.
pub const EMPTY_CHOICE: u8 = 102;

/// What went wrong; its number is the exit code.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Failure {
    CodecDisagrees = 1,
    NoSuchConnection,
    NoSuchLink,
    NoSuchBuffer,
    OutsideBuffer,
    CommitRefused,
    ConsumeRefused,
    WrongOctet,
    TransferStands,
    NeverIdle,
    TimeStands,
    Full,
    NoProposal,
    ClcTakenEarly,
    ClcRefused,
    NotEstablished,
    ClosedOtherwise,
    TcpOtherwise,
    NoEndOfStream,
    HalfCloseLosesData,
    NoUrgent,
    NoTestLink,
    GroupLives,
    EyeCatcherMoved,
    NotDeclined,
    NeverTimesOut,
    #[cfg(feature = "trace")]
    NoEvents,
    #[cfg(feature = "trace")]
    EventDisagrees,
}

struct World {
    pair: Pair,
    ism: IsmPair,
    input: Input,
    sink: Sink,
}

struct Static(UnsafeCell<World>);
// SAFETY: the program has one thread.
unsafe impl Sync for Static {}

static WORLD: Static = Static(UnsafeCell::new(World {
    pair: Pair::new(),
    ism: IsmPair::new(),
    input: Input::new(),
    sink: Sink::new(),
}));

/// Called once, by `_start`.
extern "C" fn start() -> ! {
    // SAFETY: nothing else uses the static, and this is called once.
    let World {
        pair,
        ism,
        input,
        sink,
    } = unsafe { &mut *WORLD.0.get() };
    input.fill();
    #[cfg(feature = "canary")]
    {
        let at = usize::from(input.octet());
        #[allow(clippy::indexing_slicing)]
        sink.octets(&[input.all()[at]]);
    }
    let played = run(pair, input, sink).and_then(|()| smcd::all(ism, input, sink));
    match played {
        Ok(()) => system::exit(0),
        Err(failure) => system::exit(failure as u8),
    }
}

fn run(pair: &mut Pair, input: &mut Input, sink: &mut Sink) -> Result<(), Failure> {
    parsers::all(input, sink)?;
    values::wire(input, sink);
    values::notices(input, sink);
    connections::all(input, sink)?;
    #[cfg(feature = "trace")]
    events::any(input, sink)?;
    scenarios::all(pair, input, sink)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    #[cfg(feature = "panics")]
    system::exit(PANICKED);
    #[cfg(not(feature = "panics"))]
    {
        unsafe extern "C" {
            safe fn a_panic_is_reachable() -> !;
        }
        a_panic_is_reachable()
    }
}
