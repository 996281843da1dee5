//! Virtual time: a queue of what happens next.

use std::collections::BTreeMap;

use smc_proto::time::{Duration, Instant};

/// Events in the order of their time; events of one time in the order in which
/// they were scheduled. Time moves only when an event is taken.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    now: Instant,
    next: u64,
    events: BTreeMap<(Instant, u64), E>,
}

/// Names a scheduled event, to cancel it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    at: Instant,
    number: u64,
}

impl<E> EventQueue<E> {
    /// An empty queue at [`Instant::ZERO`].
    #[must_use]
    pub const fn new() -> Self {
        Self {
            now: Instant::ZERO,
            next: 0,
            events: BTreeMap::new(),
        }
    }

    /// The present.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Whether nothing is scheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Schedules an event; a time in the past means now.
    pub fn schedule(&mut self, at: Instant, event: E) -> Ticket {
        let ticket = Ticket {
            at: at.max(self.now),
            number: self.next,
        };
        self.next += 1;
        self.events.insert((ticket.at, ticket.number), event);
        ticket
    }

    /// Schedules an event for later.
    pub fn schedule_after(&mut self, delay: Duration, event: E) -> Ticket {
        self.schedule(self.now.after(delay), event)
    }

    /// Takes an event back, if it has not happened yet.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<E> {
        self.events.remove(&(ticket.at, ticket.number))
    }

    /// When the next event happens.
    #[must_use]
    pub fn next_time(&self) -> Option<Instant> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next event if it happens at `limit` or before; the present
    /// becomes its time.
    pub fn take_until(&mut self, limit: Instant) -> Option<E> {
        let entry = self.events.first_entry()?;
        let (at, _) = *entry.key();
        if at > limit {
            return None;
        }
        self.now = at;
        Some(entry.remove())
    }

    /// Moves the present without an event, never back and never past an event.
    pub fn advance_to(&mut self, at: Instant) {
        let limit = self.next_time().unwrap_or(Instant::MAX);
        self.now = self.now.max(at.min(limit));
    }

    /// What is scheduled and how far away it is, in order.
    pub fn upcoming(&self) -> impl Iterator<Item = (Duration, &E)> {
        self.events
            .iter()
            .map(|((at, _), event)| (at.since(self.now), event))
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_come_in_the_order_they_were_scheduled() {
        let mut queue = EventQueue::new();
        let later = Instant::from_nanos(10);
        queue.schedule(later, 'b');
        queue.schedule(Instant::ZERO, 'a');
        let cancelled = queue.schedule(later, 'x');
        queue.schedule(later, 'c');
        assert_eq!(queue.cancel(cancelled), Some('x'));
        let order: String = std::iter::from_fn(|| queue.take_until(Instant::MAX)).collect();
        assert_eq!(order, "abc");
        assert_eq!(queue.now(), later);
        queue.schedule(Instant::ZERO, 'd');
        assert_eq!(queue.next_time(), Some(later));
    }

    #[test]
    fn time_stops_at_the_next_event() {
        let mut queue = EventQueue::new();
        queue.schedule(Instant::from_nanos(10), ());
        queue.advance_to(Instant::from_nanos(99));
        assert_eq!(queue.now().as_nanos(), 10);
        assert_eq!(queue.take_until(Instant::from_nanos(9)), None);
    }
}
