//! Memory files that a peer keeps: no page that this side touched stays in them for good.

use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{HOSTILE, LEN, begun_by_hostile, memory, send_handshakes, with_hostile};
use crate::device::{
    DeviceEvent, DmbToken, Gid128, IsmDevice, IsmError, IsmReport, MAX_DMB_LEN, RemoteDmb,
};
use crate::memory::tests::{Missing, lock_file, soon};
use crate::memory::{DoorbellPage, SharedRegion};
use crate::shared::Device;
use crate::shared::handshakes::LENGTH;
use crate::shared::kept::{
    BUSY_FOR, FINISHED, FINISHED_OF_A_STRANGER, FINISHED_OF_A_USER, NEWLY_FINISHED_OF_A_USER,
    TIME_TO_READ, UNREAD_OF_A_STRANGER, WHOLE, WHOLE_FOR, WHOLE_OF_A_STRANGER,
};
use crate::shared::message::Message;
use crate::shared::socket::{Received, Socket};
use crate::slots::Key;

/// Bytes of a file that there is memory for.
fn taken(file: &OwnedFd) -> u64 {
    let blocks = rustix::fs::fstat(file).unwrap().st_blocks;
    u64::try_from(blocks).unwrap() * 512
}

fn page() -> u64 {
    rustix::param::page_size() as u64
}

/// Offers a DMB of this length; the file, which the peer keeps.
fn offered(far: &Socket, token: u64, len: u32) -> OwnedFd {
    let file = memory(len);
    let offer = Message::Offer {
        token: DmbToken(token),
        len,
        slot: 1,
        generation: 1,
    };
    far.send(offer, Some(file.as_fd())).unwrap();
    file
}

/// Attaches a DMB that the peer has offered.
fn attached(device: &mut Device, peer: Gid128, token: u64) -> RemoteDmb {
    loop {
        match device.attach_dmb(peer, DmbToken(token), LEN) {
            // A thread gives pages of strangers' files back, and may lag behind.
            Err(IsmError::Exhausted) => std::thread::yield_now(),
            attached => return attached.unwrap(),
        }
    }
}

/// A DMB of the peer's, attached and written to its end.
fn written(device: &mut Device, far: &Socket, token: u64) -> (OwnedFd, RemoteDmb) {
    let file = offered(far, token, LEN);
    let remote = attached(device, HOSTILE, token);
    device
        .move_data(remote, 0, 32, &[7; LEN as usize - 32])
        .unwrap();
    device.move_cdc(remote, 0, 0, &[9; 32], true).unwrap();
    assert_eq!(taken(&file), LEN.into());
    (file, remote)
}

/// A DMB of the greatest length that this peer offers, attached.
fn largest(
    device: &mut Device,
    peer: Gid128,
    far: &Socket,
    token: u64,
) -> Result<RemoteDmb, IsmError> {
    offered(far, token, MAX_DMB_LEN);
    device.attach_dmb(peer, DmbToken(token), MAX_DMB_LEN)
}

/// Lets the time pass for which finished DMBs keep their pages.
fn expire(device: &mut Device) {
    let keys: Vec<_> = device.channels.iter().map(|(key, _)| key).collect();
    for key in keys {
        device.expire_finished(key, Instant::now() + WHOLE_FOR);
    }
}

/// What the peer reads of its own file.
fn read(file: &OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; LEN as usize];
    let region = SharedRegion::open(file, LEN).unwrap();
    region.copy_out(0, &mut bytes).unwrap();
    bytes
}

//= SHM-051 test
#[test]
fn an_own_dmb_is_empty_when_it_is_gone_though_the_peer_keeps_it() {
    for drops_device in [false, true] {
        let (mut device, far, _doorbells) = with_hostile();
        let dmb = device.register_dmb(MAX_DMB_LEN, HOSTILE, None).unwrap();
        let Received::Message(Message::Offer { .. }, Some(file)) = far.receive() else {
            panic!("no offer")
        };
        // What is only read is taken as well.
        let mut all = vec![0; MAX_DMB_LEN as usize];
        device.read(dmb, 0, &mut all).unwrap();
        assert_eq!(taken(&file), MAX_DMB_LEN.into());
        if drops_device {
            drop(device);
        } else {
            device.unregister_dmb(dmb).unwrap();
        }
        assert_eq!(taken(&file), 0);
    }
}

/// A reader that is slow, and a writer whose process ends in the meantime.
//= SHM-051 test
//= SHM-053 test
#[test]
fn what_the_peer_may_still_read_outlives_this_device() {
    for is_stranger in [false, true] {
        for detaches in [false, true] {
            let (mut device, far, _doorbells) = with_hostile();
            if is_stranger {
                estrange(&mut device);
            }
            let (unread, remote) = written(&mut device, &far, 1);
            if detaches {
                device.detach_dmb(remote).unwrap();
            }
            let (finished, remote) = written(&mut device, &far, 2);
            device.discard_dmb(remote).unwrap();
            drop(device);
            let bytes = read(&unread);
            assert!(bytes[..32] == [9; 32] && bytes[32..].iter().all(|byte| *byte == 7));
            // The head has the last CDC message.
            assert_eq!(read(&finished)[..32], [9; 32]);
        }
    }
}

/// The peer's process ends, and another process has its file.
//= SHM-051 test
#[test]
fn what_a_peer_that_has_ended_did_not_read_is_given_back() {
    let (mut device, far, _doorbells) = with_hostile();
    let (file, remote) = written(&mut device, &far, 1);
    device.detach_dmb(remote).unwrap();
    drop(far);
    device.note_readable();
    while device.poll().is_some() {}
    await_empty(&file);
}

//= SHM-051 test
#[test]
fn what_the_peer_may_still_read_stays_until_it_takes_its_dmb_back() {
    let (mut device, far, _doorbells) = with_hostile();
    estrange(&mut device);
    let (file, remote) = written(&mut device, &far, 1);
    device.detach_dmb(remote).unwrap();
    let bytes = read(&file);
    assert!(bytes[..32] == [9; 32] && bytes[32..].iter().all(|byte| *byte == 7));
    let token = DmbToken(1);
    far.send(Message::Withdraw { token }, None).unwrap();
    device.note_readable();
    assert_eq!(device.poll(), None);
    await_empty(&file);
}

//= SHM-051 test
#[test]
fn behind_the_peers_last_message_only_this_sides_last_message_stays() {
    let (mut device, far, _doorbells) = with_hostile();
    let (file, remote) = written(&mut device, &far, 1);
    device.discard_dmb(remote).unwrap();
    assert_eq!(taken(&file), LEN.into(), "for the next connection");
    expire(&mut device);
    assert_eq!(taken(&file), page());
    assert_eq!(read(&file)[..32], [9; 32]);
    // A peer of this process's own user takes its pages out by itself, before or after.
    let token = DmbToken(1);
    far.send(Message::Withdraw { token }, None).unwrap();
    device.note_readable();
    assert_eq!(device.poll(), None);
    assert_eq!(taken(&file), LEN.into(), "as it was read above");
    SharedRegion::open(&file, LEN).unwrap().discard();
    assert_eq!(taken(&file), 0);
}

/// Waits until a thread of its own has given all pages of a file back.
fn await_empty(file: &OwnedFd) {
    let end = Instant::now() + Duration::from_secs(10);
    while taken(file) > 0 {
        assert!(Instant::now() < end, "{} bytes stay", taken(file));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Makes the device's peers processes of another user.
fn estrange(device: &mut Device) {
    let own = rustix::process::geteuid().as_raw();
    device.channels.for_each(|channel| channel.uid = own + 1);
}

/// A peer that keeps all its DMBs to itself costs a page of each for a time, then a page of
/// some and no mapping of others.
//= SHM-051 test
#[test]
fn heads_that_a_stranger_does_not_read_are_given_up_after_a_time() {
    let (mut device, far, _doorbells) = with_hostile();
    estrange(&mut device);
    let begin = Instant::now();
    let files: Vec<_> = (1..=200)
        .map(|token| {
            let (file, remote) = written(&mut device, &far, token);
            device.discard_dmb(remote).unwrap();
            file
        })
        .collect();
    // All may still be read: a peer that ends many connections at once reads many heads.
    let has_head = |file| {
        let mut head = [0; 32];
        let region = SharedRegion::open(file, LEN).unwrap();
        region.copy_out(0, &mut head).unwrap();
        head == [9; 32]
    };
    assert!(files.iter().all(has_head));
    // First the pages behind the heads are due, then the heads.
    let due = device.alarm.at().expect("the device has set its alarm");
    assert!(due >= begin + WHOLE_FOR && due <= Instant::now() + WHOLE_FOR);
    expire(&mut device);
    assert!(files.iter().all(has_head));
    let (channel, _) = device.channels.iter().next().unwrap();
    device.expire_finished(channel, Instant::now() + TIME_TO_READ);
    // A thread of its own gives pages back that a stranger's file has.
    let kept = || files.iter().map(taken).sum::<u64>();
    let end = Instant::now() + Duration::from_secs(10);
    while kept() > FINISHED_OF_A_STRANGER as u64 * page() {
        assert!(Instant::now() < end, "{} bytes stay", kept());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(kept(), FINISHED_OF_A_STRANGER as u64 * page());
    assert!(
        files[..200 - FINISHED_OF_A_STRANGER]
            .iter()
            .all(|file| taken(file) == 0)
    );
    // What was given up can be taken back, and offered again.
    let token = DmbToken(1);
    far.send(Message::Withdraw { token }, None).unwrap();
    written(&mut device, &far, 1);
}

/// However many channels a stranger has: what it does not read is bounded at any time, by more as long
/// as it may announce the DMBs again.
//= SHM-051 test
#[test]
fn a_user_has_few_heads_to_read_at_any_time() {
    let (mut device, far, _doorbells) = with_hostile();
    let other = Gid128 { gid: 7, ext: 7 };
    let (_other_doorbells, other_far) = super::join_hostile(&mut device, other);
    estrange(&mut device);
    let finished = |device: &Device| {
        let counts = device.channels.iter().map(|(_, at)| at.kept.finished());
        counts.collect::<Vec<_>>()
    };
    let mut finish = |peer: Gid128, far: &Socket, token: u64| {
        drop(offered(far, token, LEN));
        let remote = attached(&mut device, peer, token);
        device.discard_dmb(remote).unwrap();
        finished(&device)
    };
    for token in 1..=100 {
        finish(other, &other_far, token);
    }
    for token in 101..=NEWLY_FINISHED_OF_A_USER as u64 {
        finish(HOSTILE, &far, token);
    }
    // The channel that has most pays.
    for token in 1..=100 {
        let [of_first, of_second] = finish(HOSTILE, &far, 10_000 + token)[..] else {
            panic!("two channels")
        };
        assert!(of_first + of_second <= NEWLY_FINISHED_OF_A_USER);
        assert_eq!(of_second, 100);
    }
    // Later fewer are kept, also if the stranger does nothing any more; a few are given up at a time.
    std::thread::sleep(WHOLE_FOR);
    let end = Instant::now() + Duration::from_secs(10);
    while finished(&device) != [FINISHED_OF_A_USER - 100, 100] {
        assert!(Instant::now() < end, "{:?}", finished(&device));
        let before = finished(&device)[0];
        device.handle_alarm();
        assert!(
            before - finished(&device)[0] <= 32,
            "of each channel's turn"
        );
        assert!(device.alarm.at().is_some());
    }
}

//= SHM-051 test
#[test]
fn nothing_stays_in_dmbs_of_a_peer_that_has_gone_or_broke_the_rules() {
    for breach in [false, true] {
        let (mut device, far, _doorbells) = with_hostile();
        let (attached, _) = written(&mut device, &far, 1);
        let (left, remote) = written(&mut device, &far, 2);
        device.detach_dmb(remote).unwrap();
        let (finished, remote) = written(&mut device, &far, 3);
        device.discard_dmb(remote).unwrap();
        if breach {
            far.send(
                Message::Go {
                    fresh: true,
                    gid: super::HOSTILE,
                },
                None,
            )
            .unwrap();
        } else {
            drop(far);
        }
        device.note_readable();
        assert!(device.poll().is_some(), "it has vanished");
        for file in [attached, left, finished] {
            assert_eq!(taken(&file), 0, "{breach}");
        }
    }
}

//= SHM-053 test
#[test]
fn a_stranger_that_keeps_what_was_written_gets_no_more() {
    let full = UNREAD_OF_A_STRANGER / MAX_DMB_LEN as usize;
    for (stranger, refused) in [(1, Some(IsmError::Exhausted)), (0, None)] {
        let mut device = Device::open().unwrap();
        let ends = [1, 2].map(|gid| {
            let gid = Gid128 { gid, ext: 0 };
            let (mut channel, doorbells, far) = begun_by_hostile(&device, gid);
            channel.uid = rustix::process::geteuid().as_raw() + stranger;
            device.adopt(channel).unwrap();
            (gid, doorbells, far)
        });
        let [(first, _doorbells, one), (second, _other_doorbells, two)] = &ends;
        let all = (1..=full as u64).map(|token| largest(&mut device, *first, one, token).unwrap());
        let all: Vec<_> = all.collect();
        // Those that are in use do not count.
        let used = largest(&mut device, *second, two, 1).unwrap();
        for remote in all {
            device.detach_dmb(remote).unwrap();
        }
        assert_eq!(largest(&mut device, *second, two, 2).err(), refused);
        // A peer that takes one back gets another one.
        let token = DmbToken(1);
        one.send(Message::Withdraw { token }, None).unwrap();
        device.note_readable();
        assert_eq!(device.poll(), None);
        assert_eq!(largest(&mut device, *second, two, 3).err(), None);
        device.detach_dmb(used).unwrap();
    }
}

/// A peer that lets two connections write to one DMB may read what either wrote, and gets
/// nothing by it.
//= SHM-051 test
#[test]
fn a_dmb_of_two_connections_is_given_back_when_both_are_finished() {
    for [one_finished, other_finished] in [[true, true], [true, false], [false, true]] {
        let (mut device, far, _doorbells) = with_hostile();
        let (file, one) = written(&mut device, &far, 1);
        let other = device.attach_dmb(HOSTILE, DmbToken(1), LEN).unwrap();
        for (remote, finished) in [(one, one_finished), (other, other_finished)] {
            device.move_data(remote, 0, LEN - 1, &[1]).unwrap();
            if finished {
                device.discard_dmb(remote).unwrap();
            } else {
                device.detach_dmb(remote).unwrap();
            }
        }
        let both = one_finished && other_finished;
        expire(&mut device);
        assert_eq!(taken(&file), if both { page() } else { LEN.into() });
        let left = device
            .channels
            .iter()
            .map(|(_, at)| at.kept.unread())
            .sum::<usize>();
        assert_eq!(left > 0, !both);
    }
}

//= SHM-052 test
#[test]
fn a_peer_whose_doorbells_could_take_memory_gets_no_channel() {
    use super::Begun;
    let (near, far) = Socket::pair().unwrap();
    let (_doorbells, fd) = DoorbellPage::create().unwrap();
    let len = u32::try_from(taken(&fd)).unwrap();
    let hollow = memory(len);
    far.send(Message::Hello { gid: HOSTILE }, Some(hollow.as_fd()))
        .unwrap();
    let begun = Begun::begin(near, Gid128 { gid: 1, ext: 1 }).unwrap();
    let refused = begun.finish(std::time::Instant::now()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData);
}

//= SHM-056 test
#[test]
fn a_thread_of_its_own_gives_pages_of_a_strangers_files_back() {
    let own = rustix::process::geteuid().as_raw();
    for (uid, by_thread) in [(own, false), (own + 1, true)] {
        let mut device = Device::open().unwrap();
        let (mut channel, _doorbells, far) = begun_by_hostile(&device, HOSTILE);
        channel.uid = uid;
        device.adopt(channel).unwrap();
        let dmb = device.register_dmb(LEN, HOSTILE, None).unwrap();
        let own = device.dmbs.at(dmb.0).unwrap();
        assert_eq!(own.region.has_reaper(), by_thread);
        drop(far);
    }
}

/// The owner names it again for the next connection, without an offer.
//= SHM-057 test
#[test]
fn a_finished_dmb_is_attached_again_by_its_token() {
    let (mut device, far, _doorbells) = with_hostile();
    let (file, remote) = written(&mut device, &far, 1);
    device.discard_dmb(remote).unwrap();
    assert_eq!(
        device.attach_dmb(HOSTILE, DmbToken(1), 2 * LEN).err(),
        Some(IsmError::Length)
    );
    let again = device.attach_dmb(HOSTILE, DmbToken(1), LEN).unwrap();
    device.move_data(again, 0, 32, &[5; 8]).unwrap();
    assert_eq!(read(&file)[32..40], [5; 8]);
    // Of a connection that did not end in order it is not taken.
    device.detach_dmb(again).unwrap();
    let outcome = device.attach_dmb(HOSTILE, DmbToken(1), LEN);
    assert_eq!(outcome.err(), Some(IsmError::Token));
}

//= SHM-057 test
#[test]
fn finished_dmbs_keep_their_pages_up_to_a_number_of_bytes() {
    let (mut device, far, _doorbells) = with_hostile();
    let most = WHOLE / MAX_DMB_LEN as usize;
    let files: Vec<_> = (1..=most as u64 + 3)
        .map(|token| {
            let file = offered(&far, token, MAX_DMB_LEN);
            let remote = device
                .attach_dmb(HOSTILE, DmbToken(token), MAX_DMB_LEN)
                .unwrap();
            device.move_data(remote, 0, MAX_DMB_LEN - 1, &[1]).unwrap();
            device.discard_dmb(remote).unwrap();
            file
        })
        .collect();
    let whole = files.iter().filter(|file| taken(file) > 0).count();
    assert_eq!(whole, most);
    assert!(files[..3].iter().all(|file| taken(file) == 0), "the oldest");
    expire(&mut device);
    assert!(files.iter().all(|file| taken(file) == 0));
}

/// A page of each behind the head's has been written.
//= SHM-057 test
#[test]
fn finished_dmbs_count_by_what_was_written_to_them() {
    let (mut device, far, _doorbells) = with_hostile();
    let count = WHOLE / MAX_DMB_LEN as usize + 30;
    let files: Vec<_> = (1..=count as u64)
        .map(|token| {
            let file = offered(&far, token, MAX_DMB_LEN);
            let remote = device
                .attach_dmb(HOSTILE, DmbToken(token), MAX_DMB_LEN)
                .unwrap();
            device
                .move_data(remote, 0, page() as u32, &[1; 1_000])
                .unwrap();
            device.discard_dmb(remote).unwrap();
            file
        })
        .collect();
    assert!(files.iter().all(|file| taken(file) > 0));
    expire(&mut device);
    assert!(files.iter().all(|file| taken(file) == 0));
}

//= SHM-057 test
#[test]
fn an_own_dmb_is_used_again_with_an_empty_head() {
    for is_stranger in [false, true] {
        let (mut device, far, _doorbells) = with_hostile();
        if is_stranger {
            estrange(&mut device);
        }
        let dmb = device.register_dmb(LEN, HOSTILE, None).unwrap();
        let Received::Message(Message::Offer { .. }, Some(file)) = far.receive() else {
            panic!("no offer")
        };
        let region = SharedRegion::open(&file, LEN).unwrap();
        region.copy_in(0, &[9; 64]).unwrap();
        while device.poll().is_some() {}
        device.clear_dmb(dmb).unwrap();
        let mut head = [1; 33];
        device.read(dmb, 0, &mut head).unwrap();
        assert_eq!(head[..32], [0; 32], "the head");
        assert!(!device.poll_head(dmb, &mut [0; 32]), "nothing new");
        region.copy_in(8, &[3; 8]).unwrap();
        assert!(device.poll_head(dmb, &mut [0; 32]));
    }
}

/// A thread takes pages out of a stranger's file. It leaves them alone once the DMB is attached
/// again, as the next connection may have written to them by then.
//= SHM-057 test
#[test]
fn a_finished_dmb_of_a_stranger_is_attached_again_with_its_pages() {
    for is_expired in [false, true] {
        let (mut device, far, _doorbells) = with_hostile();
        estrange(&mut device);
        for round in 1..=200_u64 {
            let (file, remote) = written(&mut device, &far, round);
            device.discard_dmb(remote).unwrap();
            if is_expired {
                expire(&mut device);
            }
            let again = loop {
                match device.attach_dmb(HOSTILE, DmbToken(round), LEN) {
                    Ok(again) => break again,
                    // The thread is at it: the binding tries again when the alarm is due.
                    Err(IsmError::Busy) if is_expired => {
                        let due = device.alarm.at().unwrap();
                        assert!(due <= Instant::now() + Duration::from_millis(1));
                    }
                    outcome => panic!("{outcome:?}"),
                }
            };
            device
                .move_data(again, 0, 32, &[5; LEN as usize - 32])
                .unwrap();
            if round % 20 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            let lost = read(&file)[32..].iter().filter(|byte| **byte != 5).count();
            assert_eq!(lost, 0, "bytes of the next connection are lost");
            device.detach_dmb(again).unwrap();
            let token = DmbToken(round);
            far.send(Message::Withdraw { token }, None).unwrap();
            device.note_readable();
            assert_eq!(device.poll(), None);
        }
    }
}

/// A stranger keeps its file locked, so that the thread that takes pages out of it waits: the attachment
/// waits, too, but not as long as that.
//= SHM-056 test
//= SHM-057 test
#[test]
fn an_attachment_does_not_wait_for_a_file_that_stays_locked() {
    let Some(missing) = Missing::page() else {
        return;
    };
    let (mut device, far, _doorbells) = with_hostile();
    estrange(&mut device);
    let (file, remote) = written(&mut device, &far, 1);
    let locking = lock_file(&file, &missing);
    device.discard_dmb(remote).unwrap();
    expire(&mut device);
    let end = Instant::now() + Duration::from_secs(10);
    // The thread begins.
    while let Ok(again) = device.attach_dmb(HOSTILE, DmbToken(1), LEN) {
        assert!(Instant::now() < end);
        device.discard_dmb(again).unwrap();
        expire(&mut device);
        std::thread::sleep(Duration::from_millis(1));
    }
    let outcome = device.attach_dmb(HOSTILE, DmbToken(1), LEN);
    assert_eq!(outcome.err(), Some(IsmError::Busy));
    std::thread::sleep(BUSY_FOR);
    let outcome = device.attach_dmb(HOSTILE, DmbToken(1), LEN);
    assert_eq!(outcome.err(), Some(IsmError::Exhausted));
    drop(missing);
    locking.join().unwrap();
    while device.attach_dmb(HOSTILE, DmbToken(1), LEN).is_err() {
        assert!(Instant::now() < end + BUSY_FOR);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// However many channels a stranger has: pages that are kept for its next connections are bounded.
//= SHM-051 test
#[test]
fn finished_dmbs_of_a_stranger_keep_few_pages() {
    let (mut device, far, _doorbells) = with_hostile();
    let other = Gid128 { gid: 7, ext: 7 };
    let (_other_doorbells, other_far) = super::join_hostile(&mut device, other);
    estrange(&mut device);
    let most = WHOLE_OF_A_STRANGER / MAX_DMB_LEN as usize;
    let mut files = Vec::new();
    for token in 1..=most as u64 {
        for (peer, far) in [(HOSTILE, &far), (other, &other_far)] {
            let file = offered(far, token, MAX_DMB_LEN);
            let remote = device
                .attach_dmb(peer, DmbToken(token), MAX_DMB_LEN)
                .unwrap();
            device.move_data(remote, 0, MAX_DMB_LEN - 1, &[1]).unwrap();
            device.discard_dmb(remote).unwrap();
            files.push(file);
        }
    }
    let whole = || files.iter().filter(|file| taken(file) > 0).count();
    let end = Instant::now() + Duration::from_secs(10);
    while whole() > most {
        assert!(Instant::now() < end, "{} files keep pages", whole());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(
        files[most..].iter().all(|file| taken(file) > 0),
        "the newest"
    );
    expire(&mut device);
    files.iter().for_each(await_empty);
}

/// Connections that end at the same time may have more DMBs than heads are kept: the owner keeps
/// a few of them spare, and takes the others back a little later.
//= SHM-057 test
#[test]
fn whatever_its_owner_may_name_again_is_kept_for_that_time() {
    let (mut device, far, _doorbells) = with_hostile();
    let last = FINISHED as u64 + 8;
    for token in 1..=last {
        let _file = offered(&far, token, LEN);
        let remote = attached(&mut device, HOSTILE, token);
        device.discard_dmb(remote).unwrap();
    }
    let again = device.attach_dmb(HOSTILE, DmbToken(1), LEN).unwrap();
    device.discard_dmb(again).unwrap();
    expire(&mut device);
    let mut channels = device.channels.iter();
    assert!(channels.all(|(_, at)| at.kept.finished() == FINISHED));
}

/// The peer has dropped everything that was offered over a channel that has ended.
//= SHM-057 test
#[test]
fn an_own_dmb_whose_channel_has_ended_is_not_used_again() {
    let (mut device, far, _doorbells) = with_hostile();
    let dmb = device.register_dmb(LEN, HOSTILE, None).unwrap();
    drop(far);
    device.note_readable();
    while device.poll().is_some() {}
    assert_eq!(device.clear_dmb(dmb), Err(IsmError::Unreachable));
}

/// A stranger keeps a file locked, so that no page can be taken out of any of its files.
struct Locking {
    device: Device,
    far: Socket,
    _doorbells: DoorbellPage,
    missing: Missing,
    thread: JoinHandle<isize>,
}

impl Locking {
    /// `None` without the right to keep a file locked.
    fn begin() -> Option<Self> {
        let missing = Missing::page()?;
        let (mut device, far, doorbells) = with_hostile();
        estrange(&mut device);
        let withdraw = |device: &mut Device, token: u64| {
            let (file, remote) = written(device, &far, token);
            device.detach_dmb(remote).unwrap();
            let lock = (token == 1).then(|| lock_file(&file, &missing));
            let token = DmbToken(token);
            far.send(Message::Withdraw { token }, None).unwrap();
            device.note_readable();
            assert_eq!(device.poll(), None);
            lock
        };
        let thread = withdraw(&mut device, 1).unwrap();
        for token in 2..80 {
            withdraw(&mut device, token);
        }
        let this = Self {
            device,
            far,
            _doorbells: doorbells,
            missing,
            thread,
        };
        soon(|| this.is_behind());
        Some(this)
    }

    fn channel(&self) -> (Key, u32) {
        let (key, channel) = self.device.channels.iter().next().unwrap();
        (key, channel.uid)
    }

    fn is_behind(&self) -> bool {
        self.device.reapers.of(self.channel().1).is_behind()
    }

    /// Ends the lock, and waits until all pages are given back.
    fn unlock(self) -> Device {
        let uid = self.channel().1;
        drop(self.missing);
        self.thread.join().unwrap();
        soon(|| !self.device.reapers.of(uid).is_behind());
        self.device
    }

    /// Sends a file of this length for handshakes, and returns it with what the device reports.
    fn send_file(&mut self, len: u32) -> (OwnedFd, Option<IsmReport>) {
        let file = memory(len);
        send_handshakes(&self.far, &file);
        self.device.note_readable();
        (file, self.device.poll())
    }
}

/// Nothing more is mapped of a user whose pages cannot be given back. Once they can be, the next
/// pairing maps the file.
//= SHM-056 test
//= SHM-065 test
#[test]
fn no_file_for_handshakes_is_mapped_that_could_not_be_given_back() {
    let Some(mut at) = Locking::begin() else {
        return;
    };
    let (theirs, report) = at.send_file(LENGTH);
    assert_eq!(report, None, "the channel goes on");
    let key = at.channel().0;
    assert!(at.device.retry_handshakes(key));
    assert_eq!(taken(&theirs), 0, "not mapped");
    let mut device = at.unlock();
    assert!(device.retry_handshakes(key));
    assert_ne!(taken(&theirs), 0, "mapped, and marked as mapped");
}

/// A file that was kept is checked when it is mapped.
//= SHM-065 test
#[test]
fn a_file_for_handshakes_of_another_length_is_refused_later_too() {
    let Some(mut at) = Locking::begin() else {
        return;
    };
    assert_eq!(at.send_file(LENGTH + 4096).1, None, "kept");
    let key = at.channel().0;
    assert!(!at.unlock().retry_handshakes(key));
}

/// A peer sends the file once, also while that cannot be mapped: a descriptor is kept for it.
//= SHM-065 test
#[test]
fn a_second_file_for_handshakes_ends_the_channel_while_the_first_waits() {
    let Some(mut at) = Locking::begin() else {
        return;
    };
    assert_eq!(at.send_file(LENGTH).1, None);
    let vanished = IsmReport::Event(DeviceEvent::vanished(HOSTILE));
    assert_eq!(at.send_file(LENGTH).1, Some(vanished));
    drop(at.missing);
    at.thread.join().unwrap();
}
