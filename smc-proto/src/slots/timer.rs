//! One binary heap of deadlines per table, its cells spread over the slots.

use super::{NONE, PoolHead, Slot};
use crate::time::Instant;

/// A cell of the heap: a deadline and the slot it belongs to.
#[derive(Clone, Copy, Debug)]
struct Cell {
    deadline: Instant,
    owner: u32,
}

impl Cell {
    const NONE: Self = Self {
        deadline: Instant::MAX,
        owner: NONE,
    };
}

pub(super) fn earliest<T>(head: &PoolHead, slots: &[Slot<T>]) -> Option<(Instant, u32)> {
    if head.heap_length == 0 {
        return None;
    }
    slots.first().map(|slot| (slot.deadline, slot.owner))
}

/// The deadline of a slot.
pub(super) fn of<T>(slots: &[Slot<T>], index: u32) -> Option<Instant> {
    let slot = slots.get(index as usize)?;
    let place = slot.value.as_ref().map(|_| slot.place)?;
    slots.get(place as usize).map(|slot| slot.deadline)
}

#[inline(never)]
pub(super) fn set<T>(
    head: &mut PoolHead,
    slots: &mut [Slot<T>],
    index: u32,
    deadline: Option<Instant>,
) {
    let position = match slots.get(index as usize) {
        Some(slot) if slot.value.is_some() => slot.place,
        _ => return,
    };
    match (deadline, position) {
        (None, NONE) => {}
        (None, position) => {
            let last = head.heap_length.saturating_sub(1);
            head.heap_length = last;
            if let Some(slot) = slots.get_mut(index as usize) {
                slot.place = NONE;
            }
            if position != last {
                let cell = cell_at(slots, last);
                place(slots, position, cell);
                restore_order(head, slots, position);
            }
        }
        (Some(deadline), NONE) => {
            let position = head.heap_length;
            head.heap_length = position.saturating_add(1);
            place(
                slots,
                position,
                Cell {
                    deadline,
                    owner: index,
                },
            );
            restore_order(head, slots, position);
        }
        (Some(deadline), position) => {
            if cell_at(slots, position).deadline != deadline {
                place(
                    slots,
                    position,
                    Cell {
                        deadline,
                        owner: index,
                    },
                );
                restore_order(head, slots, position);
            }
        }
    }
}

fn cell_at<T>(slots: &[Slot<T>], position: u32) -> Cell {
    slots
        .get(position as usize)
        .map_or(Cell::NONE, |slot| Cell {
            deadline: slot.deadline,
            owner: slot.owner,
        })
}

/// Writes a cell and its position into its owner.
fn place<T>(slots: &mut [Slot<T>], position: u32, cell: Cell) {
    if let Some(slot) = slots.get_mut(position as usize) {
        slot.deadline = cell.deadline;
        slot.owner = cell.owner;
    }
    if let Some(slot) = slots.get_mut(cell.owner as usize) {
        slot.place = position;
    }
}

/// Restores the heap's order: moves the cell at `position` up or down until its parent is not
/// later, and its children are not earlier.
fn restore_order<T>(head: &PoolHead, slots: &mut [Slot<T>], mut position: u32) {
    let cell = cell_at(slots, position);
    while position > 0 {
        let parent = position.wrapping_sub(1) >> 1;
        let above = cell_at(slots, parent);
        if above.deadline <= cell.deadline {
            break;
        }
        place(slots, position, above);
        place(slots, parent, cell);
        position = parent;
    }
    loop {
        let left = position.saturating_mul(2).saturating_add(1);
        if left >= head.heap_length {
            break;
        }
        let right = left.saturating_add(1);
        let mut child = left;
        if right < head.heap_length
            && cell_at(slots, right).deadline < cell_at(slots, left).deadline
        {
            child = right;
        }
        let below = cell_at(slots, child);
        if cell.deadline <= below.deadline {
            break;
        }
        place(slots, position, below);
        place(slots, child, cell);
        position = child;
    }
}
