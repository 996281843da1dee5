//! Buffers of a device without memory: whatever is asked of them is done at once.

use smc_proto::command::RdmaCommand;
use smc_proto::completion::RdmaCompletion;
use smc_proto::id::{BufferId, LinkId};
use smc_proto::wire::types::RToken;

/// The answer to a command about a buffer; none to commands about queue pairs. `key` gives
/// the rtoken of one that is registered.
#[must_use]
pub fn answer(
    command: &RdmaCommand,
    key: impl FnOnce(BufferId, LinkId) -> RToken,
) -> Option<RdmaCompletion<'static>> {
    Some(match *command {
        RdmaCommand::AllocBuffer { buffer, .. } => RdmaCompletion::BufferAllocated { buffer },
        RdmaCommand::RegisterBuffer { buffer, link } => RdmaCompletion::BufferRegistered {
            buffer,
            link,
            rtoken: key(buffer, link),
        },
        RdmaCommand::DeregisterBuffer { buffer, link } => {
            RdmaCompletion::BufferDeregistered { buffer, link }
        }
        RdmaCommand::FreeBuffer { buffer } => RdmaCompletion::BufferFreed { buffer },
        RdmaCommand::ClearElement { buffer, offset, .. } => {
            RdmaCompletion::ElementCleared { buffer, offset }
        }
        _ => return None,
    })
}
