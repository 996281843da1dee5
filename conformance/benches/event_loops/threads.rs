//! Threads that have both ends of a connection each, all on the same two stacks.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use smc_sockets::{SmcListener, SmcStream};

use crate::transport::{Transport, stack};

const COUNTED: Duration = Duration::from_millis(300);

/// Messages of so many bytes a second, of all threads together.
pub(crate) fn round(threads: usize, bytes: usize, transport: Transport) -> f64 {
    match transport {
        Transport::Smc => {
            let (server, client) = (stack(), stack());
            let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
            let listener = SmcListener::on(&server, tcp).expect("a listener");
            let address = listener.local_addr().expect("its address");
            measure(threads, bytes, || {
                let one = SmcStream::connect_on(&client, address).expect("a connection");
                let two = listener.accept().expect("a connection").0;
                assert!(one.carrier().is_smc() && two.carrier().is_smc());
                (one, two)
            })
        }
        Transport::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
            let address = listener.local_addr().expect("its address");
            measure(threads, bytes, || {
                let one = TcpStream::connect(address).expect("a connection");
                one.set_nodelay(true).expect("an option");
                (one, listener.accept().expect("a connection").0)
            })
        }
        Transport::Unix => measure(threads, bytes, || UnixStream::pair().expect("a pair")),
    }
}

fn measure<S: Read + Write + Send>(threads: usize, bytes: usize, pair: impl Fn() -> (S, S)) -> f64 {
    let pairs: Vec<_> = (0..threads).map(|_| pair()).collect();
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let running: Vec<_> = pairs
            .into_iter()
            .map(|(mut one, mut two)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let (sent, mut received) = (vec![7; bytes], vec![0; bytes]);
                    barrier.wait();
                    let begin = Instant::now();
                    let mut count = 0_u64;
                    while begin.elapsed() < COUNTED {
                        for _ in 0..16 {
                            one.write_all(&sent).expect("a message");
                            two.read_exact(&mut received).expect("a message");
                        }
                        count += 16;
                    }
                    count as f64 / begin.elapsed().as_secs_f64()
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("a thread"))
            .sum()
    })
}
