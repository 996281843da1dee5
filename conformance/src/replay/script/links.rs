//! The links of a capture, by the queue pairs that CONFIRM LINK names.

use std::collections::BTreeMap;

use smc_capture::follow::{Content, Item, Path, RocePath};
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{Gid, LinkNumber, Qpn};

/// A queue pair: number and GID together, because two RNICs may give the same
/// numbers (soft-RoCE does).
type QpName = (Gid, Qpn);

/// Which link each queue pair belongs to.
#[derive(Clone, Debug, Default)]
pub(in crate::replay) struct Links {
    numbers: BTreeMap<QpName, LinkNumber>,
}

impl Links {
    /// Both sides of a CONFIRM LINK name their queue pair and the link.
    pub(super) fn of(items: &[Item]) -> Result<Self, String> {
        let mut links = Self::default();
        for item in items {
            let m = match &item.content {
                Content::Llc(message) => match message.message() {
                    LlcMessage::ConfirmLink(m) => m,
                    _ => continue,
                },
                _ => continue,
            };
            let before = links.numbers.insert((m.gid, m.qpn), m.link);
            if before.is_some_and(|number| number != m.link) {
                return Err(format!(
                    "frame {}: the queue pair has two links",
                    item.frame
                ));
            }
        }
        Ok(links)
    }

    /// The link of a queue pair of either end.
    pub(in crate::replay) fn number(&self, name: QpName) -> Option<LinkNumber> {
        self.numbers.get(&name).copied()
    }

    /// The link that carried a packet.
    pub(super) fn carrier(&self, path: &RocePath) -> Result<LinkNumber, String> {
        let to = self.number((path.destination, path.destination_qpn));
        let from = path
            .source_qpn
            .map_or(to, |qpn| self.number((path.source, qpn)));
        to.filter(|_| to == from)
            .ok_or_else(|| format!("no link is {}", Path::Roce(path.clone())))
    }
}
