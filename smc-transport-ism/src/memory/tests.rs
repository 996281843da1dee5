//! Memory that two sides map, and files that are not mapped.

use std::os::fd::OwnedFd;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags};

use super::reaper::THREADS;
use super::{AtomicU64, DoorbellPage, Ordering, Reapers, SharedRegion, UNKNOWN, take_back};
use crate::device::{CDC_LEN, IsmError};

/// Gives pages back, for tests that see whether zeroes come again.
fn punch(fd: &OwnedFd, len: u32) -> rustix::io::Result<()> {
    use rustix::fs::FallocateFlags;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(fd, flags, 0, len.into())
}

#[test]
fn two_mappings_are_one_memory() {
    let (ours, fd) = SharedRegion::create(8192, false).unwrap();
    let theirs = SharedRegion::open(&fd, 8192).unwrap();
    ours.copy_in(4090, b"across a page").unwrap();
    let mut bytes = [0; 13];
    theirs.copy_out(4090, &mut bytes).unwrap();
    assert_eq!(&bytes, b"across a page");
    theirs
        .write_cdc(64, &[7; 32], &AtomicU64::new(UNKNOWN))
        .unwrap();
    assert_eq!(ours.read_cdc(64), Ok([7; 32]));
    assert_eq!(ours.copy_in(8190, &[0; 3]), Err(IsmError::Bounds));
    assert_eq!(ours.copy_out(u32::MAX, &mut [0; 2]), Err(IsmError::Bounds));
    assert!(ours.word(8192).is_err() && ours.word(2).is_err() && ours.word(8188).is_ok());
}

//= SHM-024 test
#[test]
fn flags_are_never_ahead_of_their_cursor() {
    let (ours, fd) = SharedRegion::create(4096, false).unwrap();
    let theirs = SharedRegion::open(&fd, 4096).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let last = AtomicU64::new(UNKNOWN);
            for round in 1..400_000_u64 {
                let mut cdc = [0; CDC_LEN];
                for unit in cdc.as_chunks_mut::<8>().0 {
                    *unit = round.to_ne_bytes();
                }
                theirs.write_cdc(0, &cdc, &last).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let cdc = ours.read_cdc(0).unwrap();
            let rounds = cdc.as_chunks().0.iter().map(|u| u64::from_ne_bytes(*u));
            assert!(rounds.is_sorted_by(|front, back| front >= back));
        }
    });
}

//= SHM-024 test
#[test]
fn no_newer_cursor_is_seen_under_flags_that_ended_before_it() {
    const U: u8 = 0x20;
    let (ours, fd) = SharedRegion::create(4096, false).unwrap();
    let theirs = SharedRegion::open(&fd, 4096).unwrap();
    let seen = std::sync::atomic::AtomicU64::new(0);
    let rounds = 100_000_u64;
    let mut wrong = None;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let last = AtomicU64::new(UNKNOWN);
            // Each tenth is urgent: the next one waits until it was seen.
            for round in 1..=rounds {
                let mut cdc = [0; CDC_LEN];
                cdc[8..16].copy_from_slice(&round.to_ne_bytes());
                cdc[22] = if round % 10 == 0 { U } else { 0 };
                theirs.write_cdc(0, &cdc, &last).unwrap();
                while cdc[22] == U && seen.load(Ordering::Acquire) < round {
                    std::thread::yield_now();
                }
            }
        });
        let mut last = 0;
        while last < rounds {
            let cdc = ours.read_cdc(0).unwrap();
            let known = last;
            last = u64::from_ne_bytes(cdc[8..16].try_into().unwrap());
            if last == known {
                // The writer may wait for this CPU.
                std::thread::yield_now();
            }
            // A mark may come behind its cursor, never with another one.
            if cdc[22] != 0 && last % 10 != 0 {
                wrong = Some(last);
                seen.store(u64::MAX, Ordering::Release);
                break;
            }
            if cdc[22] == U {
                seen.store(last, Ordering::Release);
            }
        }
    });
    assert_eq!(wrong, None);
}

//= SHM-024 test
#[test]
fn flags_are_taken_back_and_none_that_the_reader_has_zeroed_comes_back() {
    const URGENT_AND_CLOSED: u64 = u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 0x20, 0x80]);
    const CLOSED: u64 = u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 0, 0x80]);
    for (current, last, left) in [
        (URGENT_AND_CLOSED, URGENT_AND_CLOSED, CLOSED),
        (URGENT_AND_CLOSED, UNKNOWN, CLOSED),
        (0, URGENT_AND_CLOSED, 0),
        (CLOSED, CLOSED, CLOSED),
    ] {
        let flags = AtomicU64::new(current);
        take_back(&flags, last, CLOSED);
        assert_eq!(flags.into_inner(), left, "{current:x} {last:x}");
    }
}

/// A memory file of `len` bytes with these seals.
fn sealed(len: u64, flags: MemfdFlags, seals: SealFlags) -> OwnedFd {
    let flags = flags | MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    let fd = rustix::fs::memfd_create("x", flags).unwrap();
    rustix::fs::ftruncate(&fd, len).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

/// Bytes of a file that there is memory for.
fn taken(fd: &OwnedFd) -> i64 {
    rustix::fs::fstat(fd).unwrap().st_blocks * 512
}

//= SHM-022 test
#[test]
fn what_could_fail_when_accessed_is_not_mapped() {
    let refused = |fd: &OwnedFd| SharedRegion::open(fd, 4096).err();
    let fd = sealed(4096, MemfdFlags::empty(), SealFlags::empty());
    assert_eq!(refused(&fd), Some(IsmError::Length), "no seals");
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
    assert_eq!(refused(&fd), Some(IsmError::Length), "can grow");
    rustix::fs::fcntl_add_seals(&fd, SealFlags::GROW).unwrap();
    assert_eq!(
        refused(&fd),
        Some(IsmError::Length),
        "can be sealed further"
    );
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SEAL).unwrap();
    assert_eq!(refused(&fd), None);
    for len in [0, 4095, 4097, 8192] {
        assert!(SharedRegion::open(&fd, len).is_err(), "{len}");
    }
    let unsealable = rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&unsealable, 4096).unwrap();
    assert_eq!(refused(&unsealable), Some(IsmError::Length));
    let file = std::fs::File::open("/proc/self/exe").unwrap().into();
    assert_eq!(refused(&file), Some(IsmError::Length));
}

/// Huge pages may be missing when they are touched, sealed or not.
//= SHM-022 test
#[test]
fn a_file_of_huge_pages_is_not_mapped() {
    const HUGE: u32 = 2 << 20;
    let huge = sealed(HUGE.into(), MemfdFlags::HUGETLB, SharedRegion::SEALS);
    // Nothing else is wrong with it: the same of plain memory is mapped.
    let at = rustix::fs::fstat(&huge).unwrap();
    assert_eq!(at.st_size, i64::from(HUGE));
    let plain = sealed(HUGE.into(), MemfdFlags::empty(), SharedRegion::SEALS);
    assert!(SharedRegion::open(&plain, HUGE).is_ok());
    assert_eq!(
        SharedRegion::open(&huge, HUGE).err(),
        Some(IsmError::Length)
    );
}

//= SHM-051 test
#[test]
fn pages_are_given_back_while_the_peer_keeps_the_file() {
    for maker_gives_back in [true, false] {
        let (ours, fd) = SharedRegion::create(1 << 20, false).unwrap();
        let theirs = SharedRegion::open(&fd, 1 << 20).unwrap();
        ours.copy_in(0, &[1; 4096]).unwrap();
        theirs.copy_in(8192, &[2; 100_000]).unwrap();
        // A read of what was never written takes a page as well.
        theirs.copy_out(500_000, &mut [0]).unwrap();
        assert!(taken(&fd) > 100_000, "{}", taken(&fd));
        let by = if maker_gives_back { &ours } else { &theirs };
        by.discard();
        assert_eq!(taken(&fd), 0);
        ours.copy_in(0, &[3]).unwrap();
        assert_eq!(taken(&fd), 4096, "it can still be used");
    }
}

//= SHM-051 test
#[test]
fn pages_are_given_back_by_a_process_that_locks_its_memory() {
    let (ours, fd) = SharedRegion::create(65536, false).unwrap();
    ours.map.lock().unwrap();
    assert_eq!(taken(&fd), 65536);
    ours.discard();
    assert_eq!(taken(&fd), 0);
}

//= SHM-051 test
#[test]
fn a_file_whose_pages_could_not_be_given_back_is_not_mapped() {
    for write in [SealFlags::FUTURE_WRITE, SealFlags::WRITE] {
        let fd = sealed(4096, MemfdFlags::empty(), SharedRegion::SEALS | write);
        assert_eq!(SharedRegion::open(&fd, 4096).err(), Some(IsmError::Length));
    }
}

//= SHM-052 test
#[test]
fn doorbells_that_could_take_memory_are_not_mapped() {
    let (ours, fd) = DoorbellPage::create().unwrap();
    let len = u64::try_from(rustix::fs::fstat(&fd).unwrap().st_size).unwrap();
    assert_eq!(u64::try_from(taken(&fd)), Ok(len), "all there");
    assert!(DoorbellPage::open(&fd).is_ok());
    // No page of them can be taken out any more, by no side.
    assert_eq!(punch(&fd, 4096), Err(rustix::io::Errno::PERM));
    ours.region.discard();
    assert_eq!(u64::try_from(taken(&fd)), Ok(len));

    let future = SharedRegion::SEALS | SealFlags::FUTURE_WRITE;
    let hollow = sealed(len, MemfdFlags::empty(), future);
    assert!(DoorbellPage::open(&hollow).is_err(), "no page is there");
    let partly = sealed(len, MemfdFlags::empty(), SealFlags::empty());
    rustix::io::write(&partly, &vec![0; len as usize - 4096]).unwrap();
    rustix::fs::fcntl_add_seals(&partly, future).unwrap();
    assert!(DoorbellPage::open(&partly).is_err(), "a page is missing");
    let open = sealed(len, MemfdFlags::empty(), SharedRegion::SEALS);
    rustix::io::write(&open, &vec![0; len as usize]).unwrap();
    assert!(DoorbellPage::open(&open).is_err(), "pages can be taken out");
}

#[test]
fn a_peer_that_punches_holes_makes_zeroes() {
    let (ours, fd) = SharedRegion::create(8192, false).unwrap();
    ours.copy_in(0, &[9; 8192]).unwrap();
    punch(&fd, 8192).unwrap();
    // The compiler does not know that this changed the memory.
    std::hint::black_box(ours.address());
    let mut bytes = [1; 8192];
    ours.copy_out(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 8192]);
}

#[test]
fn a_peers_doorbells_cannot_be_written() {
    let (_ours, fd) = DoorbellPage::create().unwrap();
    assert!(DoorbellPage::open(&fd).is_ok());
    assert!(memmap2::MmapOptions::new().map_raw(&fd).is_err());
    assert_eq!(rustix::io::write(&fd, b"x"), Err(rustix::io::Errno::PERM));
}

/// A page that is never there: a thread that touches it waits until this is dropped.
pub(crate) struct Missing {
    uffd: OwnedFd,
    page: *mut libc::c_void,
}

impl Missing {
    /// `None` without the right to have such a page.
    pub(crate) fn page() -> Option<Self> {
        const API: u64 = 0xc018_aa3f;
        const REGISTER: u64 = 0xc020_aa00;
        // SAFETY: a number only; the descriptor is new.
        let fd =
            unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK) };
        if fd < 0 {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"));
            eprintln!("SKIPPED: userfaultfd needs root");
            return None;
        }
        // SAFETY: the descriptor is new.
        let uffd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let (access, map) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: the kernel chooses where.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, map, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        let mut api = [0xaa_u64, 0, 0];
        let mut register = [page.expose_provenance() as u64, 4096, 1, 0];
        // SAFETY: both requests read and write structures of these lengths.
        unsafe {
            assert_eq!(libc::ioctl(uffd.as_raw_fd(), API, api.as_mut_ptr()), 0);
            assert_eq!(
                libc::ioctl(uffd.as_raw_fd(), REGISTER, register.as_mut_ptr()),
                0
            );
        }
        Some(Self { uffd, page })
    }

    /// Waits until one more thread has touched the page.
    fn await_touch(&self) {
        use rustix::event::{PollFd, PollFlags};
        let mut polled = [PollFd::new(&self.uffd, PollFlags::IN)];
        let time = Duration::from_secs(20).try_into().unwrap();
        assert_eq!(rustix::event::poll(&mut polled, Some(&time)), Ok(1));
        // The kernel's report of that.
        assert_eq!(rustix::io::read(&self.uffd, &mut [0; 32]), Ok(32));
    }
}

/// Lets a thread write one byte to a file, for which the kernel locks the file until the
/// page is there.
pub(crate) fn lock_file(fd: &OwnedFd, missing: &Missing) -> std::thread::JoinHandle<isize> {
    let (file, source) = (fd.try_clone().unwrap(), missing.page.expose_provenance());
    let locking = std::thread::spawn(move || {
        let source = std::ptr::with_exposed_provenance(source);
        // SAFETY: one byte of a page that is mapped.
        unsafe { libc::write(file.as_raw_fd(), source, 1) }
    });
    missing.await_touch();
    locking
}

/// A file of this length that a user's peer has, with memory for all of it.
fn of_user(reapers: &Reapers, uid: u32, len: u32) -> (SharedRegion, OwnedFd) {
    let (mut region, fd) = SharedRegion::create(len, false).unwrap();
    region.copy_in(0, &vec![7; len as usize]).unwrap();
    region.discard_by(reapers.of(uid));
    (region, fd)
}

/// Waits until a condition holds, 20 s at most.
#[track_caller]
pub(crate) fn soon(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(1));
    }
}

//= SHM-056 test
#[test]
fn a_stranger_that_locks_its_file_holds_up_one_thread_and_no_other() {
    let Some(missing) = Missing::page() else {
        return;
    };
    let reapers = Reapers::default();
    let (region, fd) = of_user(&reapers, 1, 1 << 20);
    let reaper = reapers.of(1);
    let locking = lock_file(&fd, &missing);
    let begin = Instant::now();
    for _ in 0..16 {
        region.discard();
    }
    assert!(
        begin.elapsed() < Duration::from_secs(1),
        "no call has waited"
    );
    // Its user gets no further memory.
    soon(|| reaper.is_behind());
    let mut byte = [0];
    region.copy_out(1, &mut byte).unwrap();
    assert_eq!(byte, [7], "the file is locked");

    // Files of other users are given back, whatever waits for this one.
    let others = reapers.of(2);
    for _ in 0..40 {
        let (region, fd) = of_user(&reapers, 2, 1 << 20);
        region.discard();
        soon(|| taken(&fd) == 0);
        assert!(!others.is_behind());
    }
    assert!(reaper.is_behind());

    drop(missing.uffd);
    locking.join().unwrap();
    soon(|| {
        region.copy_out(1, &mut byte).unwrap();
        !reaper.is_behind() && byte == [0]
    });
    // No thread waits for more.
    soon(|| reapers.threads() == 0);
}

//= SHM-056 test
#[test]
fn users_beyond_the_number_of_threads_wait_for_one() {
    let Some(missing) = Missing::page() else {
        return;
    };
    let reapers = Reapers::default();
    let users = THREADS as u32 + 8;
    let held: Vec<_> = (0..users)
        .map(|uid| {
            let (region, fd) = of_user(&reapers, uid, 4096);
            let locking = lock_file(&fd, &missing);
            region.discard();
            (region, fd, locking)
        })
        .collect();
    assert_eq!(reapers.threads(), THREADS);
    // What one of the last keeps waiting counts, though no thread has begun with it.
    let last = reapers.of(users - 1);
    for _ in 0..64 {
        held[users as usize - 1].0.discard();
    }
    soon(|| last.is_behind());
    assert!(
        !reapers.of(0).is_behind(),
        "only one small file of it waits"
    );

    drop(missing.uffd);
    for (_region, fd, locking) in held {
        locking.join().unwrap();
        soon(|| taken(&fd) == 0);
    }
    soon(|| reapers.threads() == 0 && !last.is_behind());
}

/// Shared memory has three quarters of the mappings that a process may have, and with the files
/// of peers seven eighths.
//= SHM-074 test
#[test]
fn mappings_are_left_for_the_program() {
    use super::{mapping_limit, tests_limit};
    // What other tests have mapped counts, too.
    tests_limit::MOST.set(Some(1 << 20));
    assert_eq!(mapping_limit(), None);
    let (_ours, fd) = SharedRegion::create(4096, false).unwrap();
    let _theirs = SharedRegion::open(&fd, 4096).unwrap();
    // One mapping is there, so that of one none is left.
    tests_limit::MOST.set(Some(1));
    assert_eq!(mapping_limit(), Some(1));
    let refused = SharedRegion::create(4096, false).unwrap_err();
    let no_memory = rustix::io::Errno::NOMEM.raw_os_error();
    assert_eq!(refused.raw_os_error(), Some(no_memory));
    let refused = SharedRegion::open(&fd, 4096).unwrap_err();
    assert!(matches!(refused, IsmError::System { .. }), "{refused:?}");
    tests_limit::MOST.set(Some(1 << 20));
    assert!(SharedRegion::open(&fd, 4096).is_ok());
    tests_limit::MOST.set(None);
}
