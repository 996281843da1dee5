//! What a guest answers.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::orders::Answer;

/// The answers of a guest, each for its waiter.
#[derive(Debug)]
pub(crate) struct Answers {
    from: Receiver<Answer>,
    /// What came while something else was waited for.
    early: VecDeque<Answer>,
}

impl Answers {
    pub(crate) fn new(from: Receiver<Answer>) -> Self {
        Self {
            from,
            early: VecDeque::new(),
        }
    }

    /// The next one.
    pub(crate) fn next(&mut self, timeout: Duration) -> Result<Answer, RecvTimeoutError> {
        match self.early.pop_front() {
            Some(answer) => Ok(answer),
            None => self.from.recv_timeout(timeout),
        }
    }

    /// The next one that is not the end of a conversation: that may come at any time, and is
    /// kept for its waiter.
    pub(crate) fn adjusted(&mut self, timeout: Duration) -> Result<Answer, RecvTimeoutError> {
        loop {
            match self.from.recv_timeout(timeout)? {
                held @ Answer::Held(_) => self.early.push_back(held),
                answer => return Ok(answer),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::Answers;
    use crate::orders::Answer;

    #[test]
    fn a_conversation_that_ends_during_an_adjustment_is_reported_later() {
        let (sender, receiver) = mpsc::channel();
        let mut answers = Answers::new(receiver);
        sender.send(Answer::Held(Vec::new())).unwrap();
        sender.send(Answer::Adjusted(Ok(()))).unwrap();
        let soon = Duration::from_secs(5);
        assert!(matches!(
            answers.adjusted(soon),
            Ok(Answer::Adjusted(Ok(())))
        ));
        assert!(matches!(answers.next(soon), Ok(Answer::Held(_))));
        drop(sender);
        assert!(answers.next(soon).is_err());
    }
}
