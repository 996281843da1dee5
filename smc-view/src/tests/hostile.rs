//! What hostile processes publish, or put in the place of what they publish.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags};

use super::publisher;
use crate::layout::{CONNECTIONS, Layout, MAGIC, NAME};
use crate::*;

/// Descriptors of this process that are named as views are.
fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    let ours =
        |path: &PathBuf| fs::read_link(path).is_ok_and(|at| at.to_string_lossy().contains(NAME));
    paths.filter(ours).collect()
}

/// Many processes, each with reasons that it has made up, cost neither memory nor time.
#[test]
fn a_sum_has_a_bounded_number_of_reasons() {
    let mut sums = Statistics::default();
    for process in 0..40_u32 {
        let fallback = |at| Fallback {
            code: process * 64 + at,
            side: Side::Client,
            count: 1,
        };
        sums.add(&Statistics {
            tcp: [64, 0],
            fallbacks: (0..64).map(fallback).collect(),
            ..Statistics::default()
        });
    }
    assert_eq!((sums.fallbacks.len(), sums.tcp), (256, [2560, 0]));
}

/// Opening a device may do something, and opening others may wait. Root reads the descriptors of
/// hostile users.
#[test]
fn what_is_no_memory_file_is_not_even_opened() {
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
    let directory = std::env::temp_dir().join(format!("smc-view-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (pipe, file) = (directory.join("pipe"), directory.join("file"));
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
    let sized = fs::File::create(&file).unwrap();
    sized.set_len(size_of::<Layout>() as u64).unwrap();
    drop(sized);
    let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
    let watch = inotify::init(flags).unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    for path in [&pipe, &file] {
        inotify::add_watch(&watch, path, WatchFlags::OPEN).unwrap();
        // It is opened by way of a descriptor, too.
        let held = rustix::fs::OFlags::PATH;
        let held = rustix::fs::open(path, held, rustix::fs::Mode::empty()).unwrap();
        let link = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        for path in [path, &link] {
            let error = View::open(path).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        }
        let mut events = inotify::Reader::new(&watch, &mut buffer);
        assert!(events.next().is_err(), "{} was opened", path.display());
    }
    // The watch sees what is opened.
    fs::File::open(&file).unwrap();
    let mut events = inotify::Reader::new(&watch, &mut buffer);
    assert_eq!(events.next().unwrap().events(), ReadFlags::OPEN);
    fs::remove_dir_all(&directory).unwrap();
}

/// A name may be any bytes, those of a letter that was cut in two among them.
#[test]
fn a_process_with_any_name_is_found() {
    let (_file, publisher) = Publisher::start().unwrap();
    let before = fs::read("/proc/self/comm").unwrap();
    fs::write("/proc/self/comm", b"\xff\xfe\nUid:\t7").unwrap();
    let found = Found::at(std::process::id());
    fs::write("/proc/self/comm", before.trim_ascii_end()).unwrap();
    let found = found.unwrap();
    assert_eq!(found.program, "\u{fffd}\u{fffd}?Uid:?7");
    assert_eq!(found.user, rustix::process::geteuid().as_raw());
    assert_eq!(
        publisher.layout().head.process.load(Ordering::Relaxed),
        found.process
    );
}

/// A program that gains rights has what the user who executes it has prepared.
#[test]
fn a_view_that_another_user_made_does_not_count() {
    let (file, _) = Publisher::start().unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let own = rustix::process::geteuid();
    let memory = || Memory::<Layout>::open(&path, Access::Read).unwrap();
    assert_eq!(memory().owner(), own.as_raw());
    let other = rustix::fs::Uid::from_raw(54_321);
    // Only root gives files away.
    let given = rustix::fs::fchown(&file, Some(other), None);
    assert_eq!(given.is_ok(), own.is_root());
    let owner = if own.is_root() { other } else { own };
    assert_eq!(memory().owner(), owner.as_raw());
    for (owner, user) in [(0, 0), (0, 33), (33, 33)] {
        assert!(crate::processes::is_of(owner, user));
    }
    for (owner, user) in [(33, 0), (33, 34), (54_321, 0)] {
        assert!(!crate::processes::is_of(owner, user));
    }
}

/// Whatever is in the memory, reading ends and does not panic.
#[test]
fn memory_of_any_content_is_read() {
    for fill in [0xff_u8, 0x01, 0x80, 0x55] {
        let (file, memory) = Memory::<Layout>::create(NAME, false).unwrap();
        let garbage = vec![fill; size_of::<Layout>()];
        assert_eq!(rustix::io::pwrite(&file, &garbage, 0), Ok(garbage.len()));
        memory.head.magic.store(MAGIC, Ordering::Relaxed);
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let view = View::open(&path).unwrap();
        let read = view.read();
        assert!(read.connections.len() <= CONNECTIONS);
        for (connection, _) in &read.connections {
            let _ = view.sentence(connection.sentence);
        }
        let mut sums = Statistics::default();
        sums.add(&read.statistics);
        sums.add(&read.statistics);
    }
}

/// Bytes of memory that a file has.
fn pages_of(file: &std::os::fd::OwnedFd) -> u64 {
    rustix::fs::fstat(file).unwrap().st_blocks as u64 * 512
}

/// Reading what a process has never written takes memory, which the reader is charged for. A hostile
/// process says of empty memory that all of it is in use.
#[test]
fn a_reader_makes_no_page_of_memory() {
    let (file, memory) = Memory::<Layout>::create(NAME, false).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    assert!(View::open(&path).is_err());
    assert_eq!(pages_of(&file), 0);
    let head = &memory.head;
    head.magic.store(MAGIC, Ordering::Relaxed);
    for used in [&head.connections, &head.groups, &head.links, &head.stacks] {
        used.store(u32::MAX, Ordering::Relaxed);
    }
    // One row of many, which lies in two pages.
    let last = CONNECTIONS - 2;
    let slot = &memory.connections[last];
    slot.row
        .write(&Connection::new(super::at("10.0.0.1:1"), super::at("10.0.0.2:2")).encode());
    slot.counters.begin(0);
    let before = pages_of(&file);
    let view = View::open(&path).unwrap();
    let read = view.read();
    assert_eq!((read.connections.len(), view.stacks().len()), (1, 0));
    assert_eq!(view.sentence(7), None);
    assert_eq!(pages_of(&file), before);
    // Taken out again.
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, hole, 0, size_of::<Layout>() as u64).unwrap();
    assert_eq!(view.read().connections.len(), 0);
    // What is before the rows is small, and read without a check.
    let most = 2 * rustix::param::page_size() as u64;
    assert!(pages_of(&file) <= most, "{}", pages_of(&file));
}

/// Every second page of a view may be missing.
#[test]
fn a_view_in_pieces_is_read_in_bounded_time() {
    let (file, memory) = Memory::<Layout>::create(NAME, false).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    memory.head.magic.store(MAGIC, Ordering::Relaxed);
    memory.head.connections.store(u32::MAX, Ordering::Relaxed);
    let page = rustix::param::page_size() as u64;
    let size = size_of::<Layout>() as u64;
    for at in (0..size).step_by(2 * page as usize) {
        rustix::io::pwrite(&file, &[1], (at + page - 1).min(size - 1)).unwrap();
    }
    let before = pages_of(&file);
    let began = std::time::Instant::now();
    let read = View::open(&path).unwrap().read();
    assert!(read.connections.len() < CONNECTIONS);
    assert_eq!(pages_of(&file), before);
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
}

/// A row of the kind that only its owner writes.
#[test]
fn others_cannot_write() {
    let (_, view) = publisher();
    drop(view);
    let refused = |path: &PathBuf| Memory::<Layout>::open(path, Access::Write).is_err();
    assert!(files().iter().filter(|path| refused(path)).count() > 0);
}

#[test]
fn what_is_no_view_is_refused() {
    let open = |file: &std::os::fd::OwnedFd| {
        View::open(&PathBuf::from(format!(
            "/proc/self/fd/{}",
            file.as_raw_fd()
        )))
    };
    let memfd = || rustix::fs::memfd_create("smc-view", MemfdFlags::ALLOW_SEALING).unwrap();
    let size = size_of::<Layout>() as u64;
    // Not sealed: reading it could end the reader.
    let unsealed = memfd();
    rustix::fs::ftruncate(&unsealed, size).unwrap();
    assert!(open(&unsealed).is_err());
    let short = memfd();
    rustix::fs::ftruncate(&short, size - 1).unwrap();
    rustix::fs::fcntl_add_seals(&short, SealFlags::GROW | SealFlags::SHRINK).unwrap();
    assert!(open(&short).is_err());
    let other_version = memfd();
    rustix::fs::ftruncate(&other_version, size).unwrap();
    rustix::fs::fcntl_add_seals(&other_version, SealFlags::GROW | SealFlags::SHRINK).unwrap();
    assert!(open(&other_version).is_err());
    assert!(View::open("/dev/null".as_ref()).is_err());
}
