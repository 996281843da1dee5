//! Real processes: pairing, sleeping, and ends without warning. The other process is
//! this test program once more, in the role of [`child`].
#![cfg(target_os = "linux")]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};
use smc_transport_ism::device::{
    Cdc, Dmb, DmbToken, EventKind, Gid128, IsmDevice, IsmError, IsmReport, RemoteDmb,
};
use smc_transport_ism::shared::Device;
use smc_transport_ism::shared::pairing::{Call, Outcome, PairingTimeouts, Rendezvous};

const ROLE: &str = "SMC_TRANSPORT_ISM_TEST_ROLE";
const LEN: u32 = 65536;
/// Long enough for a loaded machine; what is promised is measured apart.
const LONG: Duration = Duration::from_secs(30);
const PATIENT: PairingTimeouts = PairingTimeouts {
    accept: LONG,
    grace: LONG,
    go: LONG,
};

/// The other process; does nothing in the test run itself.
#[test]
fn child() {
    let Ok(role) = env::var(ROLE) else { return };
    let mut words = role.split(' ');
    let (name, argument) = (words.next().unwrap(), words.next().unwrap_or_default());
    match name {
        "stream" => stream(argument.parse().unwrap()),
        "echo" => echo(argument.parse().unwrap()),
        "squat" => squat(argument),
        "serve" => serve(),
        "small-files" => small_files(),
        _ => panic!("{role}"),
    }
    std::process::exit(0);
}

fn spawn(role: &str, user: Option<u32>) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["child", "--exact", "--nocapture"])
        .env(ROLE, role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(user) = user {
        command.uid(user);
    }
    command.spawn().unwrap()
}

/// Reads the child's output up to a line that begins with `mark`; the rest of it.
fn line(from: &mut impl BufRead, mark: &str) -> String {
    for line in from.lines() {
        // The test harness writes the test's name before the first line.
        if let Some((_, rest)) = line.unwrap().split_once(mark) {
            return rest.trim().to_owned();
        }
    }
    panic!("the child ended before {mark}");
}

fn connect(to: SocketAddr, device: &mut Device) -> (TcpStream, Gid128) {
    let tcp = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let call = Call::announce(&tcp, to, device.facts().gid, PATIENT)
        .unwrap()
        .expect("called");
    rustix::net::connect(&tcp, &to).unwrap();
    let outcome = call.finish(&tcp, |peer| device.is_joined(peer)).unwrap();
    let Outcome::Paired(paired) = outcome else {
        panic!("plain")
    };
    (tcp.into(), device.admit(paired).unwrap())
}

/// A DMB each way, their tokens sent over the TCP connection.
struct Pair {
    tcp: TcpStream,
    peer: Gid128,
    dmb: Dmb,
    remote: RemoteDmb,
}

fn exchange(device: &mut Device, tcp: TcpStream, peer: Gid128) -> std::io::Result<Pair> {
    let gone = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let dmb = device.register_dmb(LEN, peer, None).map_err(|_| gone())?;
    let mut attach = || {
        let token = match device.wait(Some(LONG))? {
            Some(IsmReport::DmbRegistered { token, .. }) => token,
            _ => return Err(gone()),
        };
        writeln!(&tcp, "{}", token.0)?;
        let mut text = String::new();
        BufReader::new(&tcp).read_line(&mut text)?;
        let theirs = DmbToken(text.trim().parse().map_err(|_| gone())?);
        device.attach_dmb(peer, theirs, LEN).map_err(|_| gone())
    };
    match attach() {
        Ok(remote) => Ok(Pair {
            tcp,
            peer,
            dmb,
            remote,
        }),
        Err(error) => {
            let _ = device.unregister_dmb(dmb);
            Err(error)
        }
    }
}

fn cdc(number: u64) -> Cdc {
    let mut cdc = [0; 32];
    cdc[8..16].copy_from_slice(&number.to_ne_bytes());
    cdc
}

fn number(cdc: &Cdc) -> u64 {
    u64::from_ne_bytes(cdc[8..16].try_into().unwrap())
}

/// Child: does all there is to do, for ever.
fn stream(to: SocketAddr) {
    let mut device = Device::open().unwrap();
    let (tcp, peer) = connect(to, &mut device);
    let pair = exchange(&mut device, tcp, peer).unwrap();
    for round in 1.. {
        device
            .move_data(pair.remote, 0, 32, &[round as u8; 20000])
            .unwrap();
        device
            .move_cdc(pair.remote, 0, 0, &cdc(round), true)
            .unwrap();
        if round % 50 == 0 {
            let _ = device.signal_event(peer, None, 0x83, round);
            let dmb = device.register_dmb(LEN, peer, None);
            let _ = device.poll();
            dmb.map(|dmb| device.unregister_dmb(dmb))
                .unwrap_or(Ok(()))
                .unwrap();
        }
    }
}

/// Child: answers every message with the next number.
fn echo(to: SocketAddr) {
    let mut device = Device::open().unwrap();
    let (tcp, peer) = connect(to, &mut device);
    let pair = exchange(&mut device, tcp, peer).unwrap();
    loop {
        match device.wait(Some(LONG)).unwrap() {
            Some(IsmReport::Signalled { cdc: message, .. }) => {
                let answer = cdc(number(&message) + 1);
                let _ = device.move_cdc(pair.remote, 0, 0, &answer, true);
            }
            Some(IsmReport::Event(event)) if event.kind == EventKind::Gid => return,
            other => panic!("{other:?}"),
        }
    }
}

/// Child: takes a name that is not its own to take.
fn squat(name: &str) {
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket(AddressFamily::UNIX, kind, None).unwrap();
    let name = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    rustix::net::bind(&socket, &name).unwrap();
    rustix::net::listen(&socket, 8).unwrap();
    println!("\nsquatting");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Child: listens and accepts, but is slow to answer.
fn serve() {
    let device = Device::open().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut rendezvous = Rendezvous::open(&listener, device.facts().gid).unwrap();
    println!("\nlistening {}", listener.local_addr().unwrap());
    let accepted = listener.accept().unwrap().0;
    let answer = rendezvous.answer(&accepted, |_| false, &PATIENT);
    let _ = answer.map(|answer| answer.finish());
    std::thread::sleep(LONG);
}

/// Child: makes DMBs as long as its limit of files permits, and longer ones.
fn small_files() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let (mut one, mut two) = (Device::open().unwrap(), Device::open().unwrap());
    Device::join(&mut one, &mut two).unwrap();
    let peer = two.facts().gid;
    let limit = |bytes: u64| {
        let limit = Rlimit {
            current: Some(bytes),
            maximum: None,
        };
        setrlimit(Resource::Fsize, limit).unwrap();
    };
    let too_big = IsmError::System {
        errno: rustix::io::Errno::FBIG.raw_os_error(),
    };
    limit(65536);
    assert!(one.register_dmb(65536, peer, None).is_ok());
    assert_eq!(one.register_dmb(131_072, peer, None), Err(too_big));
    // Less than doorbells need.
    limit(4095);
    assert_eq!(one.register_dmb(16384, peer, None), Err(too_big));
    let refused = Device::join(&mut one, &mut two).unwrap_err();
    assert_eq!(
        refused.raw_os_error(),
        Some(rustix::io::Errno::FBIG.raw_os_error())
    );
    println!("\nlives");
}

/// The test's own process as the server.
struct Server {
    listener: TcpListener,
    rendezvous: Rendezvous,
    device: Device,
}

impl Server {
    fn new() -> Self {
        let device = Device::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rendezvous = Rendezvous::open(&listener, device.facts().gid).unwrap();
        Self {
            listener,
            rendezvous,
            device,
        }
    }

    fn role(&self, name: &str) -> String {
        format!("{name} {}", self.listener.local_addr().unwrap())
    }

    /// Accepts a client that may be killed at any time.
    fn accept(&mut self) -> std::io::Result<Pair> {
        let gone = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let tcp = self.listener.accept()?.0;
        let joined = |peer: &_| self.device.is_joined(peer);
        let answer = self
            .rendezvous
            .answer(&tcp, joined, &PATIENT)
            .ok_or_else(gone)?;
        match answer.finish()? {
            Outcome::Paired(paired) => {
                let peer = self.device.admit(paired)?;
                exchange(&mut self.device, tcp, peer)
            }
            Outcome::Plain => Err(gone()),
        }
    }
}

/// Descriptors, mappings and names of this kind that this process has.
fn possessions(server: &Server) -> (usize, usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let cookie = rustix::net::sockopt::socket_cookie(&server.listener).unwrap();
    let names = std::fs::read_to_string("/proc/net/unix").unwrap();
    let name = format!("@smc-d.3.{cookie:016x}");
    (
        descriptors,
        maps.matches("smc-d").count(),
        names.matches(&name).count(),
    )
}

/// Numbers that look random, the same each time (xorshift64*).
fn numbers() -> impl FnMut(u64) -> u64 {
    let mut state = 0x1234_5678_9abc_def1u64;
    move |bound| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

/// One at a time: what a process possesses is counted.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

//= SHM-050 test
#[test]
fn a_limit_of_files_is_an_error_and_no_signal() {
    let _alone = alone();
    let mut child = spawn("small-files", None);
    let output = child.stdout.take().unwrap();
    let lived = BufReader::new(output)
        .lines()
        .any(|line| line.unwrap() == "lives");
    let status = child.wait().unwrap();
    assert!(lived && status.success(), "{status}");
}

#[test]
fn a_process_killed_at_any_point_leaves_nothing() {
    //= SHM-029 test
    //= SHM-031 test
    let _alone = alone();
    let mut server = Server::new();
    let before = possessions(&server);
    let mut below = numbers();
    let (mut slowest, mut streamed) = (Duration::ZERO, 0u64);
    for round in 0..30 {
        let mut child = spawn(&server.role("stream"), None);
        let Pair {
            tcp,
            peer,
            dmb,
            remote,
        } = server.accept().unwrap();
        let kill_at = Instant::now() + Duration::from_micros(below(20_000));
        while Instant::now() < kill_at {
            if let Some(IsmReport::Signalled { cdc, .. }) = server.device.poll() {
                streamed = number(&cdc);
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let killed = Instant::now();
        loop {
            match server.device.wait(Some(LONG)).unwrap().expect("an event") {
                IsmReport::Event(event) if event.kind == EventKind::Gid => {
                    assert_eq!(event.peer, Some(peer), "round {round}");
                    break;
                }
                _ => {}
            }
        }
        slowest = slowest.max(killed.elapsed());
        // What it wrote is still there to read, and goes when this side lets go.
        server.device.read(dmb, 0, &mut [0; LEN as usize]).unwrap();
        let moved = server.device.move_data(remote, 0, 0, &[1]);
        assert_eq!(moved, Err(IsmError::Unreachable));
        assert!(!server.device.query_reach(peer, None));
        server.device.unregister_dmb(dmb).unwrap();
        server.device.detach_dmb(remote).unwrap();
        assert_eq!(server.device.poll(), None);
        drop(tcp);
    }
    assert!(streamed > 0, "none was killed while it streamed");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert_eq!(possessions(&server), before);
    println!("reported after {slowest:?} at most");
}

#[test]
fn a_client_killed_while_pairing_delays_no_other() {
    let _alone = alone();
    let mut server = Server::new();
    server.listener.set_nonblocking(true).unwrap();
    let before = possessions(&server);
    let mut below = numbers();
    for _ in 0..40 {
        let mut child = spawn(&server.role("stream"), None);
        // Most of this is the child's start.
        let kill_at = Instant::now() + Duration::from_micros(below(12_000));
        let mut pairs = Vec::new();
        while Instant::now() < kill_at {
            pairs.extend(server.accept());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let ended = Instant::now();
        while server
            .accept()
            .is_err_and(|e| e.kind() != std::io::ErrorKind::WouldBlock)
        {}
        pairs.drain(..).for_each(|pair| {
            server.device.unregister_dmb(pair.dmb).unwrap();
            server.device.detach_dmb(pair.remote).unwrap();
        });
        while server
            .device
            .wait(Some(Duration::from_millis(1)))
            .unwrap()
            .is_some()
        {}
        assert!(ended.elapsed() < Duration::from_secs(5));
    }
    // A process that called and died is forgotten with the next connection.
    let _plain = TcpStream::connect(server.listener.local_addr().unwrap()).unwrap();
    let _ = server.accept();
    drop(_plain);
    while server
        .device
        .wait(Some(Duration::from_millis(1)))
        .unwrap()
        .is_some()
    {}
    assert_eq!(possessions(&server), before);
}

#[test]
fn a_server_killed_while_pairing_delays_no_other() {
    let _alone = alone();
    let mut below = numbers();
    for _ in 0..20 {
        let mut child = spawn("serve", None);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let to: SocketAddr = line(&mut output, "listening ").parse().unwrap();
        let killer = std::thread::spawn({
            let pause = Duration::from_micros(below(1500));
            move || {
                std::thread::sleep(pause);
                child.kill().unwrap();
                child.wait().unwrap();
            }
        });
        let begin = Instant::now();
        let device = Device::open().unwrap();
        let tcp = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        if let Ok(Some(call)) = Call::announce(&tcp, to, device.facts().gid, PATIENT)
            && rustix::net::connect(&tcp, &to).is_ok()
        {
            let _ = call.finish(&tcp, |_| false);
        }
        assert!(begin.elapsed() < Duration::from_secs(5));
        killer.join().unwrap();
    }
}

#[test]
fn no_message_is_slept_through() {
    //= SHM-026 test
    let _alone = alone();
    let mut server = Server::new();
    let mut child = spawn(&server.role("echo"), None);
    let pair = server.accept().unwrap();
    let mut below = numbers();
    for round in 0..3000 {
        // Now and then either side is asleep, falling asleep or awake.
        if round % 3 == 0 {
            std::thread::sleep(Duration::from_micros(below(200)));
        }
        let begin = Instant::now();
        server
            .device
            .move_cdc(pair.remote, 0, 0, &cdc(round * 2), true)
            .unwrap();
        let answer = server.device.wait(Some(LONG)).unwrap().expect("an answer");
        let IsmReport::Signalled { cdc, .. } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(number(&cdc), round * 2 + 1);
        assert!(begin.elapsed() < LONG / 2);
    }
    drop(server);
    drop(pair);
    assert!(
        child.wait().unwrap().success(),
        "it noticed that the server went"
    );
}

#[test]
fn waiting_costs_no_processor_time() {
    let _alone = alone();
    let (mut one, mut two) = (Device::open().unwrap(), Device::open().unwrap());
    Device::join(&mut one, &mut two).unwrap();
    let used = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let (begin, before) = (Instant::now(), used());
    assert_eq!(one.wait(Some(Duration::from_millis(500))).unwrap(), None);
    assert!(begin.elapsed() >= Duration::from_millis(500));
    let spent = used() - before;
    assert!(spent < Duration::from_millis(20), "{spent:?}");
}

/// Users that are not this one. Only a privileged test run can be two users.
const STRANGER: u32 = 4242;

fn can_be_others() -> bool {
    rustix::process::geteuid().is_root()
}

//= SHM-054 test
#[test]
fn a_name_squatted_by_another_user_is_not_trusted() {
    let _alone = alone();
    if !can_be_others() {
        return eprintln!("not run: this user cannot start processes of others");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let cookie = rustix::net::sockopt::socket_cookie(&listener).unwrap();
    let mut child = spawn(&format!("squat smc-d.3.{cookie:016x}"), Some(STRANGER));
    line(
        &mut BufReader::new(child.stdout.take().unwrap()),
        "squatting",
    );
    let tcp = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let gid = Gid128 { gid: 1, ext: 1 };
    let to = listener.local_addr().unwrap();
    assert!(Call::announce(&tcp, to, gid, PATIENT).unwrap().is_none());
    // The listener has a spare name, which no other user can take in advance.
    let rendezvous = Rendezvous::open(&listener, gid).unwrap();
    let call = Call::announce(&tcp, to, gid, PATIENT).unwrap();
    assert!(call.is_some(), "called by its spare name");
    drop((call, rendezvous));
    assert!(Call::announce(&tcp, to, gid, PATIENT).unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
    // Its own user's it is trusted for.
    let mut child = spawn(&format!("squat smc-d.3.{cookie:016x}"), None);
    line(
        &mut BufReader::new(child.stdout.take().unwrap()),
        "squatting",
    );
    assert!(Call::announce(&tcp, to, gid, PATIENT).unwrap().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn processes_without_rights_pair_across_users() {
    let _alone = alone();
    if !can_be_others() {
        return eprintln!("not run: this user cannot start processes of others");
    }
    let mut server = Server::new();
    let mut child = spawn(&server.role("echo"), Some(STRANGER));
    let pair = server.accept().unwrap();
    server
        .device
        .move_cdc(pair.remote, 0, 0, &cdc(1), true)
        .unwrap();
    let answer = server.device.wait(Some(LONG)).unwrap();
    assert!(matches!(answer, Some(IsmReport::Signalled { cdc, .. }) if number(&cdc) == 2));
    drop(server);
    assert!(child.wait().unwrap().success());
}
