//! `smcx ss`: the kernel's records as `smcss` shows them, and connections of programs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use serde_json::Value;
use smc_sockets::{Policy, Settings, SmcListener, SmcStream, Stack};
use smcx::ss::kernel;
use smcx::ss::row::{Columns, Cursor, Row};

use super::child::{Listener, User};
use crate::common::smcx;
use crate::stats::Ended;

/// A record of `sock_diag`: state, mode, addresses, and attributes.
fn record(state: u8, mode: u8, ends: [SocketAddr; 2], attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![43, state, mode, 0];
    for end in ends {
        body.extend(end.port().to_be_bytes());
    }
    for end in ends {
        let mut address = [0; 16];
        match end {
            SocketAddr::V4(at) => address[..4].copy_from_slice(&at.ip().octets()),
            SocketAddr::V6(at) => address = at.ip().octets(),
        }
        body.extend(address);
    }
    body.extend(2_u32.to_ne_bytes());
    body.extend([0; 8]);
    body.extend(1000_u32.to_ne_bytes());
    body.extend(4711_u64.to_ne_bytes());
    assert_eq!(body.len(), 64);
    for (kind, value) in attributes {
        body.extend((4 + value.len() as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    message(20, &body)
}

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend([0; 10]);
    message.extend(body);
    message
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn parsed(datagram: &[u8]) -> Vec<Row> {
    let mut rows = Vec::new();
    kernel::parse(datagram, &mut rows);
    rows
}

fn ends(local: &str, peer: &str) -> [SocketAddr; 2] {
    [local.parse().unwrap(), peer.parse().unwrap()]
}

/// Attribute 1: token 7, buffers of 64 KiB, cursors with wraps and counts 1 to 7.
fn connection() -> Vec<u8> {
    let cursor = |at: u16| {
        let mut cursor = [[0; 2], at.to_ne_bytes()].concat();
        cursor.extend(u32::from(at).to_ne_bytes());
        cursor
    };
    let mut value = words(&[7, 0x1_0000, 0x1_0000, 0x1_0000]);
    (1..=4).for_each(|at| value.extend(cursor(at)));
    value.extend([0x80, 0x40, 0x20, 0x10]);
    (5..=7).for_each(|at| value.extend(cursor(at)));
    value
}

const HEADER: &str = "State          UID   Inode   Local Address           Peer Address            \
                      Intf Mode ";

#[test]
fn records_of_the_kernel_are_shown_as_smcss_shows_them() {
    let shut = |bits| (3, vec![bits, 0, 0, 0]);
    let of = ends("10.0.0.1:80", "10.0.0.2:40000");
    let mut link = vec![1];
    link.extend(b"mlx5_0".iter().chain(&[0; 58]));
    link.push(1);
    for gid in ["fe80::1", "fe80::2"] {
        link.extend(gid.bytes().chain(std::iter::repeat_n(0, 40 - gid.len())));
    }
    link.push(1);
    let mut memory = words(&[9, 0]);
    [2_u64, 1, 3, 4]
        .iter()
        .for_each(|word| memory.extend(word.to_ne_bytes()));
    let mut dump = Vec::new();
    for of in [
        record(1, 1, of, &[shut(0), (5, words(&[0x0301_0000, 0]))]),
        record(
            1,
            1,
            of,
            &[shut(0), (5, words(&[0x0305_0000, 0x0303_0007]))],
        ),
        record(10, 0, ends("[::]:443", "[::]:0"), &[shut(0)]),
        record(2, 0, of, &[shut(0)]),
        record(7, 0, of, &[shut(0)]),
        record(24, 0, of, &[shut(1), (1, connection()), (2, link)]),
        record(99, 2, of, &[shut(2), (4, memory)]),
    ] {
        dump.extend(of);
    }
    let rows = parsed(&dump);
    let columns = Columns::default();
    assert_eq!(columns.header(), HEADER);
    let lines: Vec<_> = rows.iter().map(|row| columns.line(row)).collect();
    let basis = "01000 0004711 10.0.0.1:80             10.0.0.2:40000          0002 ";
    assert_eq!(
        lines,
        [
            format!("ACTIVE         {basis}TCP 0x03010000 "),
            format!("ACTIVE         {basis}TCP 0x03050000/0x03030007 "),
            // Four words of zero are of IPv4.
            "LISTEN         01000 0004711 0.0.0.0:443             ".to_owned(),
            "INIT           01000 0004711 ".to_owned(),
            format!("CLOSED         {basis}"),
            format!("APPFINCLOSEWAIT1 {basis}SMCR "),
            format!("0x63?          {basis}SMCD "),
        ]
    );
    let details = Columns {
        details: true,
        smcr: true,
        ..columns
    };
    assert_eq!(
        details.header(),
        format!(
            "{HEADER}Shutd Token    Sndbuf   Rcvbuf   Peerbuf  rxprod-Cursor rxcons-Cursor rxFlags \
             txprod-Cursor txcons-Cursor txFlags txprep-Cursor txsent-Cursor txfin-Cursor  \
             Role IB-device       Port Linkid GID                                      Peer-GID"
        )
    );
    assert_eq!(
        details.line(&rows[5]),
        format!(
            "APPFINCLOSEWAIT1 {basis}SMCR  R->  00000007 00010000 00010000 00010000 \
             0001:00000001 0002:00000002 80:40   0003:00000003 0004:00000004 20:10   \
             0005:00000005 0006:00000006 0007:00000007 SERV mlx5_0          01   01     \
             fe80::1                                  fe80::2 "
        )
    );
    let memory = Columns {
        smcd: true,
        ..columns
    };
    assert_eq!(
        memory.line(&rows[6]),
        format!(
            "0x63?          {basis}SMCD 0000000000000001 0000000000000003 0000000000000002 \
             0000000000000004 00000009 "
        )
    );
}

/// The twelve states of the kernel, by the numbers that it has for them.
#[test]
fn states_have_the_names_of_smcss() {
    let of = ends("10.0.0.1:80", "10.0.0.2:40000");
    let states = [
        (1, "ACTIVE"),
        (2, "INIT"),
        (7, "CLOSED"),
        (10, "LISTEN"),
        (20, "PEERCLOSEWAIT1"),
        (21, "PEERCLOSEWAIT2"),
        (22, "APPCLOSEWAIT1"),
        (23, "APPCLOSEWAIT2"),
        (24, "APPFINCLOSEWAIT1"),
        (25, "PEERFINCLOSEWAIT"),
        (26, "PEERABORTWAIT"),
        (27, "PROCESSABORT"),
    ];
    for number in 0..=u8::MAX {
        let rows = parsed(&record(number, 2, of, &[]));
        let line = Columns::default().line(&rows[0]);
        let known = states.iter().find(|(of, _)| *of == number);
        let name = match known {
            Some((_, name)) => (*name).to_owned(),
            // As the C library writes 0 in this form.
            None if number == 0 => "0?".to_owned(),
            None => format!("{number:#x}?"),
        };
        let expected = format!("{name:<14} 01000 0004711 ");
        assert!(line.starts_with(&expected), "{number}: {line}");
    }
}

#[test]
fn long_addresses_are_cut_unless_all_is_wanted() {
    let of = ends("[2001:db8:1:2:3:4:5:6]:65535", "[2001:db8::1]:1");
    let rows = parsed(&record(1, 2, of, &[]));
    let line = Columns::default().line(&rows[0]);
    assert!(
        line.contains(" 2001:db8:1:2:3:..:65535 2001:db8::1:1           0002 SMCD "),
        "{line}"
    );
    let wide = Columns {
        wide: true,
        ..Columns::default()
    };
    let line = wide.line(&rows[0]);
    assert!(
        line.contains(" 2001:db8:1:2:3:4:5:6:65535 2001:db8::1:1 "),
        "{line}"
    );
}

/// Whatever a datagram has, reading it ends.
#[test]
fn datagrams_of_any_content_are_read() {
    let of = ends("10.0.0.1:80", "10.0.0.2:40000");
    let whole = record(1, 0, of, &[(1, connection()), (3, vec![0; 4])]);
    for length in 0..whole.len() {
        parsed(&whole[..length]);
        for wrong in [0, 1, 15, 16, 17, 0xff] {
            let mut broken = whole.clone();
            broken[length] = wrong;
            parsed(&broken);
        }
    }
    // Behind the end of a list there is nothing.
    for end in [message(2, &words(&[0])), message(3, &[])] {
        assert_eq!(
            parsed(&[whole.clone(), end, whole.clone()].concat()).len(),
            1
        );
    }
    let mut control = record(1, 0, of, &[(2, [&[1][..], b"\x1b[2J", &[0; 150]].concat())]);
    let shown = parsed(&control).remove(0).link.unwrap();
    assert_eq!(shown.device, "?[2J");
    control.truncate(70);
    assert_eq!(parsed(&control), []);
}

#[test]
fn the_request_is_that_of_smcss() {
    let request = kernel::request();
    assert_eq!(request.len(), 68);
    assert_eq!(request[16..20], [43, 0, 0, 11]);
}

#[test]
fn cursors_of_a_stream_turn_with_their_ring() {
    let at = |position, ring| {
        let cursor = Cursor::of(position, ring);
        (cursor.wrap, cursor.count)
    };
    assert_eq!(at(0, 100), (0, 0));
    assert_eq!(at(99, 100), (0, 99));
    assert_eq!(at(100, 100), (1, 0));
    assert_eq!(at(100 * 65_537 + 5, 100), (1, 5));
    assert_eq!(at(5, 0), (0, 0));
}

/// The objects of this process whose server has this port.
fn of_port(port: u16, arguments: &[&str]) -> Vec<Value> {
    let outcome = smcx(["ss", "--json"].iter().chain(arguments).copied());
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let objects = outcome.stdout.lines();
    let objects = objects.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let has = |object: &Value, key: &str| {
        let address = object[key].as_str().unwrap_or_default();
        address.ends_with(&format!(":{port}"))
    };
    let is = |object: &Value| {
        object["process"] == std::process::id() && (has(object, "local") || has(object, "peer"))
    };
    objects.filter(is).collect()
}

#[test]
fn connections_of_programs_are_listed_with_their_reasons() {
    let stack = Stack::open().unwrap();
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listener = SmcListener::on(&stack, tcp).unwrap();
    let address = listener.local_addr().unwrap();
    let port = address.port();
    let accept = |listener: SmcListener| {
        std::thread::spawn(move || (listener.accept().unwrap().0, listener))
    };
    let accepting = accept(listener);
    let mut near = SmcStream::connect_on(&Stack::open().unwrap(), address).unwrap();
    let (mut far, listener) = accepting.join().unwrap();
    assert!(near.carrier().is_smc(), "{}", near.carrier());
    near.write_all(&[1; 1000]).unwrap();
    far.read_exact(&mut [0; 1000]).unwrap();

    let listed = of_port(port, &[]);
    assert_eq!(listed.len(), 2, "{listed:?}");
    for object in &listed {
        assert_eq!(
            (&object["state"], &object["mode"]),
            (&"ACTIVE".into(), &"SMCD".into())
        );
        let sent = [&object["sent_bytes"], &object["received_bytes"]];
        assert!(sent == [1000, 0] || sent == [0, 1000], "{object}");
    }
    assert_eq!(of_port(port, &["-a"]).len(), 3);
    let listening = of_port(port, &["-l"]);
    assert_eq!(listening.len(), 1);
    assert_eq!(listening[0]["state"], "LISTEN");
    assert_eq!(of_port(port, &["-R"]).len(), 0);
    assert_eq!(of_port(port, &["-D"]).len(), 2);

    // One that is TCP, in words and by its code.
    let accepting = accept(listener);
    let _plain = TcpStream::connect(address).unwrap();
    let (accepted, _listener) = accepting.join().unwrap();
    let why = *accepted.carrier().why_tcp().unwrap();
    let listed = of_port(port, &[]);
    let tcp: Vec<_> = listed.iter().filter(|at| at["mode"] == "TCP").collect();
    assert_eq!(tcp.len(), 1, "{listed:?}");
    assert_eq!(tcp[0]["reason"], why.smcss());
    assert_eq!(tcp[0]["why"], why.sentence());
    assert_eq!(tcp[0]["remedy"], why.remedy());
    let shown = smcx(["ss", "--explain"]);
    assert_eq!(shown.status, 0, "{}", shown.stderr);
    let mut lines = shown.stdout.lines();
    assert_eq!(lines.next(), Some(format!("{HEADER}Process").as_str()));
    let peer = accepted.peer_addr().unwrap().to_string();
    assert!(
        lines.any(|line| line.contains(&peer) && line.contains(&why.smcss())),
        "{}",
        shown.stdout
    );
    assert_eq!(
        lines.next(),
        Some(format!("    why: {}", why.sentence()).as_str())
    );
    assert!(lines.next().unwrap().starts_with("    what to do: "));
    drop((near, far));
}

/// The code of a policy says nothing of which rule it is.
#[test]
fn the_remedy_is_that_of_the_particular_cause() {
    let mut settings = Settings::default();
    settings.policy = Policy::parse("exclude = [\"127.0.0.0/8\"]").unwrap();
    let stack = Stack::with(settings).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let near = SmcStream::connect_on(&stack, address).unwrap();
    let why = *near.carrier().why_tcp().unwrap();
    let of_code = why.reason().code.remedy();
    assert_ne!(why.remedy(), of_code);
    let listed = of_port(address.port(), &[]);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["remedy"], why.remedy());
    let shown = smcx(["ss", "--explain"]).stdout;
    let expected = format!(
        "    why: {}\n    what to do: {}\n",
        why.sentence(),
        why.remedy()
    );
    assert!(shown.contains(&expected), "{shown}");
    drop((near, listener));
}

/// A program that accepts by itself, as those under `smcx run` do, has its listeners listed, too.
#[test]
fn listeners_of_the_kernel_are_listed_until_they_are_closed() {
    let stack = Stack::open().unwrap();
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = tcp.local_addr().unwrap().port();
    stack.announce_listener(&tcp).unwrap();
    assert_eq!(of_port(port, &["-l"]).len(), 0);
    let published = stack.publish_listener(&tcp).unwrap();
    let listed = of_port(port, &["-l"]);
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["state"], "LISTEN");
    drop(published);
    assert_eq!(of_port(port, &["-l"]).len(), 0);
}

/// A program need not run to be seen: what it has counted is read as it is.
#[test]
fn a_stopped_program_is_listed_with_what_it_has_counted() {
    let listener = Listener::start(&User::Own, &["--exec", "cat > /dev/null", "--keep-open"]);
    let mut stream = SmcStream::connect(listener.address.as_str()).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    stream.write_all(&[1; 5000]).unwrap();
    let listed = |received: u64| {
        let outcome = smcx(["ss", "-a", "--json"]);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        let objects = outcome.stdout.lines();
        let objects = objects.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let own = objects.filter(|at| at["local"] == listener.address && at["program"] == "smcx");
        let own: Vec<_> = own.collect();
        let received = own.iter().any(|at| at["received_bytes"] == received);
        (own.iter().any(|at| at["state"] == "LISTEN"), received)
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while listed(5000) != (true, true) {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    listener.stop();
    // What is sent now arrives in its memory, and is counted when it reads.
    stream.write_all(&[1; 7]).unwrap();
    assert_eq!(listed(5000), (true, true));
    assert_eq!(listed(5007), (true, false));
}

#[test]
fn what_excludes_each_other_is_wrong_usage() {
    for arguments in [["-l", "-a"], ["-D", "-R"], ["-l", "-d"]] {
        assert_eq!(
            smcx(["ss"].into_iter().chain(arguments)).status,
            2,
            "{arguments:?}"
        );
    }
}

/// Bytes of a connection's row in a view, and most rows of one: they end its memory.
const ROW: usize = 576;
const ROWS: usize = 16_384;

/// The view of a process, with its row of a listener as often as there is room.
fn full_view(process: u32) -> Vec<u8> {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let paths = descriptors.map(|entry| entry.unwrap().path());
    let is_view = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|at| at.starts_with("/memfd:smc-view (deleted)"))
    };
    let mut view = std::fs::read(paths.into_iter().find(is_view).unwrap()).unwrap();
    let first = view.len() - ROWS * ROW;
    let row = view[first..first + ROW].to_vec();
    for at in view[first..].chunks_mut(ROW) {
        at.copy_from_slice(&row);
    }
    view[12..16].copy_from_slice(&(ROWS as u32).to_ne_bytes());
    view
}

/// A program under `smcx run` accepts by itself, and leaves such connections to the kernel.
#[test]
fn accepted_connections_of_the_kernel_are_listed_with_their_reasons_while_they_are_open() {
    let stack = Stack::open().unwrap();
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    stack.announce_listener(&tcp).unwrap();
    let address = tcp.local_addr().unwrap();
    let client = TcpStream::connect(address).unwrap();
    let (accepted, peer) = tcp.accept().unwrap();
    let accepted = stack.accepted(accepted).unwrap_err();
    let listed = of_port(address.port(), &[]);
    assert_eq!(listed.len(), 1, "{listed:?}");
    let [row] = &listed[..] else { unreachable!() };
    let has = [&row["state"], &row["mode"], &row["reason"], &row["peer"]];
    assert_eq!(has, ["ACTIVE", "TCP", "0x03010000", &peer.to_string()]);
    assert!(row["why"].is_string() && row["remedy"].is_string(), "{row}");
    // The program does with it what it likes.
    let copy = accepted.try_clone().unwrap();
    drop(accepted);
    assert_eq!(of_port(address.port(), &[]), listed);
    drop((copy, client));
    assert_eq!(of_port(address.port(), &[]), Vec::<Value>::new());
}

/// A process that publishes whatever it likes.
fn publishes(view: &[u8], owner: Option<u32>) -> Ended {
    use rustix::fs::{MemfdFlags, SealFlags};
    let memory = rustix::fs::memfd_create("smc-view", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::io::write(&memory, view).unwrap();
    rustix::fs::fcntl_add_seals(&memory, SealFlags::GROW | SealFlags::SHRINK).unwrap();
    let owner = owner.map(rustix::fs::Uid::from_raw);
    rustix::fs::fchown(&memory, owner, None).unwrap();
    let child = Command::new("sleep").arg("60").spawn().unwrap();
    // It has the memory already.
    rustix::io::pwrite(&memory, &child.id().to_ne_bytes(), 8).unwrap();
    Ended(child)
}

/// After an update, programs that run on publish as the version before does.
#[test]
fn programs_of_another_version_are_named() {
    let other = publishes(b"smcview\x01 of another size", None);
    let expected = format!(
        "{}/sleep is not listed: it publishes as another version",
        other.0.id()
    );
    for list in [&["ss"][..], &["ss", "-D"], &["links"]] {
        let shown = smcx(list);
        assert_eq!(shown.status, 0, "{}", shown.stderr);
        let lines = shown
            .stdout
            .lines()
            .filter(|line| line.starts_with(&expected));
        assert_eq!(lines.count(), 1, "{}", shown.stdout);
    }
    assert!(!smcx(["ss", "--json"]).stdout.contains("is not listed"));
    // The last column has a name of its own.
    let columns = smcx(["ss", "-R"]).stdout;
    assert!(
        columns
            .lines()
            .next()
            .unwrap()
            .ends_with("Peer-GID Process"),
        "{columns}"
    );
    drop(other);
}

/// Hostile users have many processes, each with as many rows as a view can have: root reads
/// them all, with the memory that one takes.
#[test]
fn many_full_views_take_no_more_memory_than_one() {
    let mut listener = Command::new(env!("CARGO_BIN_EXE_smcx"));
    listener
        .args(["listen", "127.0.0.1:0", "--verbose"])
        .stdin(Stdio::null());
    let mut listener = Ended(listener.stderr(Stdio::piped()).spawn().unwrap());
    // It says where it listens.
    let stderr = listener.0.stderr.take().unwrap();
    BufReader::new(stderr)
        .read_line(&mut String::new())
        .unwrap();
    let view = full_view(listener.0.id());
    let _processes: Vec<_> = (0..12).map(|_| publishes(&view, None)).collect();
    // The memory of another user does not count: programs that gain rights keep what they are given.
    let is_root = rustix::process::geteuid().is_root();
    let _set_user_id = is_root.then(|| publishes(&view, Some(54_321)));
    let command = "ulimit -v 131072; exec \"$0\" ss --listening";
    let mut limited = Command::new("sh");
    limited.args(["-c", command, env!("CARGO_BIN_EXE_smcx")]);
    let mut limited = Ended(limited.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(limited.0.stdout.take().unwrap()).lines();
    let shown = lines.filter(|line| line.as_ref().unwrap().ends_with("/sleep"));
    assert_eq!(shown.count(), 12 * ROWS);
    assert!(limited.0.wait().unwrap().success());
}

/// A filter of system calls that refuses sockets of netlink alone.
fn without_netlink(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt;
    let statement = |code: u32, jumps: (u8, u8), value: u32| libc::sock_filter {
        code: code as u16,
        jt: jumps.0,
        jf: jumps.1,
        k: value,
    };
    let (load, is, end) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let argument = 16 + if cfg!(target_endian = "big") { 4 } else { 0 };
    let filter = [
        statement(load, (0, 0), 0),
        statement(is, (0, 3), libc::SYS_socket as u32),
        statement(load, (0, 0), argument),
        statement(is, (0, 1), libc::AF_NETLINK as u32),
        statement(end, (0, 0), libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(end, (0, 0), libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: both calls take numbers, and a program that outlives the second one.
        let installed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const program,
                ) == 0
        };
        match installed {
            true => Ok(()),
            false => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the child makes two system calls there, and allocates nothing.
    unsafe { command.pre_exec(install) }
}

/// What the kernel refuses is not passed for nothing: programs are listed, and the status says that
/// something is missing.
#[test]
fn a_list_that_the_kernel_refuses_is_no_empty_one() {
    let listener = Listener::start(&User::Own, &["--exec", "cat", "--keep-open"]);
    let port = listener.address.rsplit(':').next().unwrap();
    for (arguments, what, has_listener) in [
        (&["ss", "-a"][..], "sockets", true),
        (&["ss", "-a", "--json"], "sockets", true),
        (&["links"], "link groups", false),
        (&["links", "--json"], "link groups", false),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_smcx"));
        let output = without_netlink(command.args(arguments)).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (shown, complaint) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {shown}");
        let begin = format!("smcx: {what} of the kernel's SMC are not all listed: ");
        assert!(complaint.starts_with(&begin), "{complaint}");
        assert!(complaint.contains("seccomp"), "{complaint}");
        assert_eq!(shown.contains(&format!(":{port}")), has_listener, "{shown}");
    }
    // A list that goes on does so with what there is.
    let mut watch = Command::new(env!("CARGO_BIN_EXE_smcx"));
    watch.args(["ss", "--watch"]).stdout(Stdio::piped());
    let mut watch = Ended(
        without_netlink(watch.stderr(Stdio::null()))
            .spawn()
            .unwrap(),
    );
    let lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    let headers = lines.filter(|line| line.as_ref().unwrap().starts_with("State "));
    assert_eq!(headers.take(2).count(), 2);
}
