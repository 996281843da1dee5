//! Look-ups, marks and registrations of descriptors that are foreign, made here or hidden.

use std::sync::atomic::Ordering;

use super::*;

#[test]
fn descriptors_without_an_entry_are_foreign_whatever_their_number() {
    for fd in [i32::MIN, -1, 0, 700_001, 1 << 20, i32::MAX] {
        assert!(!has(fd), "{fd}");
        assert!(get(fd).is_none() && take(fd).is_none());
        closed(fd);
        assert!(!is_tracked(fd) && registrations(fd, |_| Vec::new()).is_empty());
    }
}

#[test]
fn descriptors_of_the_library_are_found_until_they_are_revealed() {
    for fd in [701_000, 701_777] {
        assert!(hide(fd) && is_hidden(fd) && has(fd));
        assert!(get(fd).is_none() && take(fd).is_none() && is_hidden(fd));
    }
    assert_eq!(next_hidden(700_500, u32::MAX), Some(701_000));
    assert_eq!(next_hidden(701_001, 701_777), Some(701_777));
    assert_eq!(next_hidden(701_001, 701_776), None);
    assert!(known(701_000, 701_001).eq([701_000, 701_001]));
    assert_eq!(known(900_000, u32::MAX).next(), None);
    reveal(701_777);
    assert!(!has(701_777));
}

#[test]
fn a_socket_is_unused_until_it_is_used_once() {
    let fd = 700_200;
    assert!(!begins_use(fd), "it is none of this program's");
    made_here(fd, true);
    assert!(begins_use(fd) && !begins_use(fd) && is_made_here(fd));
    made_here(fd, true);
    closed(fd);
    assert!(!begins_use(fd) && !is_made_here(fd));
    made_here(fd, false);
    assert!(!begins_use(fd), "it is not of TCP");
}

#[test]
fn registrations_are_known_of_what_this_program_has_made() {
    let at = |set, data| Registration {
        set,
        events: 5,
        data,
    };
    let known = |fd| registrations(fd, |_| panic!("known"));
    let fd = 700_100;
    assert_eq!(registrations(fd, |_| vec![at(9, 9)]), [at(9, 9)], "unknown");
    registered(libc::EPOLL_CTL_ADD, fd, at(3, 2));
    assert!(!is_tracked(fd), "unknown still");
    made_here(fd, true);
    assert!(known(fd).is_empty());
    registered(libc::EPOLL_CTL_ADD, fd, at(3, 2));
    assert_eq!(known(fd), [at(3, 2)]);
    registered(libc::EPOLL_CTL_MOD, fd, at(3, 7));
    assert_eq!(known(fd), [at(3, 7)]);
    registered(libc::EPOLL_CTL_DEL, fd, at(3, 0));
    assert!(known(fd).is_empty());
    for (operation, set) in [(libc::EPOLL_CTL_ADD, 4), (libc::EPOLL_CTL_DEL, 4)] {
        made_here(fd, true);
        registered(libc::EPOLL_CTL_ADD, fd, at(3, 1));
        registered(operation, fd, at(set, 1));
        assert_eq!(
            registrations(fd, |_| vec![at(9, 9)]),
            [at(9, 9)],
            "two sets"
        );
    }
    made_set(fd);
    registered(libc::EPOLL_CTL_ADD, fd, at(3, 1));
    closed(fd);
    assert!(!is_tracked(fd));
}

#[test]
fn a_number_of_many_bits_shows_in_its_low_bits() {
    let (fd, low) = (5 << 16 | 321, 321);
    let has = |mask: u8| LOW[low].load(Ordering::Relaxed) & mask != 0;
    assert!(!has(MAY_HAVE));
    made_here(fd, true);
    assert!(has(MAY_HAVE) && has(MAY_BE_TRACKED) && !super::has(low as i32));
    assert!(put(fd, Object::Listener(None)));
    drop(take(fd));
    closed(fd);
    assert!(has(MAY_HAVE) && !super::has(fd) && !is_tracked(low as i32));
}
