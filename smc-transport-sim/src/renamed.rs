//! Old names of public items, kept until 0.1.0. Each forwards to its successor.

use crate::fabric::{Fabric, HostEvent, HostId};
use crate::tcp::TcpNoticeKind;

/// Old name of [`HostEvent`].
#[deprecated(note = "renamed to `HostEvent`")]
pub type HostNews = HostEvent;

/// Old name of [`TcpNoticeKind`].
#[deprecated(note = "renamed to `TcpNoticeKind`")]
pub type TcpNews = TcpNoticeKind;

impl Fabric {
    /// Old name of [`Fabric::next_host_event`].
    #[deprecated(note = "renamed to `next_host_event`")]
    pub fn next_news(&mut self, host: HostId) -> Option<HostEvent> {
        self.next_host_event(host)
    }
}
