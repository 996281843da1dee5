//! What the peer answers by itself, where scripts do not speak of it.

use conformance::scripts::{Act, Kind, ParsedScript, Step, Transmission};

/// DELETE RKEY: the five lower bits of its type are the same in either version.
const DELETE_RKEY: u8 = 0x09;
const TYPE: u8 = 0x1f;
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

/// The answer to the withdrawal of an RMB, if it is one.
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
