//! Keeps the memory of every connection for ever: a process that ends each in order, and
//! children of it that hold on to what was mapped while the connections lasted.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use smc_sockets::{SmcStream, Stack};

/// Connections at a time.
const AT_ONCE: u32 = 8;
/// Bytes through each connection: more than a DMB has, so that all of it is touched.
const BYTES: usize = 5 << 18;
/// Bytes of a request, which the victim sends back.
const PIECE: usize = 64 << 10;

/// Arguments: the victim's address, how many connections, and how they end: `close`, or
/// `abort` with bytes unread. Prints `done`, and keeps everything until its input ends.
pub(super) fn run(arguments: &[String]) -> io::Result<()> {
    let address = super::address(arguments)?;
    let number = arguments.get(1).and_then(|number| number.parse().ok());
    let aborts = arguments.get(2).is_some_and(|end| end == "abort");
    let stack = Stack::open()?;
    let mut keepers = Vec::new();
    for _ in 0..number.unwrap_or(AT_ONCE).div_ceil(AT_ONCE) {
        let streams = (0..AT_ONCE).map(|_| {
            // On a busy machine a connection may stay on TCP, which is of no use here.
            let mut stream = loop {
                let stream = SmcStream::connect_on(&stack, address)?;
                if stream.carrier().is_smc() {
                    break stream;
                }
            };
            exchange(&mut stream)?;
            Ok(stream)
        });
        let streams = streams.collect::<io::Result<Vec<_>>>()?;
        keepers.push(keep()?);
        for stream in streams {
            end(stream, aborts)?;
        }
    }
    println!("done");
    let mut rest = Vec::new();
    io::stdin().lock().read_to_end(&mut rest)?;
    for keeper in keepers {
        // SAFETY: no pointers; the child was not waited for, so its number is still its own.
        unsafe { libc::kill(keeper, libc::SIGKILL) };
    }
    Ok(())
}

/// Sends so much that the victim writes to every page of this side's DMB.
fn exchange(stream: &mut SmcStream) -> io::Result<()> {
    let mut piece = vec![7; PIECE];
    for _ in 0..BYTES / PIECE {
        stream.write_all(&piece)?;
        stream.read_exact(&mut piece)?;
    }
    Ok(())
}

fn end(mut stream: SmcStream, aborts: bool) -> io::Result<()> {
    if aborts {
        // What comes back is not read: dropping the stream aborts it.
        stream.write_all(&[7; PIECE])?;
        stream.peek(&mut [0])?;
        return Ok(());
    }
    stream.shutdown(Shutdown::Write)?;
    if stream.read(&mut [0])? != 0 {
        return Err(io::Error::other("bytes that were never sent"));
    }
    Ok(())
}

/// A child that has all mappings of this process, none of its descriptors, and does nothing.
fn keep() -> io::Result<libc::pid_t> {
    // SAFETY: the child calls nothing but these three, which are safe to call in a child of
    // a process with threads.
    unsafe {
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::close_range(0, libc::c_uint::MAX, 0);
                loop {
                    libc::pause();
                }
            }
            child => Ok(child),
        }
    }
}
