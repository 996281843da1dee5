//! A process is killed at any moment: its peer gets an error or the end of the stream
//! within a second, and keeps nothing of it.
//!
//! `SMC_SOCKETS_KILLS` is the number of processes that are killed, 48 by default.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::alone;
use crate::common::{Random, possessions, settles};
use rustix::event::{PollFd, PollFlags};
use smc_sockets::{SmcListener, SmcStream, Stack};

const ROLE: &str = "SMC_SOCKETS_ROLE";
const KILLS: &str = "SMC_SOCKETS_KILLS";
/// The survivor must know by then.
const SECOND: Duration = Duration::from_secs(1);
const CHUNK: usize = 70_000;

/// The first byte of a connection selects what its server does.
const SEND: u8 = b's';
const TAKE: u8 = b't';
const ECHO: u8 = b'e';

/// The process to be killed; does nothing in the test run itself.
#[test]
fn victim() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (name, address) = role.split_once(' ').unwrap();
    let stack = Stack::open().unwrap();
    let connect = || SmcStream::connect_on(&stack, address);
    match name {
        "send" => drop(ask(&connect().unwrap(), SEND)),
        "take" => drop(ask(&connect().unwrap(), TAKE)),
        "echo" => drop(ask(&connect().unwrap(), ECHO)),
        // Mostly killed while it connects or closes.
        "come and go" => loop {
            drop(connect().and_then(|mut stream| stream.write_all(&[ECHO])));
        },
        "serve" => {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let listener = SmcListener::on(&stack, tcp).unwrap();
            println!("\n{}", listener.local_addr().unwrap());
            for stream in listener.incoming() {
                std::thread::spawn(|| answer(&stream.unwrap()));
            }
        }
        _ => panic!("{role}"),
    }
}

/// The side that connected: continues until a call fails.
fn ask(mut stream: &SmcStream, what: u8) -> io::Result<()> {
    let mut chunk = vec![what; CHUNK];
    stream.write_all(&[what])?;
    loop {
        match what {
            SEND => stream.write_all(&chunk)?,
            TAKE if stream.read(&mut chunk)? == 0 => return Ok(()),
            TAKE => {}
            _ => {
                stream.write_all(&chunk[..64])?;
                stream.read_exact(&mut chunk[..64])?;
            }
        }
    }
}

/// The side that accepted.
fn answer(mut stream: &SmcStream) -> io::Result<()> {
    let mut what = [0];
    stream.read_exact(&mut what)?;
    let mut chunk = vec![0; CHUNK];
    loop {
        match what {
            [TAKE] => stream.write_all(&chunk)?,
            _ => match stream.read(&mut chunk)? {
                0 => return Ok(()),
                len if what == [ECHO] => stream.write_all(&chunk[..len])?,
                _ => {}
            },
        }
    }
}

/// One that is killed when it is dropped, at the latest.
struct Victim(Child);

impl Victim {
    fn spawn(role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["kills::victim", "--exact", "--nocapture"]);
        command
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn kill(&mut self) -> Instant {
        self.0.kill().unwrap();
        let at = Instant::now();
        self.0.wait().unwrap();
        at
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What became of a survivor's connection.
struct Ended {
    at: Instant,
    smc: bool,
}

/// How many connections there were.
#[derive(Default)]
struct Count {
    smc: usize,
    tcp: usize,
    slowest: Duration,
}

impl Count {
    fn add(&mut self, ended: Ended, killed: Instant) {
        let late = ended.at.saturating_duration_since(killed);
        assert!(late < SECOND, "notified after {late:?}");
        self.slowest = self.slowest.max(late);
        *(if ended.smc {
            &mut self.smc
        } else {
            &mut self.tcp
        }) += 1;
    }
}

#[test]
fn a_killed_process_leaves_nothing_and_no_peer_waiting() {
    if !alone(&a_killed_process_leaves_nothing_and_no_peer_waiting) {
        return;
    }
    let kills = std::env::var(KILLS).map_or(48, |kills| kills.parse().unwrap());
    let mut random = Random::new(0x6b69_6c6c);
    let mut count = Count::default();
    let stack = Stack::open().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = SmcListener::on(&stack, tcp).unwrap();
    listener.set_nonblocking(true).unwrap();
    let before = possessions();
    for at in 0..kills {
        let life = Duration::from_micros(random.below(50_000));
        match ["send", "take", "echo", "come and go", "serve"][at % 5] {
            "serve" => kill_a_server(&stack, life, &mut random, &mut count),
            role => kill_a_client(&listener, role, life, &mut count),
        }
        assert!(
            settles(SECOND, || possessions() == before),
            "kill {at}: {before:?}, now {:?}",
            possessions()
        );
    }
    let Count { smc, tcp, slowest } = count;
    println!(
        "{kills} killed; {smc} SMC and {tcp} TCP connections ended, at most {slowest:?} later"
    );
    assert!(smc > 0);
}

fn kill_a_client(listener: &SmcListener, role: &str, life: Duration, count: &mut Count) {
    let address = listener.local_addr().unwrap();
    let mut victim = Victim::spawn(&format!("{role} {address}"));
    let mut serving: Vec<JoinHandle<Ended>> = Vec::new();
    let mut accept = |until: Instant| {
        while Instant::now() < until {
            let wait = rustix::time::Timespec {
                tv_sec: 0,
                tv_nsec: 1_000_000,
            };
            let mut polled = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
            rustix::event::poll(&mut polled, Some(&wait)).unwrap();
            if let Ok((stream, _)) = listener.accept() {
                serving.push(std::thread::spawn(move || {
                    let smc = stream.carrier().is_smc();
                    drop(answer(&stream));
                    drop(stream);
                    Ended {
                        at: Instant::now(),
                        smc,
                    }
                }));
            }
        }
    };
    // Starting takes a process some milliseconds.
    accept(Instant::now() + life);
    let killed = victim.kill();
    accept(Instant::now() + Duration::from_millis(10));
    for one in serving {
        count.add(one.join().unwrap(), killed);
    }
}

fn kill_a_server(stack: &Stack, life: Duration, random: &mut Random, count: &mut Count) {
    let mut victim = Victim::spawn("serve 0");
    let mut lines = BufReader::new(victim.0.stdout.take().unwrap()).lines();
    let is_address = |line: &String| line.starts_with("127.");
    let address = lines.by_ref().flatten().find(is_address).unwrap();
    let what = [SEND, TAKE, ECHO][random.below(3) as usize];
    let stack = stack.clone();
    let asking = std::thread::spawn(move || {
        let stream = SmcStream::connect_on(&stack, &*address);
        let smc = stream
            .as_ref()
            .is_ok_and(|stream| stream.carrier().is_smc());
        drop(stream.and_then(|stream| ask(&stream, what)));
        Ended {
            at: Instant::now(),
            smc,
        }
    });
    std::thread::sleep(life / 4);
    let killed = victim.kill();
    count.add(asking.join().unwrap(), killed);
}
