//! The program that is attacked by its clients: an echo server, a thread for each connection.

use std::io::{self, BufRead, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use smc_sockets::{SmcListener, SmcStream};

/// How many connections were accepted, by what carries them.
#[derive(Debug, Default)]
struct Served {
    smc: AtomicU64,
    tcp: AtomicU64,
    /// What carries the last one that is TCP, and why.
    why: Mutex<String>,
}

/// Listens on 127.0.0.1, prints `listening ADDRESS`, and echoes until standard input ends.
/// Answers the line `served` by `served SMC TCP`: connections of each kind up to now; and
/// `why` by `why CARRIER`: what carries the last one that is TCP.
///
/// # Errors
/// The operating system's.
pub fn run() -> io::Result<()> {
    let stack = super::stack()?;
    let listener = SmcListener::on(&stack, TcpListener::bind("127.0.0.1:0")?)?;
    println!("listening {}", listener.local_addr()?);
    let served = Arc::new(Served::default());
    let counted = served.clone();
    std::thread::spawn(move || {
        loop {
            // A server goes on when a descriptor or a client is missing.
            let Ok((stream, _)) = listener.accept() else {
                std::thread::sleep(std::time::Duration::from_millis(1));
                continue;
            };
            let count = if stream.carrier().is_smc() {
                &counted.smc
            } else {
                *counted.why.lock().expect("no thread panicked") = stream.carrier().to_string();
                &counted.tcp
            };
            count.fetch_add(1, Ordering::Relaxed);
            // Without a thread the connection ends, and the client shows it.
            let _ = std::thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(move || echo(stream));
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

fn echo(mut stream: SmcStream) {
    let mut chunk = vec![0; 16 << 10];
    while let Ok(len @ 1..) = stream.read(&mut chunk) {
        if stream.write_all(&chunk[..len]).is_err() {
            break;
        }
    }
}
