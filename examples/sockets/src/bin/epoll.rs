//! An echo in one thread, on epoll: streams over SMC-D are listed by an [`EventLoop`], which
//! has one descriptor for all of them; those that TCP carries have their own.
//!
//! ```text
//! epoll serve 127.0.0.1:7007
//! ```
//!
//! `echo ask` of the example `echo` is a client for it.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use smc_sockets::{EventLoop, SmcListener, SmcStream, Stack, Wait};

/// Tokens of the listener and of the [`EventLoop`]; those of clients begin behind them.
const LISTENER: usize = 0;
const STREAMS: usize = 1;

/// Iterations without sleep after which the listener and the clients on TCP are polled.
const TURNS: usize = 64;

struct Client {
    stream: SmcStream,
    /// Bytes that it did not take back yet.
    unsent: Vec<u8>,
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => serve(address),
        _ => Err(io::Error::other("epoll serve ADDRESS")),
    }
}

fn serve(address: &str) -> io::Result<()> {
    let stack = Stack::of_process()?;
    let listener = SmcListener::bind(address)?;
    listener.set_nonblocking(true)?;
    println!("listening on {}", listener.local_addr()?);

    let mut streams = EventLoop::new(&stack)?;
    let poller = epoll::create(CreateFlags::CLOEXEC)?;
    let token = |token: usize| EventData::new_u64(token as u64);
    epoll::add(&poller, &listener, token(LISTENER), EventFlags::IN)?;
    epoll::add(&poller, &streams, token(STREAMS), EventFlags::IN)?;

    let mut clients: HashMap<usize, Client> = HashMap::new();
    let (mut last, mut turn) = (STREAMS, 0);
    let (mut ready, mut events) = (Vec::new(), Vec::with_capacity(64));
    loop {
        // Of SMC: no system call while peers answer faster than a thread wakes up.
        streams.drive(&mut ready)?;
        let mut tokens: Vec<usize> = ready.drain(..).map(|ready| ready.token).collect();

        // Everything else: asleep, or every now and then.
        let sleeps = tokens.is_empty() && streams.wait()? == Wait::Sleep;
        turn += 1;
        if sleeps || turn % TURNS == 0 {
            let none = Timespec::default();
            let timeout = (!sleeps).then_some(&none);
            match epoll::wait(&poller, spare_capacity(&mut events), timeout) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            tokens.extend(events.drain(..).map(|event| event.data.u64() as usize));
        }

        for key in tokens {
            if key == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    eprintln!("carried by {}", stream.carrier());
                    stream.set_nonblocking(true)?;
                    last += 1;
                    if stream.carrier().is_smc() {
                        streams.register(&stream, last)?;
                    } else {
                        let both = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                        epoll::add(&poller, &stream, token(last), both)?;
                    }
                    let unsent = Vec::new();
                    clients.insert(last, Client { stream, unsent });
                }
            } else if let Some(client) = clients.get_mut(&key)
                && !client.echoes()
            {
                clients.remove(&key);
            }
        }
    }
}

impl Client {
    /// Reads and writes until both would wait; whether the connection goes on.
    fn echoes(&mut self) -> bool {
        let mut chunk = [0; 16 << 10];
        loop {
            while !self.unsent.is_empty() {
                match self.stream.write(&self.unsent) {
                    Ok(written) => drop(self.unsent.drain(..written)),
                    // Nothing more is read before there is room again.
                    Err(error) => return error.kind() == ErrorKind::WouldBlock,
                }
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(read) => self.unsent.extend_from_slice(&chunk[..read]),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }
}
