//! The client of the workload [`Setup`](crate::parts::Workload::Setup): how long a connection takes
//! to be opened, to carry one byte each way, and to be closed.

use std::time::{Duration, Instant};

use smc_sockets::Stack;

use crate::epoll::Connection;
use crate::transport::Transport;

/// Mean microseconds of `count` connections, one after another with a pause before each, and how
/// many of all were SMC. A tenth as many are made before, to warm up, and are not timed.
pub(crate) fn client(
    transport: Transport,
    stack: Option<&Stack>,
    address: &str,
    pause: Duration,
    count: usize,
) -> (f64, usize) {
    let (mut total, mut smc) = (Duration::ZERO, 0);
    for round in 0..count + count / 10 {
        std::thread::sleep(pause);
        let begin = Instant::now();
        let mut connection = Connection::open(transport, stack, address).expect("a connection");
        let mut byte = [7];
        assert_eq!(connection.write(&byte).expect("a byte"), 1);
        assert_eq!(connection.read(&mut byte).expect("a byte"), 1);
        smc += usize::from(connection.is_smc());
        drop(connection);
        if round >= count / 10 {
            total += begin.elapsed();
        }
    }
    (total.as_secs_f64() * 1e6 / count as f64, smc)
}
