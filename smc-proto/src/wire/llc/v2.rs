//! Old home of what version 2 has, which is in [`llc`](super) itself.

pub use super::{AddLinkExtension, Entries, EntriesIter, LLC_V2_MAX_LENGTH, RequestAddLink};

/// Old name of [`LlcMessage`](super::LlcMessage), whose codec takes the version.
pub type LlcMessageV2<'a> = super::LlcMessage<'a>;
