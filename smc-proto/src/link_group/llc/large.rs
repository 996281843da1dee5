//! Messages of more than 44 bytes: ADD LINK of version 2, which announces all RMBs.
//!
//! They are composed when the adapter fetches them. A Linux peer has one buffer for
//! what is longer than 44 bytes, whichever link it comes on, so that a group has at
//! most one of them in flight.

use heapless::Vec;

use crate::config::RMBS_PER_GROUP;
use crate::id::{BufferIdx, GroupIdx, LinkIdx};
use crate::link_group::Groups;
use crate::link_group::SendKind;
use crate::trace;
use crate::version::{SERVES_V2, SmcVersion};
use crate::wire::BufferTooSmall;
use crate::wire::llc::{AddLinkExtension, LlcMessage, RTokenPair};

/// RTokens of a group's RMBs.
type Pairs = Vec<RTokenPair, { RMBS_PER_GROUP as usize }>;

impl Groups<'_> {
    /// ADD LINK has to be sent on the link of an addition: the server's request or
    /// the client's reply.
    pub(super) fn send_large(&mut self, group: GroupIdx, reply: bool) {
        let via_link = self.addition(group).via_link;
        if let Some(l) = self.data.links.at_mut(via_link) {
            l.large = Some(reply);
        }
        self.data.schedule_link(via_link);
    }

    /// Whether a large message may leave now.
    //= V2-164
    pub(crate) fn may_send_large(&self, link: LinkIdx) -> bool {
        let Some(l) = self.link(link).filter(|l| SERVES_V2 && l.large.is_some()) else {
            return false;
        };
        let pending = |kind| matches!(kind, SendKind::Large { .. });
        self.select_links(l.group, |l| {
            l.is_usable() && l.in_flight.iter().any(pending)
        })
        .next()
        .is_none()
    }

    /// The next large message of a link: its length, and which one it is.
    pub(crate) fn next_large(&mut self, link: LinkIdx) -> Option<(u32, SendKind)> {
        if !self.may_send_large(link) {
            return None;
        }
        let l = self.data.links.at_mut(link)?;
        let reply = l.large.take()?;
        let length = self.with_large(link, reply, |message| message.encoded_len(SmcVersion::V2))?;
        self.announce_listed(link);
        if !reply {
            self.on_request_posted(link);
        }
        Some((
            u32::try_from(length).unwrap_or(0),
            SendKind::Large { reply },
        ))
    }

    /// Writes the large message that was fetched as `number`; nothing, if what it was
    /// about is over.
    pub(crate) fn emit_large(
        &mut self,
        link: LinkIdx,
        number: u32,
        buffer: &mut [u8],
    ) -> Result<usize, BufferTooSmall> {
        let kind = self.link(link).and_then(|l| l.in_flight.get(number));
        let Some(SendKind::Large { reply }) = kind.filter(|_| SERVES_V2) else {
            return Ok(0);
        };
        let written = self.with_large(link, reply, |message| message.emit(SmcVersion::V2, buffer));
        let written = written.unwrap_or(Ok(0));
        if let Ok(length @ 1..) = written {
            self.trace_link(link, || {
                trace::llc_sent(buffer.get(..length).unwrap_or_default())
            });
        }
        written
    }

    /// A large message left, or its link is lost: the next one may go.
    pub(crate) fn schedule_large(&mut self, group: GroupIdx) {
        for index in self.links_of(group) {
            if self.link(index).is_some_and(|l| l.large.is_some()) {
                self.data.schedule_link(index);
            }
        }
    }

    /// Composes the ADD LINK of the addition that a link carries.
    //= V2-154
    #[inline(never)]
    fn with_large<T>(
        &mut self,
        link: LinkIdx,
        reply: bool,
        act: impl FnOnce(&LlcMessage<'_>) -> T,
    ) -> Option<T> {
        let group = self.link(link)?.group;
        let addition = self.addition(group);
        if addition.via_link != link {
            return None;
        }
        let mut message = self.own_end(addition.link, reply)?;
        let direct = self.link(addition.link)?.direct;
        let mut pairs = Pairs::new();
        self.each_listed_rmb(link, |groups, index, via_link, new| {
            let Some(buffer) = groups.buffers.at(index) else {
                return;
            };
            if let (Some(reference), Some(new)) = (buffer.rtoken(via_link), buffer.rtoken(new)) {
                let reference = reference.rkey;
                // A group has no more RMBs than there is room for.
                let _ = pairs.push(RTokenPair { reference, new });
            }
        });
        message.extension = Some(AddLinkExtension {
            direct,
            target_gid: message.gid,
            rtokens: pairs.as_slice().into(),
        });
        Some(act(&LlcMessage::AddLink(message)))
    }

    /// The RMBs of a large message are known on the new link from now on.
    fn announce_listed(&mut self, link: LinkIdx) {
        self.each_listed_rmb(link, |groups, index, via_link, new| {
            if let Some(buffer) = groups.buffers.at_mut(index)
                && buffer.rtoken(via_link).is_some()
                && buffer.rtoken(new).is_some()
            {
                buffer.announced.insert(new);
            }
        });
    }

    /// Does something with every RMB that the peer knows, and the positions of the
    /// link of the exchange and of the new link.
    //= V2-185
    fn each_listed_rmb(
        &mut self,
        link: LinkIdx,
        mut act: impl FnMut(&mut Self, BufferIdx, u8, u8),
    ) {
        let Some(group) = self.link(link).map(|l| l.group) else {
            return;
        };
        let addition = self.addition(group);
        let position = |link| self.link(link).map(|l| l.position);
        let (Some(via_link), Some(new)) = (position(addition.via_link), position(addition.link))
        else {
            return;
        };
        self.each_buffer(group, |groups, index| {
            if index.is_some() && groups.is_announced_rmb(group, index, addition.via_link) {
                act(groups, index, via_link, new);
            }
        });
    }
}
