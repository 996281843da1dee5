//! LLC answers that the scripted peer sends by itself, without a step of its script.
//!
//! A stack under test may withdraw RMBs (DELETE RKEY) at moments of its own. Scripts that test
//! something else do not name that, and the stack still needs its answer.

use conformance::scripts::{Act, Kind, ParsedScript, Step, Transmission};

/// DELETE RKEY, by the bits of [`TYPE`].
const DELETE_RKEY: u8 = 0x09;
/// Bits of an LLC message's type that are the same in either version.
const TYPE: u8 = 0x1f;
/// Flag of a reply, in the fourth byte.
const REPLY: u8 = 0x80;

/// Whether a script names withdrawals of RMBs by the engine. If it does not, a stack may do so
/// whenever it likes, and be answered ([`Live::with_auto_reply`](crate::Live::with_auto_reply)).
#[must_use]
pub fn names_withdrawals(script: &ParsedScript) -> bool {
    any(&script.steps)
}

fn any(steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.act {
        Act::Repeat(_, inner) => any(inner),
        Act::Engine(_, Transmission::Message(message)) => {
            matches!(message.kind, Kind::Llc(kind) if kind & TYPE == DELETE_RKEY)
        }
        _ => false,
    })
}

/// The reply to a message that withdraws an RMB; `None` for every other message, replies among them.
pub(crate) fn to_withdrawal(bytes: &[u8]) -> Option<Vec<u8>> {
    let [kind, _, _, flags, ..] = *bytes else {
        return None;
    };
    let is_llc = kind < 0x40;
    if !is_llc || kind & TYPE != DELETE_RKEY || flags & REPLY != 0 {
        return None;
    }
    let mut answer = bytes.to_vec();
    if let Some(flags) = answer.get_mut(3) {
        *flags |= REPLY;
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::to_withdrawal;

    #[test]
    fn withdrawals_of_either_version_are_answered_and_nothing_else() {
        for kind in [0x09, 0x29] {
            let answer = to_withdrawal(&[kind, 44, 0, 0, 1]);
            assert_eq!(answer, Some(vec![kind, 44, 0, 0x80, 1]));
            assert_eq!(to_withdrawal(&[kind, 44, 0, 0x80, 1]), None);
        }
        assert_eq!(to_withdrawal(&[0x06, 44, 0, 0]), None);
        assert_eq!(to_withdrawal(&[0xe9, 44, 0, 0]), None);
        assert_eq!(to_withdrawal(&[]), None);
    }
}
