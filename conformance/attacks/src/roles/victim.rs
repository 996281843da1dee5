//! The program that is attacked by its clients: an echo server, a thread for each connection.

use std::io::{self, BufRead, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use smc_sockets::{Accepting, SmcListener, SmcStream, Stack};

/// How many connections were accepted, by what carries them.
#[derive(Debug, Default)]
struct Served {
    smc: AtomicU64,
    tcp: AtomicU64,
    /// What carries the last one that is TCP, and why.
    why: Mutex<String>,
}

/// Where its connections come from.
enum Source {
    /// The listener of the crate that is attacked.
    Listener(SmcListener),
    /// A kernel listener, from which the program accepts by itself.
    Kernel(Stack, TcpListener),
}

impl Source {
    /// The next connection, if it is decided already what carries it.
    fn accept(&self) -> io::Result<Arrival> {
        match self {
            Self::Listener(listener) => listener.accept().map(|(stream, _)| Ok(stream)),
            Self::Kernel(stack, listener) => {
                let accepted = stack.accepted(listener.accept()?.0);
                Ok(accepted.map_or_else(|tcp| Ok(tcp.into()), Err))
            }
        }
    }
}

/// A connection, decided or not.
type Arrival = Result<SmcStream, Accepting>;

/// Listens on 127.0.0.1, prints `listening ADDRESS`, and echoes until standard input ends.
/// Answers the line `served` by `served SMC TCP`: connections of each kind up to now; and
/// `why` by `why CARRIER`: what carries the last one that is TCP. With the argument `kernel` it
/// accepts by itself, from a kernel listener.
///
/// # Errors
/// The operating system's.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let stack = super::stack()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening {}", listener.local_addr()?);
    let source = match arguments.first() {
        Some(how) if how == "kernel" => {
            stack.announce_listener(&listener)?;
            Source::Kernel(stack, listener)
        }
        _ => Source::Listener(SmcListener::on(&stack, listener)?),
    };
    let served = Arc::new(Served::default());
    let counted = served.clone();
    std::thread::spawn(move || {
        loop {
            // A server goes on when a descriptor or a client is missing.
            let Ok(arrival) = source.accept() else {
                std::thread::sleep(std::time::Duration::from_millis(1));
                continue;
            };
            let counted = counted.clone();
            // Without a thread the connection ends, and the client shows it.
            let _ = std::thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(move || {
                    // A client that has gone is no connection.
                    let stream = match arrival {
                        Err(accepting) => accepting.wait(),
                        Ok(stream) => Ok(stream),
                    };
                    if let Ok(stream) = stream {
                        counted.count(&stream);
                        echo(stream);
                    }
                });
        }
    });
    for line in io::stdin().lock().lines() {
        match line?.trim() {
            "served" => {
                let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
                println!("served {} {}", count(&served.smc), count(&served.tcp));
            }
            "why" => println!("why {}", served.why.lock().expect("no thread panicked")),
            _ => {}
        }
    }
    Ok(())
}

impl Served {
    fn count(&self, stream: &SmcStream) {
        let count = if stream.carrier().is_smc() {
            &self.smc
        } else {
            *self.why.lock().expect("no thread panicked") = stream.carrier().to_string();
            &self.tcp
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn echo(mut stream: SmcStream) {
    let mut chunk = vec![0; 16 << 10];
    while let Ok(len @ 1..) = stream.read(&mut chunk) {
        if stream.write_all(&chunk[..len]).is_err() {
            break;
        }
    }
}
