//! The set that a thread used last, and events of the library.

use super::*;

fn event(data: u64) -> epoll_event {
    epoll_event {
        events: 1,
        u64: data,
    }
}

#[test]
fn the_set_that_a_thread_used_last_is_found_as_long_as_its_descriptor_is_its_own() {
    let (fd, other) = (702_000, 702_001);
    let find = |fd| table::with_set(fd, |set| Some(set.id()));
    let sets = [(); 2].map(|()| Arc::new(Set::new(fd)));
    assert_eq!(find(fd), None);
    assert!(table::put(fd, Object::Set(sets[0].clone())));
    assert_eq!(find(fd), None, "it is looked up");
    assert_eq!(find(fd), Some(sets[0].id()));
    assert!(table::put(other, Object::Set(sets[0].clone())));
    assert_eq!(find(other), Some(sets[0].id()), "of a duplicate");
    table::take(fd);
    assert_eq!(find(fd), None, "it is closed");
    assert!(table::put(fd, Object::Set(sets[1].clone())));
    assert_eq!(find(fd), None, "another one is looked up");
    assert_eq!(find(fd), Some(sets[1].id()));
    let elsewhere = std::thread::spawn(move || (find(fd), find(fd)));
    assert_eq!(elsewhere.join().unwrap(), (None, Some(sets[1].id())));
    assert!(table::put(fd, Object::Listener(None)));
    assert_eq!(find(fd), None, "it is no set");
    drop((table::take(fd), table::take(other)));
    table::put(other, Object::Set(Arc::new(Set::new(other))));
    assert_eq!((find(other), Arc::strong_count(&sets[1])), (None, 1));
    table::take(other);
}

#[test]
fn events_of_the_library_are_taken_out_whatever_their_place() {
    let own = key() | LOOP;
    let mut events = [
        event(own),
        event(7),
        event(key() | 12),
        event(u64::MAX),
        event(own),
    ];
    let mut taken = Vec::new();
    let left = without_own(&mut events, 5, |low| taken.push(low));
    let datas = [events[0].u64, events[1].u64];
    assert_eq!((left, datas), (2, [7, u64::MAX]));
    assert_eq!(taken, [LOOP, 12, LOOP]);
}
