//! The engine's end: where its events leave, or nothing at all without the feature `trace`.

#[cfg(not(feature = "trace"))]
use core::marker::PhantomData;

#[cfg(feature = "trace")]
use super::Observer;
use super::marks::MarksBefore;
use super::{Subject, TraceEvent};
use crate::connection::Connection;
use crate::time::Instant;

/// The observer of the present call, if there is one.
pub(crate) struct Tap<'a> {
    #[cfg(feature = "trace")]
    observer: Option<&'a mut (dyn Observer + 'a)>,
    #[cfg(not(feature = "trace"))]
    nothing: PhantomData<&'a mut ()>,
}

#[cfg(feature = "trace")]
impl<'a> Tap<'a> {
    /// No observer.
    pub(crate) const OFF: Self = Self { observer: None };

    #[inline(always)]
    pub(crate) const fn new(observer: Option<&'a mut (dyn Observer + 'a)>) -> Self {
        Self { observer }
    }

    /// For a step that is not inlined.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> Tap<'_> {
        Tap {
            observer: match &mut self.observer {
                Some(observer) => Some(&mut **observer),
                None => None,
            },
        }
    }

    /// Whether there is an observer.
    #[inline(always)]
    pub(crate) const fn is_on(&self) -> bool {
        self.observer.is_some()
    }

    /// Gives an event to the observer.
    #[cold]
    #[inline(never)]
    pub(crate) fn emit(&mut self, at: Instant, subject: Subject, event: TraceEvent) {
        if let Some(observer) = &mut self.observer {
            observer.observe(at, subject, &event);
        }
    }
}

#[cfg(not(feature = "trace"))]
#[expect(clippy::unused_self, reason = "the same calls as with the feature")]
impl Tap<'_> {
    /// No observer.
    pub(crate) const OFF: Self = Self {
        nothing: PhantomData,
    };

    #[inline(always)]
    pub(crate) const fn reborrow(&mut self) -> Tap<'_> {
        Tap {
            nothing: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) const fn is_on(&self) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) const fn emit(&mut self, _at: Instant, _subject: Subject, _event: TraceEvent) {}
}

impl Tap<'_> {
    /// Passes an event to the observer, if there is one. `event` is called only then.
    #[inline(always)]
    pub(crate) fn note(&mut self, at: Instant, event: impl FnOnce() -> (Subject, TraceEvent)) {
        if self.is_on() {
            let (subject, event) = event();
            self.emit(at, subject, event);
        }
    }

    /// Marks of a connection before a change, to be compared afterwards
    /// ([`DataPath::trace_conn_changes`](crate::data_path::DataPath::trace_conn_changes)).
    #[inline(always)]
    pub(crate) fn marks_before(&self, connection: &Connection) -> MarksBefore {
        match self.is_on() {
            true => MarksBefore::of(connection),
            false => MarksBefore::NOTHING,
        }
    }
}
