//! Offers that no connection attaches.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use super::{LEN, begun_by_hostile, memory, offer};
use crate::device::{DmbToken, Gid128, IsmDevice, IsmError};
use crate::memory::DoorbellPage;
use crate::shared::Device;
use crate::shared::message::Message;
use crate::shared::offers::{OF_A_USER, OF_ALL, SPARE};
use crate::shared::pairing::{Paired, Peer};
use crate::shared::socket::Socket;

/// A peer of a user, which speaks by hand.
pub(super) struct Stranger {
    pub(super) peer: Peer,
    pub(super) far: Socket,
    _doorbells: DoorbellPage,
}

/// A user of this number; 0 is this process's own.
pub(super) fn stranger(number: u32) -> u32 {
    rustix::process::geteuid().as_raw() + number
}

impl Stranger {
    /// The first message of the stranger's channel is left unread.
    pub(super) fn join(device: &mut Device, gid: u64, uid: u32) -> Self {
        let gid = Gid128 { gid, ext: 0 };
        let (mut channel, doorbells, far) = begun_by_hostile(device, gid);
        channel.uid = uid;
        device.adopt(channel).unwrap();
        let peer = Peer { gid, uid };
        Self {
            peer,
            far,
            _doorbells: doorbells,
        }
    }

    /// Offers DMBs that are all this one file, and has the device read them.
    fn offer(&self, device: &mut Device, tokens: impl IntoIterator<Item = u64>, file: &OwnedFd) {
        for token in tokens {
            while self.far.send(offer(token), Some(file.as_fd())).is_err() {
                self.read(device);
            }
        }
        self.read(device);
    }

    /// Has the device read all that was sent, as a connection does that waits for its DMB.
    fn read(&self, device: &mut Device) {
        let unknown = device.attach_dmb(self.peer.gid, DmbToken(0), LEN);
        assert_eq!(unknown, Err(IsmError::Token));
    }

    /// A TCP connection was paired.
    fn pairs(&self, device: &mut Device) {
        let paired = Paired {
            peer: self.peer,
            channel: None,
            left: None,
        };
        device.admit(paired).unwrap();
    }

    fn unclaimed(&self, device: &Device) -> usize {
        device.unclaimed(|at| at.peer == self.peer.gid)
    }

    fn is_claimed(&self, device: &mut Device, token: u64) -> bool {
        let attached = device.attach_dmb(self.peer.gid, DmbToken(token), LEN);
        attached.is_ok()
    }
}

/// Mappings of the file that is offered.
fn mappings(name: &str) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.matches(name).count()
}

/// A memory file as [`memory`] makes it, by another name.
fn named(name: &str) -> OwnedFd {
    use rustix::fs::{MemfdFlags, SealFlags};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create(name, flags).unwrap();
    rustix::fs::ftruncate(&fd, LEN.into()).unwrap();
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .unwrap();
    fd
}

//= SHM-041 test
#[test]
fn a_stranger_has_a_few_offers_more_than_connections_pending() {
    let mut device = Device::open().unwrap();
    let stranger = Stranger::join(&mut device, 7, stranger(1));
    let file = named("smc-d-test-spare");
    stranger.offer(&mut device, 1..=1000, &file);
    assert_eq!(stranger.unclaimed(&device), SPARE);
    assert_eq!(mappings("smc-d-test-spare"), SPARE);
    // The newest are kept; those that were dropped are unknown, and nothing else.
    assert!(!stranger.is_claimed(&mut device, 900));
    assert!(stranger.is_claimed(&mut device, 1000));
    assert!(device.query_reach(stranger.peer.gid, None));
    // An honest one never meets the bound: each connection offers one.
    (0..100).for_each(|_| stranger.pairs(&mut device));
    stranger.offer(&mut device, 2001..=2100, &file);
    for token in 2001..=2100 {
        assert!(stranger.is_claimed(&mut device, token), "{token}");
    }
    // What was claimed is pending no more.
    stranger.offer(&mut device, 3001..=3100, &file);
    assert_eq!(stranger.unclaimed(&device), SPARE);
}

/// The peer's own user, and a channel that was not made by pairing, may offer ahead.
#[test]
fn a_friend_may_offer_ahead() {
    let mut device = Device::open().unwrap();
    let friend = Stranger::join(&mut device, 7, stranger(0));
    let file = memory(LEN);
    friend.offer(&mut device, 1..=500, &file);
    assert_eq!(friend.unclaimed(&device), 500);
    assert!(friend.is_claimed(&mut device, 1));
}

/// A client that meets a new GID with each connection it makes, and a server that claims to
/// be a new one for each client, have one bound for their user.
//= SHM-041 test
#[test]
fn ever_new_gids_of_one_user_share_a_bound() {
    let mut device = Device::open().unwrap();
    let file = named("smc-d-test-user");
    let honest = Stranger::join(&mut device, 7, stranger(2));
    honest.pairs(&mut device);
    honest.offer(&mut device, [1], &file);
    let mut greedy = Vec::new();
    for gid in 100..164 {
        let one = Stranger::join(&mut device, gid, stranger(1));
        (0..64).for_each(|_| one.pairs(&mut device));
        one.offer(&mut device, 1..=100, &file);
        greedy.push(one);
    }
    assert_eq!(mappings("smc-d-test-user"), OF_A_USER + 1);
    assert!(honest.is_claimed(&mut device, 1));
}

/// Users without end have one bound together, which costs those that have most.
//= SHM-041 test
#[test]
fn all_users_share_a_bound_and_those_with_little_keep_it() {
    let mut device = Device::open().unwrap();
    let file = named("smc-d-test-all");
    let honest = Stranger::join(&mut device, 7, stranger(99));
    honest.pairs(&mut device);
    honest.offer(&mut device, [1], &file);
    let own = [8, 9].map(|gid| Stranger::join(&mut device, gid, stranger(0)));
    own.iter()
        .for_each(|own| own.offer(&mut device, 1..=1000, &file));
    let mut greedy = Vec::new();
    for user in 1..=5 {
        for number in 0..3 {
            let gid = u64::from(100 * user + number);
            let one = Stranger::join(&mut device, gid, stranger(user));
            (0..1000).for_each(|_| one.pairs(&mut device));
            one.offer(&mut device, 1..=900, &file);
            greedy.push(one);
        }
    }
    assert_eq!(mappings("smc-d-test-all"), OF_ALL);
    for own in own {
        assert_eq!(own.unclaimed(&device), 1000, "strangers go first");
    }
    assert!(honest.is_claimed(&mut device, 1));
}

//= SHM-041 test
#[test]
fn an_offer_that_nothing_claims_in_time_is_unmapped() {
    let mut device = Device::open().unwrap();
    let stranger = Stranger::join(&mut device, 7, stranger(1));
    let file = named("smc-d-test-time");
    stranger.pairs(&mut device);
    stranger.offer(&mut device, 1..=5, &file);
    assert_eq!(mappings("smc-d-test-time"), 5);
    let limit = Duration::from_secs(30);
    let begin = Instant::now();
    while mappings("smc-d-test-time") > 0 {
        // Nothing but time passes: the device wakes by itself.
        let left = limit.checked_sub(begin.elapsed()).expect("it is dropped");
        assert_eq!(device.wait(Some(left)).unwrap(), None);
    }
    assert!(begin.elapsed() > Duration::from_secs(20), "CLC still waits");
    let late = device.attach_dmb(stranger.peer.gid, DmbToken(5), LEN);
    assert_eq!(late, Err(IsmError::Token));
}

/// What a connection gave up stays mapped only until the peer takes it back: without a
/// mapping its memory could not be given back.
//= SHM-041 test
//= SHM-053 test
#[test]
fn a_dmb_that_was_detached_is_unmapped_when_it_is_taken_back() {
    let mut device = Device::open().unwrap();
    let stranger = Stranger::join(&mut device, 7, stranger(1));
    let file = named("smc-d-test-detached");
    stranger.offer(&mut device, [1], &file);
    let remote = device
        .attach_dmb(stranger.peer.gid, DmbToken(1), LEN)
        .unwrap();
    assert_eq!(mappings("smc-d-test-detached"), 1);
    device.detach_dmb(remote).unwrap();
    assert_eq!(mappings("smc-d-test-detached"), 1);
    let again = device.attach_dmb(stranger.peer.gid, DmbToken(1), LEN);
    assert_eq!(again, Err(IsmError::Token));
    stranger
        .far
        .send(Message::Withdraw { token: DmbToken(1) }, None)
        .unwrap();
    stranger.read(&mut device);
    // A thread of its own gives the pages back first.
    //= SHM-056 test
    let end = Instant::now() + Duration::from_secs(10);
    while mappings("smc-d-test-detached") > 0 {
        assert!(Instant::now() < end, "it stays mapped");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(device.query_reach(stranger.peer.gid, None));
}
