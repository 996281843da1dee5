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

/// Slots of any table, as far as the heap concerns them: one copy of the code below serves all.
trait Cells {
    /// The cell at a position; [`Cell::NONE`] if there is no such slot.
    fn cell(&self, position: u32) -> Cell;
    /// Writes the cell at a position.
    fn set_cell(&mut self, position: u32, cell: Cell);
    /// Notes where in the heap the deadline of a slot is.
    fn set_place(&mut self, index: u32, place: u32);
}

impl<T> Cells for &mut [Slot<T>] {
    fn cell(&self, position: u32) -> Cell {
        self.get(position as usize).map_or(Cell::NONE, |slot| Cell {
            deadline: slot.deadline,
            owner: slot.owner,
        })
    }

    fn set_cell(&mut self, position: u32, cell: Cell) {
        if let Some(slot) = self.get_mut(position as usize) {
            slot.deadline = cell.deadline;
            slot.owner = cell.owner;
        }
    }

    fn set_place(&mut self, index: u32, place: u32) {
        if let Some(slot) = self.get_mut(index as usize) {
            slot.place = place;
        }
    }
}

/// Sets or clears the deadline of a slot in use.
#[inline]
pub(super) fn set<T>(
    head: &mut PoolHead,
    mut slots: &mut [Slot<T>],
    index: u32,
    deadline: Option<Instant>,
) {
    let position = match slots.get(index as usize) {
        Some(slot) if slot.value.is_some() => slot.place,
        _ => return,
    };
    if position != NONE || deadline.is_some() {
        change(&mut head.heap_length, &mut slots, index, position, deadline);
    }
}

/// Sets or clears the deadline of a slot which has a cell at `position`, or none.
#[inline(never)]
fn change(
    length: &mut u32,
    slots: &mut dyn Cells,
    index: u32,
    position: u32,
    deadline: Option<Instant>,
) {
    let Some(deadline) = deadline else {
        let last = length.saturating_sub(1);
        *length = last;
        slots.set_place(index, NONE);
        if position != last {
            let cell = slots.cell(last);
            place(slots, position, cell);
            restore_order(*length, slots, position);
        }
        return;
    };
    let position = if position == NONE {
        let end = *length;
        *length = end.saturating_add(1);
        end
    } else if slots.cell(position).deadline == deadline {
        return;
    } else {
        position
    };
    let cell = Cell {
        deadline,
        owner: index,
    };
    place(slots, position, cell);
    restore_order(*length, slots, position);
}

/// Writes a cell and its position into its owner.
fn place(slots: &mut dyn Cells, position: u32, cell: Cell) {
    slots.set_cell(position, cell);
    slots.set_place(cell.owner, position);
}

/// Restores the heap's order: moves the cell at `position` up or down until its parent is not
/// later, and its children are not earlier.
fn restore_order(length: u32, slots: &mut dyn Cells, mut position: u32) {
    let cell = slots.cell(position);
    while position > 0 {
        let parent = position.wrapping_sub(1) >> 1;
        let above = slots.cell(parent);
        if above.deadline <= cell.deadline {
            break;
        }
        place(slots, position, above);
        place(slots, parent, cell);
        position = parent;
    }
    loop {
        let left = position.saturating_mul(2).saturating_add(1);
        if left >= length {
            break;
        }
        let right = left.saturating_add(1);
        let mut child = left;
        if right < length && slots.cell(right).deadline < slots.cell(left).deadline {
            child = right;
        }
        let below = slots.cell(child);
        if cell.deadline <= below.deadline {
            break;
        }
        place(slots, position, below);
        place(slots, child, cell);
        position = child;
    }
}
