//! A bounded queue whose values are numbered as they come.
//!
//! `heapless::Deque` asserts an order of its two halves that the compiler cannot
//! prove, and so brings a panic into every program.

/// At most `N` values, a power of two, taken out in the order they were put in.
#[derive(Clone, Debug)]
pub(crate) struct Queue<T, const N: usize> {
    slots: [Option<T>; N],
    /// Number of the oldest value.
    first: u32,
    /// Number the next value gets.
    next: u32,
}

impl<T: Copy, const N: usize> Queue<T, N> {
    const MASK: u32 = {
        assert!(N.is_power_of_two() && N <= 1 << 16);
        (N as u32).wrapping_sub(1)
    };

    pub(crate) const fn new() -> Self {
        Self {
            slots: [None; N],
            first: 0,
            next: 0,
        }
    }

    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.next.wrapping_sub(self.first)
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.next == self.first
    }

    #[inline]
    pub(crate) const fn is_full(&self) -> bool {
        self.len() > Self::MASK
    }

    /// Whether the value of this number is still in.
    #[inline]
    pub(crate) const fn contains(&self, number: u32) -> bool {
        number.wrapping_sub(self.first) < self.len()
    }

    /// Puts a value in: its number, or `None` if there is no room.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let number = self.next;
        *self.slots.get_mut((number & Self::MASK) as usize)? = Some(value);
        self.next = number.wrapping_add(1);
        Some(number)
    }

    /// Puts a value in and returns its number. The queue must not be full.
    #[inline(always)]
    pub(crate) fn put(&mut self, value: T) -> u32 {
        debug_assert!(!self.is_full());
        let number = self.next;
        if let Some(slot) = self.slots.get_mut((number & Self::MASK) as usize) {
            *slot = Some(value);
        }
        self.next = number.wrapping_add(1);
        number
    }

    /// The values that are in, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.len()).filter_map(|offset| {
            let number = self.first.wrapping_add(offset);
            *self.slots.get((number & Self::MASK) as usize)?
        })
    }

    /// The oldest value, if this is its number.
    #[inline]
    pub(crate) fn front(&self, number: u32) -> Option<T> {
        if number != self.first || self.is_empty() {
            return None;
        }
        *self.slots.get((number & Self::MASK) as usize)?
    }

    /// The value of this number, if it is still in.
    pub(crate) fn get(&self, number: u32) -> Option<T> {
        if !self.contains(number) {
            return None;
        }
        *self.slots.get((number & Self::MASK) as usize)?
    }

    /// Takes the oldest value out, with its number.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u32, T)> {
        if self.is_empty() {
            return None;
        }
        let number = self.first;
        let value = (*self.slots.get((number & Self::MASK) as usize)?)?;
        self.first = number.wrapping_add(1);
        Some((number, value))
    }

    /// Takes the oldest value out, unread.
    #[inline]
    pub(crate) const fn skip(&mut self) {
        if !self.is_empty() {
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Forgets all values.
    pub(crate) const fn clear(&mut self) {
        self.first = self.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn it_is_a_queue_across_any_number_of_wraps() {
        let mut queue = Queue::<u32, 4>::new();
        (queue.first, queue.next) = (u32::MAX - 5, u32::MAX - 5);
        let mut model = VecDeque::new();
        for step in 0u32..1000 {
            if step.wrapping_mul(0x9e37_79b9) >> 31 == 0 {
                let number = queue.push(step);
                assert_eq!(number.is_some(), model.len() < 4);
                model.extend(number.map(|number| (number, step)));
            } else {
                assert_eq!(queue.pop(), model.pop_front());
            }
            assert_eq!(queue.len() as usize, model.len());
            assert_eq!(queue.is_full(), model.len() == 4);
            for distance in 0..8 {
                let number = queue.first.wrapping_add(distance);
                let expected = model.iter().find(|(n, _)| *n == number);
                assert_eq!(queue.contains(number), expected.is_some());
                assert_eq!(queue.get(number), expected.map(|(_, value)| *value));
            }
        }
        queue.clear();
        assert!(queue.is_empty());
        assert_eq!(queue.pop(), None);
    }
}
