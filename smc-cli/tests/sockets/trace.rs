//! `smcx trace`: events of other processes, as text and as sequences that fit their schema.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use smc_proto::time::Instant as EngineTime;
use smc_proto::trace::{Kind, Record};
use smc_sockets::SmcStream;
use smc_view::trace::{Note, NotedConnection, NotedEvent, Unread};
use smcx::trace::filter::Filter;
use smcx::trace::session::{Form, Session};

use super::child::{Listener, User, smcx as smcx_as};
use super::run::{finish, installation};
use crate::common::smcx;

/// The longest that anything here may take.
const LIMIT: Duration = Duration::from_secs(60);

fn schema() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/qlog-smc.schema.json")
}

/// The validator of Debian's package python3-jsonschema. Reads a sequence, and prints what of it
/// does not fit: the number of the text, and why.
const VALIDATOR: &str = "
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
of = jsonschema.Draft202012Validator
of.check_schema(schema)
check = of(schema)
texts = sys.stdin.buffer.read().split(b'\\x1e')
assert texts[0] == b'', 'something before the first separator'
for number, text in enumerate(texts[1:]):
    assert text.endswith(b'\\n'), text
    text = json.loads(text.decode('utf-8'))
    if not check.is_valid(text):
        print(number, jsonschema.exceptions.best_match(check.iter_errors(text)).message)
print('validated', len(texts) - 1)
";

/// The numbers of the texts of a sequence that do not fit the schema; `None` if no validator is
/// installed.
fn unfit(sequence: &[u8]) -> Option<Vec<(usize, String)>> {
    // Debian's, whatever others there are.
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", VALIDATOR]).arg(schema());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    // It may have ended before it has read all.
    let _ = child.stdin.take().unwrap().write_all(sequence);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && errors.contains("No module named") {
        assert!(
            std::env::var_os("CI").is_none(),
            "install the Debian package python3-jsonschema before the tests: {errors}"
        );
        eprintln!("SKIPPED: python3-jsonschema is missing, no validator was asked");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    let shown = String::from_utf8(output.stdout).unwrap();
    let count = sequence.iter().filter(|byte| **byte == 0x1e).count();
    let mut lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.pop(), Some(format!("validated {count}").as_str()));
    let lines = lines.iter().map(|line| {
        let (number, why) = line.split_once(' ').unwrap();
        (number.parse().unwrap(), why.to_owned())
    });
    Some(lines.collect())
}

/// The texts of a sequence.
fn texts(sequence: &[u8]) -> Vec<Value> {
    let texts = sequence.split(|byte| *byte == 0x1e).skip(1);
    texts
        .map(|text| serde_json::from_slice(text).unwrap())
        .collect()
}

/// Octets of records that are events of a kind, with fields of all sorts.
fn records(kind: Kind, count: usize) -> Vec<[u8; 32]> {
    let mut seed = u64::from(kind as u8) + 1;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u32
    };
    let mut found = Vec::new();
    for _ in 0..1_000_000 {
        let mut octets: [u8; 32] = std::array::from_fn(|_| match next() % 8 {
            // Values of enums and flags are small.
            0..5 => (next() % 12) as u8,
            5 => (next() % 48) as u8,
            _ => next() as u8,
        });
        octets[16] = kind as u8;
        octets[17] = (next() % 6) as u8;
        if octets[17] == 1 {
            octets[9..12].fill(0);
        }
        if Record::from_octets(octets).decode().is_some() {
            found.push(octets);
            if found.len() == count {
                break;
            }
        }
    }
    assert_eq!(found.len(), count, "{}", kind.full_name());
    found
}

/// What a session writes of notes of a process.
fn written(form: Form, filter: Filter, notes: &[Note]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut session = Session::new(form, filter, (None, None), "a test", &mut out);
    session.begin().unwrap();
    let mut take = session.taker();
    notes.iter().for_each(|note| take.note(7, *note));
    take.finish(Unread::default()).unwrap();
    out
}

fn event(record: [u8; 32]) -> Note {
    Note::Event(NotedEvent {
        at: u64::MAX,
        stack: 3,
        record,
    })
}

/// Each kind of event, with many values of its fields, and what is not read, is as the schema says;
/// and the schema says something.
#[test]
fn every_kind_of_event_fits_the_schema() {
    let each = 6;
    let notes: Vec<_> = Kind::ALL
        .iter()
        .flat_map(|kind| records(*kind, each))
        .map(event)
        .collect();
    let mut sequence = written(Form::Json, Filter::default(), &notes);
    let all = texts(&sequence);
    assert_eq!(all.len(), 1 + each * Kind::ALL.len());
    let names: BTreeSet<_> = all.iter().filter_map(|at| at["name"].as_str()).collect();
    assert_eq!(names.len(), Kind::ALL.len());
    // What was lost.
    let mut lost = Vec::new();
    let limits = (None, None);
    let mut session = Session::new(Form::Json, Filter::default(), limits, "", &mut lost);
    let mut unread = Unread::default();
    unread.lost = u64::MAX;
    unread.unknown = 1;
    session.taker().finish(unread).unwrap();
    sequence.extend(&lost);
    let Some(wrong) = unfit(&sequence) else {
        return;
    };
    assert_eq!(wrong, []);
    // Each of these is wrong.
    let good = &all[1..];
    let of = |name: &str| good.iter().find(|at| at["name"] == name).unwrap().clone();
    let sent = of("smc:cdc_sent");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut event = sent.clone();
        change(&mut event);
        event
    };
    let broken = [
        with(&|at| at["name"] = json!("smc:cdc_nonsense")),
        with(&|at| at["time"] = json!("1")),
        with(&|at| at["data"]["sequence"] = json!(65_536)),
        with(&|at| at["data"]["sequence"] = json!("1")),
        with(&|at| at["data"]["more"] = json!(1)),
        with(&|at| at["data"]["producer_flags"] = json!("0x100")),
        with(&|at| drop(at["data"].as_object_mut().unwrap().remove("consumer"))),
        with(&|at| drop(at.as_object_mut().unwrap().remove("subject"))),
        with(&|at| at["subject"] = json!("conn")),
        with(&|at| at["tuple"] = json!("nowhere")),
        with(&|at| at["name"] = json!("smc:conn_moved")),
        json!({ "time": 1, "name": "smc:trace_lost", "data": { "lost": -1, "unknown": 0 } }),
        json!({ "file_schema": "urn:ietf:params:qlog:file:contained" }),
        json!([]),
    ];
    let mut sequence = Vec::new();
    for text in &broken {
        sequence.push(0x1e);
        sequence.extend(format!("{text}\n").bytes());
    }
    let wrong = unfit(&sequence).unwrap();
    let numbers: Vec<_> = wrong.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..broken.len()).collect::<Vec<_>>(), "{wrong:?}");
}

/// The schema is complete: it has the kinds and fields that there are, and no others.
#[test]
fn the_schema_has_the_kinds_and_fields_of_the_engine() {
    let schema: Value = serde_json::from_slice(&std::fs::read(schema()).unwrap()).unwrap();
    let rules = schema["$defs"]["event"]["allOf"].as_array().unwrap();
    let described: Vec<(String, Vec<String>, String)> = rules
        .iter()
        .map(|rule| {
            let name = rule["if"]["properties"]["name"]["const"].as_str().unwrap();
            let data = &rule["then"]["properties"]["data"];
            assert_eq!(data["additionalProperties"], false, "{name}");
            let fields = data["properties"].as_object().unwrap();
            let fields = fields.keys().cloned().collect();
            let meaning = data["description"].as_str().unwrap();
            (name.to_owned(), fields, meaning.to_owned())
        })
        .filter(|(name, ..)| name != "smc:trace_lost")
        .collect();
    let of_engine = Kind::ALL.iter().map(|kind| {
        let fields: BTreeSet<_> = kind.fields().iter().map(|at| at.name.to_owned()).collect();
        (
            format!("smc:{}_{}", kind.group(), kind.name()),
            fields.into_iter().collect::<Vec<_>>(),
            kind.meaning().to_owned(),
        )
    });
    assert_eq!(described, of_engine.collect::<Vec<_>>());
}

/// A process that lies writes whatever it likes: it is counted, and shown as numbers and names.
#[test]
fn records_of_any_octets_are_shown_or_counted() {
    let mut notes = Vec::new();
    for fill in 0..=255 {
        notes.push(event([fill; 32]));
        let mut octets = [fill; 32];
        octets[16] = fill.wrapping_mul(7);
        octets[17] = fill % 7;
        notes.push(event(octets));
    }
    let wild = "[ffff::1]:65535".parse().unwrap();
    let named = |conn| {
        Note::Connection(NotedConnection {
            at: 0,
            stack: u16::MAX,
            conn,
            local: wild,
            peer: wild,
        })
    };
    notes.extend((0..200_000).map(named));
    for form in [Form::Text { verbose: true }, Form::Json] {
        let out = written(form, Filter::default(), &notes);
        let text = String::from_utf8(out).unwrap();
        let controls = |at: &char| at.is_control() && !matches!(at, '\n' | '\u{1e}');
        assert_eq!(text.chars().find(controls), None);
        let shown = match form {
            Form::Json => text.matches("\"name\":\"smc:").count() - 1,
            _ => text.lines().filter(|line| !line.starts_with("...")).count(),
        };
        assert!((1..512).contains(&shown), "{shown}");
        let unknown = (512 - shown).to_string();
        assert!(text.contains(&unknown), "{shown}");
    }
}

/// `smcx trace` as a process.
fn tracer(arguments: &[&str]) -> Command {
    let mut command = Command::new(installation().path("smcx"));
    command.arg("trace").args(arguments).env("SMC_POLICY", "");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    command
}

/// Ends a trace as a user does.
fn interrupt(child: &Child) {
    let id = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
}

/// Traces a process while something is done, and returns what was written.
fn while_traced(process: u32, arguments: &[&str], act: impl FnOnce()) -> Vec<u8> {
    let process = process.to_string();
    let all = [&[process.as_str(), "--json"], arguments].concat();
    let mut child = tracer(&all).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut sequence = Vec::new();
    // The head is written when the process has been asked.
    out.read_until(b'\n', &mut sequence).unwrap();
    act();
    // What was done is read within the longest pause.
    std::thread::sleep(Duration::from_millis(200));
    interrupt(&child);
    out.read_to_end(&mut sequence).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status:?}");
    sequence
}

/// Echoes once over a new connection, and closes it.
fn round_trip(address: &str) {
    let mut stream = SmcStream::connect(address).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    stream.write_all(b"there and back").unwrap();
    let mut back = [0; 14];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"there and back");
    drop(stream);
}

fn names(events: &[Value]) -> BTreeSet<&str> {
    events.iter().filter_map(|at| at["name"].as_str()).collect()
}

#[test]
fn events_of_a_running_process_fit_the_schema() {
    let listener = Listener::start(&User::Own, &["--exec", "cat", "--keep-open"]);
    round_trip(&listener.address);
    let sequence = while_traced(listener.process(), &[], || round_trip(&listener.address));
    let all = texts(&sequence);
    assert_eq!(
        all[0]["trace"]["event_schemas"],
        json!([smcx::trace::qlog::SCHEMA])
    );
    let events = &all[1..];
    let wanted = [
        "smc:rendezvous_started",
        "smc:clc_received",
        "smc:clc_sent",
        "smc:rendezvous_established",
        "smc:group_joined",
        "smc:cdc_sent",
        "smc:cdc_received",
        "smc:data_produced",
        "smc:data_received",
        "smc:data_consumed",
        "smc:conn_moved",
        "smc:conn_closed",
    ];
    let seen = names(events);
    for name in wanted {
        assert!(seen.contains(name), "{name} is not among {seen:?}");
    }
    // In order of time, each of this process, and those of the connection with its ends.
    let times: Vec<_> = events
        .iter()
        .map(|at| at["time"].as_f64().unwrap())
        .collect();
    assert!(times.is_sorted());
    let established = events.iter().find(|at| at["name"] == wanted[3]).unwrap();
    let tuple = established["tuple"].as_str().unwrap();
    assert!(tuple.starts_with(&format!("{}-127.0.0.1:", listener.address)));
    let process = json!(listener.process());
    let lost = |at: &&Value| at["name"] == "smc:trace_lost";
    assert_eq!(events.iter().find(lost), None);
    assert!(
        events
            .iter()
            .all(|at| at["system_info"]["process_id"] == process)
    );
    // As many octets as were sent.
    let produced = events.iter().filter(|at| at["name"] == "smc:data_produced");
    let produced = produced.map(|at| at["data"]["bytes"].as_u64().unwrap());
    assert_eq!(produced.sum::<u64>(), 14);
    if let Some(wrong) = unfit(&sequence) {
        assert_eq!(wrong, []);
    }
}

#[test]
fn events_are_chosen_by_connection_and_by_kind() {
    let listener = Listener::start(&User::Own, &["--exec", "cat", "--keep-open"]);
    round_trip(&listener.address);
    let (_, port) = listener.address.rsplit_once(':').unwrap();
    let port = format!(":{port}");
    let chosen = ["-c", port.as_str(), "-k", "cdc,conn:closed"];
    let sequence = while_traced(listener.process(), &chosen, || {
        round_trip(&listener.address)
    });
    let all = texts(&sequence);
    let seen = names(&all[1..]);
    assert!(
        seen.contains("smc:cdc_sent") && seen.contains("smc:conn_closed"),
        "{seen:?}"
    );
    let fits = |name: &&str| name.starts_with("smc:cdc_") || **name == *"smc:conn_closed";
    assert!(seen.iter().all(fits), "{seen:?}");
    // Of no connection with another port.
    let others = while_traced(listener.process(), &["-c", ":1"], || {
        round_trip(&listener.address);
    });
    assert_eq!(texts(&others).len(), 1);
    // A number of events is not exceeded.
    let process = listener.process().to_string();
    let child = tracer(&[&process, "--count", "3"]).spawn().unwrap();
    let deadline = Instant::now() + LIMIT;
    let mut child = child;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline);
        round_trip(&listener.address);
    }
    let output = finish(child);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), text.lines().count()),
        (Some(0), 3),
        "{text}"
    );
    // Nor a time.
    let began = Instant::now();
    let output = finish(tracer(&[&process, "--for", "1"]).spawn().unwrap());
    assert!(output.status.success() && began.elapsed() >= Duration::from_secs(1));
}

/// Readers do not disturb each other, and one that has ended is not written for.
#[test]
fn several_traces_of_a_process_have_the_same_events() {
    let listener = Listener::start(&User::Own, &["--exec", "cat", "--keep-open"]);
    round_trip(&listener.address);
    let mut second = Vec::new();
    let kinds = ["-k", "data:produced,conn:closed"];
    let first = while_traced(listener.process(), &kinds, || {
        second = while_traced(listener.process(), &kinds, || round_trip(&listener.address));
    });
    let data = |sequence: &[u8]| {
        let mut events = texts(sequence).split_off(1);
        // The connection before may end only now.
        events.retain(|at| at["name"] == "smc:data_produced");
        let data = events
            .into_iter()
            .map(|at| (at["name"].clone(), at["data"].clone()));
        data.collect::<Vec<_>>()
    };
    assert!(!second.is_empty() && !data(&first).is_empty());
    assert_eq!(data(&first), data(&second));
}

#[test]
fn a_trace_ends_with_its_process() {
    let listener = Listener::start(&User::Own, &["--exec", "cat", "--keep-open"]);
    round_trip(&listener.address);
    let process = listener.process().to_string();
    let mut child = tracer(&[&process, "--json"]).spawn().unwrap();
    let mut head = Vec::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_until(b'\n', &mut head).unwrap();
    drop(listener);
    let output = finish(child);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors, format!("smcx: process {process} has ended\n"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_program_is_traced_from_its_first_event() {
    let listener = Listener::start(&User::Own, &["--exec", "cat", "--keep-open"]);
    let place = installation();
    let file = place.path("program.sqlog");
    let program = place.path("smcx");
    let mut command = tracer(&["--json", "-o"]);
    command.arg(&file).arg("--").arg(&program);
    command.args(["connect", &listener.address]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    let output = finish(child);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert_eq!(output.stdout, b"hello");
    let sequence = std::fs::read(&file).unwrap();
    let all = texts(&sequence);
    let events = &all[1..];
    assert_eq!(events[0]["name"], "smc:rendezvous_started", "{}", events[0]);
    let seen = names(events);
    for name in [
        "smc:clc_sent",
        "smc:clc_received",
        "smc:cdc_sent",
        // It may end before the peer has closed, too.
        "smc:conn_moved",
    ] {
        assert!(seen.contains(name), "{name} is not among {seen:?}");
    }
    assert!(!seen.contains("smc:trace_lost"));
    if let Some(wrong) = unfit(&sequence) {
        assert_eq!(wrong, []);
    }
}

/// The ring is root's, and the user that the program becomes cannot open what is root's.
#[test]
fn a_program_that_becomes_another_user_is_traced() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"));
        eprintln!("SKIPPED: to become another user takes root");
        return;
    }
    let user = User::with_uid(54_323);
    let User::Other(program, uid) = &user else {
        panic!("another user is none of one's own");
    };
    let listener = Listener::start(&user, &["--exec", "cat", "--keep-open"]);
    let changes = [format!("--reuid={uid}"), format!("--regid={uid}")];
    let mut command = tracer(&["--", "setpriv", "--clear-groups"]);
    command.args(changes).arg(program);
    command
        .args(["connect", &listener.address])
        .current_dir("/");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    let output = finish(child);
    let events = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{events}");
    assert_eq!(output.stdout, b"hello", "{events}");
    for kind in ["rendezvous:started", "cdc:sent", "conn:moved"] {
        assert!(events.contains(kind), "{kind} is missing: {events}");
    }
}

#[test]
fn the_status_is_that_of_the_program() {
    let run = |arguments: &[&str]| {
        let output = finish(tracer(arguments).spawn().unwrap());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (status, shown, errors) = run(&["--", "sh", "-c", "echo out; exit 7"]);
    assert_eq!(
        (status, shown.as_str(), errors.as_str()),
        (Some(7), "out\n", "")
    );
    let (status, _, errors) = run(&["--", "no-such-program"]);
    assert_eq!(status, Some(127), "{errors}");
    assert_eq!(run(&["--json", "--", "true"]).0, Some(0));
    assert_eq!(run(&[]).0, Some(2));
    assert_eq!(run(&["0"]).0, Some(2));
    assert_eq!(run(&["1", "-k", "nonsense"]).0, Some(2));
    assert_eq!(run(&["1", "-c", "nonsense"]).0, Some(2));
    assert_eq!(run(&["1", "--", "true"]).0, Some(2));
    let (status, shown, _) = run(&["--list-kinds"]);
    assert_eq!(status, Some(0));
    for kind in Kind::ALL {
        assert!(shown.contains(kind.full_name()) && shown.contains(kind.meaning()));
    }
}

/// The kernel decides which users may trace a process, and what is in the way is named.
#[test]
fn what_cannot_be_traced_is_named() {
    let outcome = smcx(["trace", "4294967295"]);
    let none = "smcx: there is no process 4294967295\n";
    assert_eq!((outcome.status, outcome.stderr.as_str()), (1, none));
    let mut plain = Command::new("sleep").arg("60").spawn().unwrap();
    let outcome = smcx(["trace", &plain.id().to_string()]);
    plain.kill().unwrap();
    plain.wait().unwrap();
    assert_eq!(outcome.status, 1);
    assert!(
        outcome.stderr.contains("has no events to be read"),
        "{}",
        outcome.stderr
    );
    if rustix::process::geteuid().is_root() {
        let listener = Listener::start(&User::Own, &["--exec", "cat", "--keep-open"]);
        round_trip(&listener.address);
        let process = listener.process().to_string();
        let other = User::with_uid(54_322);
        let (shown, errors, succeeded) = smcx_as(&other, &["trace", &process]);
        assert!(!succeeded && shown.is_empty());
        assert!(errors.contains("is another user's"), "{errors}");
    }
}

#[test]
fn a_line_has_time_process_object_addresses_and_event() {
    let record = |conn: u32| {
        let entry = smc_proto::trace::Entry {
            at: EngineTime::from_nanos(5),
            subject: Record::from_octets({
                let mut octets = [0; 32];
                octets[8] = conn as u8;
                octets[16] = Kind::ConnFreed as u8;
                octets[17] = 2;
                octets
            })
            .decode()
            .unwrap()
            .subject,
            event: smc_proto::trace::TraceEvent::TcpFin,
        };
        event(*entry.encode().octets())
    };
    let named = Note::Connection(NotedConnection {
        at: 0,
        stack: 3,
        conn: 4,
        local: "10.0.0.1:80".parse().unwrap(),
        peer: "[::1]:9".parse().unwrap(),
    });
    // The addresses of one that is named later in the same poll are known.
    let notes = [record(4), named, record(5)];
    let form = Form::Text { verbose: false };
    let text = String::from_utf8(written(form, Filter::default(), &notes)).unwrap();
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let fields = |line: &[&str]| line[1..].join(" ");
    assert_eq!(
        fields(&lines[0]),
        "7/3 conn4.0 10.0.0.1:80-[::1]:9 conn:tcp_fin"
    );
    assert_eq!(fields(&lines[1]), "7/3 conn5.0 - conn:tcp_fin");
    for which in [
        ":80",
        ":9",
        "10.0.0.1",
        "::1",
        "[::1]:9",
        "10.0.0.1:80",
        "conn4.0",
    ] {
        let filter = Filter {
            connections: vec![which.parse().unwrap()],
            kinds: vec![],
        };
        let shown = written(form, filter, &notes);
        assert_eq!(
            shown.iter().filter(|at| **at == b'\n').count(),
            1,
            "{which}"
        );
    }
}
