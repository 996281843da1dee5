use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

struct Item {
    links: Links<Self>,
}

impl Linked<0> for Item {
    fn links(&mut self) -> &mut Links<Self> {
        &mut self.links
    }
}

fn item() -> Item {
    Item {
        links: Links::UNLINKED,
    }
}

#[test]
fn a_full_table_refuses_and_reuses_the_slot_freed_longest_ago() {
    let mut head = PoolHead::EMPTY;
    let mut slots = [const { Slot::EMPTY }; 3];
    let mut pool = Pool::new(&mut head, &mut slots);
    for expected in 0..3 {
        assert_eq!(pool.insert(expected), Some((Idx::new(expected), 0)));
    }
    assert_eq!(pool.insert(9), None);
    pool.remove(Idx::new(1));
    pool.remove(Idx::new(0));
    assert!(!pool.is_live(Idx::new(1), 0));
    assert_eq!(pool.insert(9), Some((Idx::new(1), 1)));
    assert_eq!(pool.insert(9), Some((Idx::new(0), 1)));
    assert_eq!(pool.insert(9), None);
}

#[test]
fn a_list_keeps_its_order_when_its_middle_leaves() {
    let mut head = PoolHead::EMPTY;
    let mut slots = [const { Slot::EMPTY }; 4];
    let mut pool = Pool::new(&mut head, &mut slots);
    let mut list = List::<_, 0>::EMPTY;
    for _ in 0..4 {
        let (index, _) = pool.insert(item()).unwrap();
        list.push_back(&mut pool, index);
        list.push_back(&mut pool, index);
    }
    list.remove(&mut pool, Idx::new(2));
    list.remove(&mut pool, Idx::new(2));
    list.remove(&mut pool, Idx::new(3));
    list.push_back(&mut pool, Idx::new(2));
    list.push_front(&mut pool, Idx::new(3));
    list.push_front(&mut pool, Idx::new(3));
    let mut order = Vec::new();
    while let Some(index) = list.pop_front(&mut pool) {
        order.push(index.get());
    }
    assert_eq!(order, [3, 0, 1, 2]);
    list.push_front(&mut pool, Idx::new(1));
    list.push_back(&mut pool, Idx::new(0));
    assert_eq!(list.pop_front(&mut pool), Some(Idx::new(1)));
    assert_eq!(list.pop_front(&mut pool), Some(Idx::new(0)));
    assert!(list.is_empty());
}

proptest! {
    #[test]
    fn deadlines_come_out_in_order(steps in proptest::collection::vec((0u32..16, proptest::option::of(0u64..50)), 0..200)) {
        let mut head = PoolHead::EMPTY;
        let mut slots = [const { Slot::EMPTY }; 16];
        let mut pool = Pool::new(&mut head, &mut slots);
        for i in 0..16 {
            prop_assert_eq!(pool.insert(i).unwrap().0, Idx::new(i));
        }
        let mut model = BTreeMap::new();
        for (index, deadline) in steps {
            let index = Idx::new(index);
            let deadline = deadline.map(Instant::from_nanos);
            pool.set_deadline(index, deadline);
            match deadline {
                Some(d) => { model.insert(index, d); }
                None => { model.remove(&index); }
            }
            prop_assert_eq!(pool.earliest().map(|(d, _)| d), model.values().min().copied());
            if let Some((d, owner)) = pool.earliest() {
                prop_assert_eq!(model.get(&owner), Some(&d));
            }
        }
    }
}
