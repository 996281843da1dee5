//! Every interleaving of small cases. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p smc-transport-ism --lib loom`.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{Doorbells, GROUP, Leaves, Listener, NEAR, Pages, ParkTarget, Ring, Waker};
use crate::sync::{AtomicU64, Ordering};

/// A slot whose leaf is in a further page.
const FAR: u32 = (NEAR * GROUP) as u32;

/// What two processes share in the model.
struct Shared {
    ringer: Doorbells,
    /// A further page, and once it was sent, whether the ringer rang there before.
    page: Arc<Leaves>,
    sent: Mutex<Option<bool>>,
    listener: Doorbells,
    /// What is moved before each ring, by slot.
    moved: [AtomicU64; FAR as usize + 2],
    /// The channel: wakes that wait to be read.
    wakes: (Mutex<u32>, Condvar),
    /// Where the listener waits.
    target: ParkTarget,
    /// What the kernel does for a thread that waits at a futex word: comparing it and waiting
    /// are one step, and so is calling.
    kernel: (Mutex<()>, Condvar),
}

impl Shared {
    fn new(target: ParkTarget) -> Arc<Self> {
        Arc::new(Self {
            target,
            kernel: (Mutex::new(()), Condvar::new()),
            ringer: Doorbells::new(),
            page: Arc::new(Leaves::new()),
            sent: Mutex::new(None),
            listener: Doorbells::new(),
            moved: core::array::from_fn(|_| AtomicU64::new(0)),
            wakes: (Mutex::new(0), Condvar::new()),
        })
    }

    fn move_and_ring(&self, waker: &mut Waker, slot: u32, value: u64) {
        self.move_and_ring_in(&Page(None), waker, slot, value);
    }

    fn move_and_ring_in(&self, page: &Page, waker: &mut Waker, slot: u32, value: u64) {
        self.moved[slot as usize].store(value, Ordering::Relaxed);
        self.ringer.ring(page, Ring::new(slot, 1));
        match waker.must_wake(&self.listener) {
            None => {}
            Some(ParkTarget::Socket) => {
                *self.wakes.0.lock().unwrap() += 1;
                self.wakes.1.notify_one();
            }
            Some(ParkTarget::FutexWord) => {
                self.ringer.count_wake();
                drop(self.kernel.0.lock().unwrap());
                self.kernel.1.notify_one();
            }
        }
    }

    fn sleep(&self, seen: u32) {
        // If a wake is lost this never ends, and loom reports it.
        if self.target == ParkTarget::Socket {
            let mut wakes = self.wakes.0.lock().unwrap();
            while *wakes == 0 {
                wakes = self.wakes.1.wait(wakes).unwrap();
            }
            *wakes = 0;
        } else {
            let mut kernel = self.kernel.0.lock().unwrap();
            while self.ringer.wakes().load(Ordering::Relaxed) == seen {
                kernel = self.kernel.1.wait(kernel).unwrap();
            }
        }
    }

    /// The next ring; waits, as the device does, if there is none.
    fn wait(&self, listener: &mut Listener) -> Ring {
        self.wait_below(listener, &mut Page(None), 2)
    }

    /// The page, once it was sent; `page` is what there was of it before.
    fn take_page(&self, listener: &mut Listener, page: &mut Page, slots: u32) {
        let sent = *self.sent.lock().unwrap();
        if page.0.is_some() {
            return;
        }
        if let Some(rung) = sent {
            if rung {
                listener.add_rung_page(&self.ringer, 0, slots);
            }
            *page = Page(Some(Arc::clone(&self.page)));
        }
    }

    fn wait_below(&self, listener: &mut Listener, page: &mut Page, slots: u32) -> Ring {
        loop {
            if slots > FAR {
                self.take_page(listener, page, slots);
            }
            if let Some(ring) = listener.next(&self.ringer, page, slots) {
                return ring;
            }
            let seen = self.ringer.wakes().load(Ordering::Acquire);
            self.listener.park(self.target);
            if let Some(ring) = listener.next(&self.ringer, page, slots) {
                self.listener.unpark();
                return ring;
            }
            self.sleep(seen);
            self.listener.unpark();
        }
    }
}

#[test]
fn no_ring_is_slept_through() {
    //= CASE-C09 test
    no_ring_is_slept_through_in(ParkTarget::Socket);
}

#[test]
fn no_ring_is_missed_at_a_futex_word() {
    //= SHM-032 test
    no_ring_is_slept_through_in(ParkTarget::FutexWord);
}

fn no_ring_is_slept_through_in(target: ParkTarget) {
    loom::model(move || {
        let shared = Shared::new(target);
        let ringer = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let mut waker = Waker::default();
            ringer.move_and_ring(&mut waker, 0, 1);
            ringer.move_and_ring(&mut waker, 0, 2);
        });
        let mut listener = Listener::new();
        let mut last = 0;
        while last < 2 {
            assert_eq!(shared.wait(&mut listener).slot, 0);
            let now = shared.moved[0].load(Ordering::Relaxed);
            assert!(now > 0, "what was moved before a ring is there");
            last = now;
        }
        thread.join().unwrap();
    });
}

#[test]
fn two_slots_are_distinct_and_none_is_lost() {
    loom::model(|| {
        let shared = Shared::new(ParkTarget::Socket);
        let ringer = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let mut waker = Waker::default();
            ringer.move_and_ring(&mut waker, 0, 1);
            ringer.move_and_ring(&mut waker, 1, 1);
        });
        let mut listener = Listener::new();
        let mut rang = [false; 2];
        while rang != [true; 2] {
            let ring = shared.wait(&mut listener);
            assert_eq!(shared.moved[ring.slot as usize].load(Ordering::Relaxed), 1);
            rang[ring.slot as usize] = true;
        }
        assert_eq!(listener.next(&shared.ringer, &Page(None), 2), None);
        thread.join().unwrap();
    });
}

/// The further page of a side, if that has it.
struct Page(Option<Arc<Leaves>>);

impl Pages for Page {
    fn page(&self, _: usize) -> Option<&Leaves> {
        self.0.as_deref()
    }
}

/// Two DMBs of a further page are rung for, and the page arrives before, between or behind
/// the rings, or never.
//= SHM-071 test
#[test]
fn no_ring_in_a_further_page_is_slept_through() {
    for sends_before in [0, 1, 2] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = Shared::new(ParkTarget::Socket);
            let ringer = Arc::clone(&shared);
            let thread = thread::spawn(move || {
                let mut waker = Waker::default();
                let mut page = Page(None);
                for at in 0..2 {
                    if at == sends_before {
                        page = Page(Some(Arc::clone(&ringer.page)));
                        *ringer.sent.lock().unwrap() = Some(at > 0);
                    }
                    ringer.move_and_ring_in(&page, &mut waker, FAR + at, 1);
                }
            });
            let (mut listener, mut page) = (Listener::new(), Page(None));
            let mut rang = [false; 2];
            while rang != [true; 2] {
                let slot = shared.wait_below(&mut listener, &mut page, FAR + 2).slot;
                let moved = shared.moved[slot as usize].load(Ordering::Relaxed);
                // Without the page a slot may be taken for rung that was not.
                rang[(slot - FAR) as usize] |= moved == 1;
            }
            thread.join().unwrap();
        });
    }
}

/// Both sides ring and wait: a ping-pong without a lost wake.
#[test]
fn both_sides_may_wait() {
    both_sides_may_wait_at(ParkTarget::Socket, ParkTarget::Socket);
}

#[test]
fn one_side_may_wait_at_a_futex_word() {
    //= SHM-032 test
    both_sides_may_wait_at(ParkTarget::FutexWord, ParkTarget::Socket);
}

fn both_sides_may_wait_at(one: ParkTarget, two: ParkTarget) {
    loom::model(move || {
        let (there, back) = (Shared::new(one), Shared::new(two));
        let (to, from) = (Arc::clone(&back), Arc::clone(&there));
        let thread = thread::spawn(move || {
            let (mut waker, mut listener) = (Waker::default(), Listener::new());
            from.wait(&mut listener);
            to.move_and_ring(&mut waker, 0, 1);
        });
        let (mut waker, mut listener) = (Waker::default(), Listener::new());
        there.move_and_ring(&mut waker, 0, 1);
        back.wait(&mut listener);
        assert_eq!(back.moved[0].load(Ordering::Relaxed), 1);
        thread.join().unwrap();
    });
}

/// A listener that polls a DMB by itself, then wants rings again: either it sees what was
/// written, or the ringer rings.
//= SHM-075 test
#[test]
fn what_is_written_without_a_ring_is_seen() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new(ParkTarget::Socket);
        shared.listener.suppress_rings();
        let ringer = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let mut waker = Waker::default();
            for value in 1..=2 {
                ringer.moved[0].store(value, Ordering::Release);
                if !ringer.listener.suppresses_rings() {
                    ringer.move_and_ring(&mut waker, 0, value);
                }
            }
        });
        let mut listener = Listener::new();
        shared.listener.restore_rings();
        let mut seen = shared.moved[0].load(Ordering::Acquire);
        while seen < 2 {
            shared.wait(&mut listener);
            seen = shared.moved[0].load(Ordering::Acquire);
        }
        thread.join().unwrap();
    });
}

/// Model of an owner that parks.
//= SHM-075 test
#[test]
fn what_is_written_without_a_ring_is_not_slept_through() {
    loom::model(|| {
        let shared = Shared::new(ParkTarget::Socket);
        shared.listener.suppress_rings();
        let ringer = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let mut waker = Waker::default();
            ringer.moved[0].store(1, Ordering::Release);
            if !ringer.listener.suppresses_rings() {
                ringer.move_and_ring(&mut waker, 0, 1);
            }
        });
        let mut listener = Listener::new();
        shared.listener.park(ParkTarget::Socket);
        if shared.moved[0].load(Ordering::Acquire) == 0 {
            shared.wait(&mut listener);
        }
        assert_eq!(shared.moved[0].load(Ordering::Acquire), 1);
        thread.join().unwrap();
    });
}
