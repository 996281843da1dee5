//! `smcx top`: rates from one sample to the next, keys, the screen, and a terminal that is left as
//! it was.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use smc_view::{Connection, Counted, GroupRecord, LinkRecord, Role, Snapshot, Technology, state};
use smcx::cli::SortKey;
use smcx::top::app::{App, Flow};
use smcx::top::draw::draw;
use smcx::top::model::{CONNECTIONS, HISTORY, Source};

use crate::common::smcx;

/// A connection that has sent so many bytes, in calls of 100, and received half of them.
fn connection(serial: u64, technology: Technology, sent: u64) -> (Connection, Counted) {
    let at = |port| SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), port));
    let mut connection = Connection::new(at(7000 + serial as u16), at(80));
    connection.state = state::ACTIVE;
    connection.technology = technology;
    connection.role = Role::Client;
    connection.serial = serial;
    connection.group = (technology != Technology::Tcp).then_some(1);
    let mut counted = Counted::default();
    counted.sent = sent;
    counted.received = sent / 2;
    counted.full = sent / 1000;
    (counted.sent_sizes[0], counted.received_sizes[0]) = (sent / 100, sent / 200);
    (connection, counted)
}

fn source(process: u32, program: &str, connections: Vec<(Connection, Counted)>) -> Source {
    let group = |technology| {
        let mut value = GroupRecord::default();
        value.number = 1;
        value.technology = technology;
        value
    };
    let technology = connections
        .first()
        .map_or(Technology::SmcD, |at| at.0.technology);
    let groups = match technology {
        Technology::Tcp => Vec::new(),
        technology => vec![group(technology)],
    };
    let links = match technology {
        Technology::SmcR => vec![{
            let mut value = LinkRecord::default();
            value.number = 1;
            value.group = 1;
            value.link = 1;
            value.active = true;
            value
        }],
        _ => Vec::new(),
    };
    Source {
        process,
        began: (1, 1),
        program: program.to_owned(),
        snapshot: {
            let mut value = Snapshot::default();
            value.connections = connections;
            value.groups = groups;
            value.links = links;
            value
        },
    }
}

/// Three programs that were read twice, two seconds apart.
fn app() -> App {
    let mut app = App::default();
    let sample = |factor: u64| {
        [
            source(
                10,
                "redis-server",
                vec![
                    connection(1, Technology::SmcD, 1_000_000 * factor),
                    connection(2, Technology::SmcD, 2_000 * factor),
                ],
            ),
            source(
                20,
                "nginx",
                vec![connection(1, Technology::SmcR, 50_000 * factor)],
            ),
            source(30, "curl\u{202e}", vec![connection(1, Technology::Tcp, 0)]),
        ]
    };
    app.model.observe(Duration::ZERO, sample(1));
    app.model.observe(Duration::from_secs(2), sample(2));
    app
}

/// The screen's lines.
fn screen(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.content.chunks(usize::from(width));
    let lines = lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
    lines.map(|line| line.trim_end().to_owned()).collect()
}

fn press(app: &mut App, codes: &[KeyCode]) {
    for code in codes {
        assert_eq!(app.key(KeyEvent::from(*code)), Flow::On, "{code:?}");
    }
}

fn programs(app: &App) -> Vec<u64> {
    let lines = app.lines();
    lines
        .iter()
        .map(|line| u64::from(line.key.0) * 10 + line.key.2)
        .collect()
}

#[test]
fn rates_are_those_between_two_samples() {
    let app = app();
    let lines = app.lines();
    let rates = lines[0].rates;
    assert_eq!((rates.sent, rates.received), (500_000.0, 250_000.0));
    assert_eq!((rates.trips, rates.stalls), (2500.0, 500.0));
    let groups: Vec<_> = app.model.groups.values().collect();
    assert_eq!((groups[0].connections, groups[0].rate), (2, 751_500.0));
    assert_eq!(groups[0].history, [0, 751_500]);
    assert_eq!(groups[1].links, [1, 1]);
    assert_eq!(app.model.carried(), [2, 1, 1]);
}

#[test]
fn what_is_new_or_restarts_has_no_rate_and_histories_are_bounded() {
    let mut app = app();
    let mut again = source(10, "redis-server", vec![connection(1, Technology::SmcD, 5)]);
    // Its counters are lower than before.
    app.model.observe(Duration::from_secs(3), &[again.clone()]);
    assert_eq!(app.lines()[0].rates.both(), 0.0);
    again.began = (2, 1);
    again.snapshot.connections[0].1.sent = 1 << 40;
    app.model.observe(Duration::from_secs(4), &[again.clone()]);
    assert_eq!(app.lines()[0].rates.both(), 0.0);
    assert_eq!(app.model.groups.values().next().unwrap().history, [0]);
    // Two samples at the same time divide by nothing.
    again.snapshot.connections[0].1.sent = u64::MAX;
    app.model.observe(Duration::from_secs(4), &[again.clone()]);
    assert!(app.lines()[0].rates.sent.is_finite());
    for at in 5..HISTORY as u64 + 100 {
        app.model.observe(Duration::from_secs(at), &[again.clone()]);
    }
    assert_eq!(
        app.model.groups.values().next().unwrap().history.len(),
        HISTORY
    );
    app.model.observe::<Source>(Duration::from_secs(9999), []);
    assert!(app.lines().is_empty() && app.model.groups.is_empty());
    // Hostile users have many processes with many connections.
    let many: Vec<_> = (0..16_384)
        .map(|at| connection(at, Technology::SmcD, 0))
        .collect();
    let many = source(1, "many", many);
    app.model
        .observe(Duration::from_secs(10_000), std::iter::repeat_n(&many, 6));
    assert_eq!((app.lines().len(), app.model.processes), (CONNECTIONS, 6));
}

#[test]
fn the_screen_shows_connections_and_a_sparkline_of_each_group() {
    let mut app = app();
    let lines = screen(&mut app, 120, 14);
    assert_eq!(
        lines[..2],
        [
            "smcx top: 3 programs; connections: 2 SMC-D, 1 SMC-R, 1 TCP",
            "526KB/s sent, 263KB/s received, 2.63K/s round trips, 526/s stalls; sorted by rate"
        ]
    );
    for (at, parts) in [
        (
            2,
            &["Mode*", "Local", "Sent/s", "Trips/s", "Stalls/s", "Process"][..],
        ),
        (
            3,
            &[
                "SMCD ",
                "10.0.0.1:7001",
                "10.0.0.1:80 ",
                "500K",
                "250K",
                "2.50K",
                "500 ",
                "10/redis-server",
            ],
        ),
        (4, &["SMCR ", "25K", "12K", "20/nginx"]),
        (5, &["SMCD ", "10.0.0.1:7002", "1.00K", "10/redis"]),
        (6, &["TCP  ", "30/curl"]),
        (
            11,
            &[
                "SMCD 00000001     2 conns",
                "752KB/s 10/redis-server",
                "\u{2588}",
            ],
        ),
        (
            12,
            &[
                "SMCR 00000001     1 conns 1/1 links",
                "38KB/s 20/nginx",
                "\u{2588}",
            ],
        ),
    ] {
        for part in parts {
            assert!(
                lines[at].contains(part),
                "{at}: {}\nlacks {part}",
                lines[at]
            );
        }
    }
    assert_eq!(lines[10], "Link groups, by rate");
    assert!(lines[13].starts_with("q end  s sort"), "{lines:?}");
    // A small screen has what counts: senders with their rates, and the keys.
    let small = screen(&mut app, 20, 5);
    assert_eq!(
        small[2..],
        [
            "Sent/s  Process",
            "500K    10/redis-ser",
            "q end  s sort  r rev"
        ]
    );
    press(&mut app, &[KeyCode::Char('/'), KeyCode::Char('x')]);
    assert!(screen(&mut app, 20, 5)[4].starts_with("filter: x_"));
    press(&mut app, &[KeyCode::Esc]);
    let middle = screen(&mut app, 60, 12);
    for part in ["SMCD ", "10.0.0.1:80", "500K", "250K", "10/redis-ser"] {
        assert!(middle[3].contains(part), "{}\nlacks {part}", middle[3]);
    }
    // Nothing to see is no negative number.
    let nothing = screen(&mut App::default(), 80, 12);
    assert_eq!(
        nothing[1],
        "0B/s sent, 0B/s received, 0/s round trips, 0/s stalls; sorted by rate"
    );
    // Any size is drawn.
    for (width, height) in [(1, 1), (10, 3), (80, 24), (500, 4), (3, 200)] {
        screen(&mut app, width, height);
    }
}

#[test]
fn keys_sort_filter_pause_and_scroll() {
    let mut app = app();
    assert_eq!(programs(&app), [101, 201, 102, 301]);
    press(&mut app, &[KeyCode::Char('r')]);
    assert_eq!(programs(&app), [301, 102, 201, 101]);
    press(&mut app, &[KeyCode::Char('r')]);
    (0..5).for_each(|_| press(&mut app, &[KeyCode::Char('s')]));
    assert_eq!(
        (app.sort, programs(&app)),
        (SortKey::Process, vec![101, 102, 201, 301])
    );
    press(&mut app, &[KeyCode::Char('s')]);
    assert_eq!(app.sort, SortKey::Rate);

    press(&mut app, &[KeyCode::Char('/')]);
    "NGINQq"
        .chars()
        .for_each(|of| press(&mut app, &[KeyCode::Char(of)]));
    press(&mut app, &[KeyCode::Backspace, KeyCode::Backspace]);
    let foot = screen(&mut app, 80, 12).pop().unwrap();
    assert!(foot.starts_with("filter: NGIN_"), "{foot}");
    press(&mut app, &[KeyCode::Enter]);
    assert_eq!(programs(&app), [201]);
    assert!(screen(&mut app, 120, 12)[1].ends_with("; filter \"NGIN\""));
    press(&mut app, &[KeyCode::Esc]);
    assert_eq!(programs(&app).len(), 4);
    press(&mut app, &[KeyCode::Char('/')]);
    (0..1000).for_each(|_| press(&mut app, &[KeyCode::Char('x')]));
    assert!(app.filter.len() <= 64);
    press(&mut app, &[KeyCode::Esc]);

    press(&mut app, &[KeyCode::Char('p')]);
    assert!(app.paused && screen(&mut app, 120, 12)[0].ends_with("; PAUSED"));

    // Of four connections, two have room.
    press(&mut app, &[KeyCode::End]);
    let lines = screen(&mut app, 100, 9);
    assert!(
        lines[3].contains("10.0.0.1:7002") && lines[4].starts_with("TCP"),
        "{lines:?}"
    );
    press(&mut app, &[KeyCode::Down, KeyCode::PageUp]);
    let lines = screen(&mut app, 100, 9);
    assert!(lines[3].contains("20/nginx"), "{lines:?}");

    assert_eq!(app.key(KeyEvent::from(KeyCode::Char('q'))), Flow::End);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut app, &[KeyCode::Char('/')]);
    assert_eq!(app.key(interrupt), Flow::End);
}

#[test]
fn without_colours_there_is_none() {
    let coloured = |colours| {
        let mut app = App { colours, ..app() };
        let mut terminal = Terminal::new(TestBackend::new(100, 14)).unwrap();
        terminal.draw(|frame| draw(frame, &mut app)).unwrap();
        let cells = &terminal.backend().buffer().content;
        cells.iter().filter(|cell| cell.fg != Color::Reset).count()
    };
    assert_ne!(coloured(true), 0);
    assert_eq!(coloured(false), 0);
}

#[test]
fn without_a_terminal_it_is_wrong_usage() {
    let outcome = Command::new(env!("CARGO_BIN_EXE_smcx"))
        .arg("top")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(outcome.status.code(), Some(2));
    let errors = String::from_utf8(outcome.stderr).unwrap();
    assert!(errors.starts_with("smcx: top needs a terminal"), "{errors}");
    assert_eq!(smcx(["top", "--interval", "0"]).status, 2);
}

/// Both ends of a terminal.
pub(crate) fn terminal() -> (OwnedFd, OwnedFd) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&near).unwrap();
    unlockpt(&near).unwrap();
    let name = ptsname(&near, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let far = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
    let mut size = rustix::termios::tcgetwinsize(&far).unwrap();
    (size.ws_row, size.ws_col) = (24, 100);
    rustix::termios::tcsetwinsize(&far, size).unwrap();
    (near, far)
}

/// What the command shows on a terminal until its end, to which `act` brings it once it has
/// drawn the screen; and its exit status.
fn shown(environment: &[(&str, &str)], act: impl FnOnce(&OwnedFd, u32)) -> (String, Option<i32>) {
    let (near, far) = terminal();
    let modes = |of: &OwnedFd| {
        let modes = rustix::termios::tcgetattr(of).unwrap();
        (modes.local_modes, modes.input_modes, modes.output_modes)
    };
    let before = modes(&far);
    let stdio = || Stdio::from(far.try_clone().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_smcx"));
    command
        .arg("top")
        .env_remove("NO_COLOR")
        .envs(environment.iter().copied());
    let mut child = command
        .stdin(stdio())
        .stdout(stdio())
        .stderr(stdio())
        .spawn()
        .unwrap();
    let (sender, receiver) = mpsc::channel();
    let mut output = File::from(near.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = output.read(&mut bytes) {
            let _ = sender.send(bytes[..length].to_vec());
        }
    });
    let mut text = String::new();
    let mut act = Some(act);
    let deadline = Instant::now() + Duration::from_secs(30);
    let status = loop {
        if let Ok(bytes) = receiver.recv_timeout(Duration::from_millis(50)) {
            text += &String::from_utf8_lossy(&bytes);
        }
        if text.contains("reverse")
            && modes(&far) != before
            && let Some(act) = act.take()
        {
            act(&near, child.id());
        }
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "{text}");
    };
    while let Ok(bytes) = receiver.recv_timeout(Duration::from_millis(200)) {
        text += &String::from_utf8_lossy(&bytes);
    }
    assert_eq!(modes(&far), before);
    (text, status.code())
}

#[test]
fn a_real_terminal_is_left_as_it_was() {
    let write = |to: &OwnedFd, keys: &[u8]| {
        let mut to = File::from(to.as_fd().try_clone_to_owned().unwrap());
        to.write_all(keys).unwrap();
    };
    let (text, status) = shown(&[("NO_COLOR", "1")], |near, _| write(near, b"p/zz\rq"));
    assert_eq!(status, Some(0), "{text}");
    for part in [
        "\u{1b}[?1049h",
        "programs;",
        "PAUSED",
        "\u{1b}[?1049l",
        "\u{1b}[?25h",
    ] {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
    // No colour of any kind, as NO_COLOR has it.
    for colour in ["[31m", "[33m", "[38;5;"] {
        assert!(!text.contains(colour), "{text:?}");
    }
    // A signal ends it as a key does.
    let (text, status) = shown(&[], |_, id| {
        let id = rustix::process::Pid::from_raw(id.cast_signed()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    });
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("\u{1b}[?1049l"), "{text:?}");
}
