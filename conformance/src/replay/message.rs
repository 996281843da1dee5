//! LLC messages of both versions in one form.

use core::fmt;

use smc_proto::wire::llc::v2::{AddLinkExtension, LLC_V2_MAX_LENGTH, LlcMessageV2};
use smc_proto::wire::llc::{LlcMessage, RTokenPair};
use smc_transport_sim::llc;

/// An LLC message, and what only version 2 has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Llc {
    /// What both versions have.
    pub(super) message: LlcMessage,
    /// Whether it has the form of version 2.
    pub(super) v2: bool,
    /// ADD LINK of version 2: its RTokens.
    pub(super) pairs: Option<Vec<RTokenPair>>,
    pub(super) direct: bool,
}

impl Llc {
    /// A message of version 1.
    pub(super) const fn v1(message: LlcMessage) -> Self {
        Self {
            message,
            v2: false,
            pairs: None,
            direct: false,
        }
    }

    /// A message of version 2.
    pub(super) fn v2(message: &LlcMessageV2<'_>) -> Result<Self, String> {
        let (mut pairs, mut direct) = (None, false);
        if let LlcMessageV2::AddLink(m) = message
            && let Some(extension) = &m.extension
        {
            pairs = Some(extension.rtokens.iter().collect());
            direct = extension.direct;
        }
        let message = llc::common(message).ok_or("REQUEST ADD LINK is not replayed")?;
        Ok(Self {
            message,
            v2: true,
            pairs,
            direct,
        })
    }

    /// Reads a message of ours.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.first().is_some_and(|kind| kind >> 5 == 1) {
            return Self::v2(&LlcMessageV2::parse(bytes).map_err(|e| e.to_string())?);
        }
        LlcMessage::parse(bytes)
            .map(Self::v1)
            .map_err(|e| e.to_string())
    }

    /// The bytes in the form that we send: the length is big-endian and the number of
    /// RTokens stands in both bytes, so that captured messages compare with ours.
    pub(super) fn emit(&self) -> Vec<u8> {
        if !self.v2 {
            return self.message.emit().to_vec();
        }
        let mut message = self
            .message
            .to_v2()
            .unwrap_or_else(|| unreachable!("{} is no message of version 2", self.message));
        if let LlcMessageV2::AddLink(add_link) = &mut message {
            add_link.extension = self.pairs.as_ref().map(|pairs| AddLinkExtension {
                direct: self.direct,
                target_gid: add_link.link.gid,
                rtokens: pairs.as_slice().into(),
            });
        }
        let mut bytes = vec![0; LLC_V2_MAX_LENGTH];
        let length = message.emit(&mut bytes).expect("the longest fits");
        bytes.truncate(length);
        bytes
    }
}

impl fmt::Display for Llc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)?;
        if let Some(pairs) = &self.pairs {
            f.write_str(" with")?;
            pairs.iter().try_for_each(|pair| write!(f, " {pair}"))?;
        }
        Ok(())
    }
}
