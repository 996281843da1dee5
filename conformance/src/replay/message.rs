//! LLC messages of both versions in one form.

use core::fmt;

use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{
    AddLinkExtension, LLC_V2_MAX_LENGTH, LlcMessage, RTokenPair, version_of,
};

/// An LLC message, and what only version 2 has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Llc {
    /// What both versions have.
    pub(super) message: LlcMessage<'static>,
    /// The version whose form it has.
    pub(super) version: SmcVersion,
    /// ADD LINK of version 2: its RTokens.
    pub(super) pairs: Option<Vec<RTokenPair>>,
    pub(super) direct: bool,
}

impl Llc {
    /// A message in the form of `version`.
    pub(super) fn of(message: &LlcMessage<'_>, version: SmcVersion) -> Result<Self, String> {
        let (mut message, mut pairs, mut direct) = (message.clone(), None, false);
        if let LlcMessage::AddLink(m) = &mut message
            && let Some(extension) = m.extension.take()
        {
            pairs = Some(extension.rtokens.iter().collect());
            direct = extension.direct;
        }
        if let LlcMessage::RequestAddLink(_) = message {
            return Err("REQUEST ADD LINK is not replayed".into());
        }
        Ok(Self {
            message: message.to_static().ok_or("too many keys")?,
            version,
            pairs,
            direct,
        })
    }

    /// Reads a message of ours.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let version = version_of(bytes);
        let message = LlcMessage::parse(bytes, version).map_err(|e| e.to_string())?;
        Self::of(&message, version)
    }

    /// The bytes in the form that we send: the length is big-endian and the number of
    /// RTokens is in both bytes, so that captured messages compare with ours.
    pub(super) fn emit(&self) -> Vec<u8> {
        let mut message = self.message.clone();
        if let LlcMessage::AddLink(add_link) = &mut message {
            add_link.extension = self.pairs.as_ref().map(|pairs| AddLinkExtension {
                direct: self.direct,
                target_gid: add_link.gid,
                rtokens: pairs.as_slice().into(),
            });
        }
        let mut bytes = vec![0; LLC_V2_MAX_LENGTH];
        let length = message.emit(self.version, &mut bytes);
        bytes.truncate(length.expect("the longest fits"));
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
