//! One connection, as client or as server, on a machine without an operating system: everything
//! that an embedder calls in the loop of smc-proto's documentation.
//!
//! The program is linked and measured, and never run: what the hardware would report is hidden
//! from the optimiser, which therefore has to keep every branch of the engine that it could take.
#![no_std]
#![no_main]

use core::hint::black_box;

use smc_proto::command::DataTransmit;
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::config::Config;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::{ConnOptions, Endpoint, TcpEvent};
use smc_proto::id::{ConnId, DeviceId, LinkId, WrId};
use smc_proto::path::{LocalPath, PathEvent, Paths};
use smc_proto::storage::Fixed;
use smc_proto::time::Instant;
use smc_proto::wire::clc::{MAX_LENGTH, Subnets};
use smc_proto::wire::types::{Gid, Mac, PeerId};

/// One connection, its rendezvous, its link group with both links, the buffers of either side.
type Tables = Fixed<1, 1, 1, 2, 2, 2>;
type Stack = Endpoint<Tables>;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

fn now() -> Instant {
    Instant::from_nanos(black_box(1))
}

fn port() -> LocalPath {
    let mut path = LocalPath::new(DeviceId(0), 1, Gid([0; 16]), MAC);
    path.subnet_match = true;
    black_box(path)
}

fn open(stack: &mut Stack) -> Option<ConnId> {
    let options = ConnOptions::new(Subnets::default());
    let ports = [port()];
    #[cfg(feature = "smc-d")]
    let ism = [smcd::path()];
    #[cfg(not(feature = "smc-d"))]
    let ism = [];
    let paths = Paths::new(&ports, &ism);
    if black_box(true) {
        stack.connect(now(), options, paths).ok()
    } else {
        let conn = stack.listen(now(), options).ok()?;
        stack.accept(now(), conn, paths).ok()?;
        Some(conn)
    }
}

fn report(stack: &mut Stack, conn: ConnId, link: LinkId, bytes: &[u8]) {
    let _ = black_box(stack.handle_clc(now(), conn, bytes));
    stack.handle_tcp(now(), conn, black_box(TcpEvent::PeerFin));
    stack.handle_rdma(
        now(),
        RdmaCompletion::Received {
            link,
            payload: bytes,
        },
    );
    let wr_id = WrId(black_box(1));
    stack.handle_rdma(now(), RdmaCompletion::Sent { link, wr_id });
    let cause = LinkFailure::RetriesExhausted;
    let conn = Some(conn);
    // Any other completion.
    let other = black_box(RdmaCompletion::LinkFailed { link, cause, conn });
    stack.handle_rdma(now(), other);
    let port = PathEvent::PortUp(port());
    stack.handle_path(now(), black_box(port));
    stack.handle_timeout(now());
}

fn drain(stack: &mut Stack) -> Option<LinkId> {
    let mut clc = [0; MAX_LENGTH];
    while let Ok(Some(message)) = stack.poll_clc(now(), &mut clc) {
        black_box((message, &clc));
    }
    while let Some(command) = stack.poll_tcp() {
        black_box(command);
    }
    let mut transmit = DataTransmit::EMPTY;
    while stack.poll_data(now(), DeviceId(0), &mut transmit) {
        black_box(&transmit);
    }
    while let Some(command) = stack.poll_rdma(now(), DeviceId(0)) {
        black_box(command);
    }
    #[cfg(feature = "smc-d")]
    smcd::drain(stack);
    while let Some(event) = stack.poll_event() {
        black_box(event);
    }
    black_box(stack.poll_timeout());
    black_box(Some(transmit.link))
}

fn exchange(stack: &mut Stack, conn: ConnId) {
    let Some(mut conn) = stack.conn(conn) else {
        return;
    };
    let _ = black_box(conn.write(now(), |space| black_box(space.segments[0].length)));
    let _ = black_box(conn.read(now(), |bytes| black_box(bytes.segments[0].length)));
    if black_box(conn.is_end_of_stream()) {
        conn.shutdown(now(), black_box(Shutdown::Write));
    }
    if black_box(false) {
        conn.abort(now());
    }
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    let config = Config::new(PeerId::new(1, MAC));
    let mut stack = Stack::new(black_box(config), black_box(0x5eed), Tables::new());
    let bytes = black_box([0u8; MAX_LENGTH]);
    loop {
        if let Some(conn) = open(&mut stack)
            && let Some(link) = drain(&mut stack)
        {
            report(&mut stack, conn, link, &bytes);
            exchange(&mut stack, conn);
        }
    }
}

#[cfg(feature = "smc-d")]
mod smcd {
    //! What an ISM device adds.

    use core::hint::black_box;

    use smc_proto::completion::IsmCompletion;
    use smc_proto::id::DeviceId;
    use smc_proto::path::IsmPath;
    use smc_proto::wire::types::{Chid, IsmGid};

    use super::{Stack, now};

    pub(crate) fn path() -> IsmPath {
        let gid = IsmGid {
            gid: 1,
            gid_ext: 0,
            chid: Chid(0),
        };
        black_box(IsmPath::new(DeviceId(1), gid))
    }

    pub(crate) fn drain(stack: &mut Stack) {
        while let Some(command) = stack.poll_ism(now(), DeviceId(1)) {
            black_box(command);
        }
        let (device, peer) = (DeviceId(1), path().gid);
        // Any completion.
        stack.handle_ism(
            now(),
            black_box(IsmCompletion::PeerVanished { device, peer }),
        );
    }
}
