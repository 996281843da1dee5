//! A bounded queue. `heapless::Deque` asserts an order of its two halves that the
//! compiler cannot prove, and so brings a panic into every program.

/// At most `N` values, taken out in the order they were put in.
#[derive(Clone, Debug)]
pub(crate) struct Queue<T, const N: usize> {
    slots: [Option<T>; N],
    first: usize,
    length: usize,
}

impl<T: Copy, const N: usize> Queue<T, N> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [None; N],
            first: 0,
            length: 0,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.length
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.length >= N
    }

    /// The oldest value.
    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        self.slots.get(self.first)?.as_ref()
    }

    /// Gives the value back if there is no room.
    #[inline]
    pub(crate) fn push_back(&mut self, value: T) -> Result<(), T> {
        if self.is_full() {
            return Err(value);
        }
        let end = self.first.saturating_add(self.length);
        let Some(slot) = self.slots.get_mut(end.checked_sub(N).unwrap_or(end)) else {
            return Err(value);
        };
        *slot = Some(value);
        self.length = self.length.saturating_add(1);
        Ok(())
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let value = self.slots.get_mut(self.first)?.take()?;
        let next = self.first.saturating_add(1);
        self.first = if next < N { next } else { 0 };
        self.length = self.length.saturating_sub(1);
        Some(value)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn it_is_a_queue_across_any_number_of_wraps() {
        let mut queue = Queue::<u32, 3>::new();
        let mut model = VecDeque::new();
        let mut pushed = 0;
        for step in 0u32..1000 {
            if step.wrapping_mul(0x9e37_79b9) >> 31 == 0 {
                assert_eq!(queue.push_back(pushed).is_ok(), model.len() < 3);
                if model.len() < 3 {
                    model.push_back(pushed);
                }
                pushed += 1;
            } else {
                assert_eq!(queue.pop_front(), model.pop_front());
            }
            assert_eq!(queue.front(), model.front());
            assert_eq!(queue.len(), model.len());
            assert_eq!(queue.is_empty(), model.is_empty());
            assert_eq!(queue.is_full(), model.len() == 3);
        }
        queue.clear();
        assert_eq!((queue.len(), queue.pop_front()), (0, None));
    }
}
