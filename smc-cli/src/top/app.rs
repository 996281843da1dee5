//! What is shown, and what keys change of it.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::model::{Line, Model};
use crate::cli::SortKey;

/// Longest filter.
const FILTER: usize = 64;

/// What is to be done behind a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// The screen stays.
    On,
    /// The command ends.
    End,
}

/// The state of the screen.
#[derive(Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is switched by a key of its own"
)]
pub struct App {
    /// What there is.
    pub model: Model,
    /// What connections are sorted by.
    pub sort: SortKey,
    /// Whether the least comes first.
    pub reversed: bool,
    /// Text that lines contain.
    pub filter: String,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    /// Whether nothing new is read.
    pub paused: bool,
    /// Whether there may be colours.
    pub colours: bool,
    /// Lines that are scrolled away.
    pub offset: usize,
    /// Lines of connections on the screen.
    pub page: usize,
}

impl App {
    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Flow {
        if key.kind == KeyEventKind::Release {
            return Flow::On;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Flow::End;
        }
        if self.is_typing {
            self.type_filter(key.code);
            return Flow::On;
        }
        let page = self.page.max(1);
        match key.code {
            KeyCode::Char('q') => return Flow::End,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Down => self.offset = self.offset.saturating_add(1),
            KeyCode::Up => self.offset = self.offset.saturating_sub(1),
            KeyCode::PageDown => self.offset = self.offset.saturating_add(page),
            KeyCode::PageUp => self.offset = self.offset.saturating_sub(page),
            KeyCode::Home => self.offset = 0,
            KeyCode::End => self.offset = usize::MAX,
            _ => {}
        }
        Flow::On
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(of) if !of.is_control() && self.filter.len() < FILTER => {
                self.filter.push(of);
            }
            _ => {}
        }
    }

    /// The connections that the filter leaves, in their order.
    #[must_use]
    pub fn lines(&self) -> Vec<&Line> {
        let wanted = self.filter.to_lowercase();
        let is_wanted = |line: &&Line| {
            if wanted.is_empty() {
                return true;
            }
            let [local, peer] = &line.ends;
            let fields = [line.mode, local, peer, &line.state, &line.process];
            fields.join(" ").to_lowercase().contains(&wanted)
        };
        let mut lines: Vec<_> = self.model.lines.iter().filter(is_wanted).collect();
        lines.sort_by(|one, other| {
            let order = self.order(one, other);
            let order = if self.reversed {
                order.reverse()
            } else {
                order
            };
            order.then_with(|| one.key.cmp(&other.key))
        });
        lines
    }

    /// The greatest rate first, and the least process.
    fn order(&self, one: &Line, other: &Line) -> Ordering {
        let value = |line: &Line| match self.sort {
            SortKey::Rate | SortKey::Process => line.rates.both(),
            SortKey::Sent => line.rates.sent,
            SortKey::Received => line.rates.received,
            SortKey::Trips => line.rates.trips,
            SortKey::Stalls => line.rates.stalls,
        };
        let by_rate = value(other).total_cmp(&value(one));
        match self.sort {
            SortKey::Process => one.key.0.cmp(&other.key.0).then(by_rate),
            _ => by_rate,
        }
    }
}
