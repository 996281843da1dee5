//! Independent questions, as many at a time as there are processors: a solver uses one.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::Problem;

/// Answers of `work` for each item, in the order of the items, or the problem of the first item
/// that has one.
pub(super) fn map<Item: Sync, Answer: Send>(
    items: &[Item],
    work: impl Fn(&Item) -> Result<Answer, Problem> + Sync,
) -> Result<Vec<Answer>, Problem> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    let answer = work(item);
                    if answer.is_err() {
                        // Nothing further is begun.
                        next.store(items.len(), Ordering::Relaxed);
                    }
                    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                    answers.push((at, answer));
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_in_order_and_a_problem_is_the_result() {
        let items: Vec<usize> = (0..100).collect();
        let doubled = map(&items, |item| Ok(2 * item)).unwrap();
        assert!(
            doubled
                .iter()
                .eq((0..100).map(|item| 2 * item).collect::<Vec<_>>().iter())
        );
        let problem = map(&items, |item| match item {
            7 => Err(Problem::new("seven")),
            _ => Ok(()),
        });
        assert_eq!(problem.unwrap_err().to_string(), "seven");
        assert!(map(&[], |(): &()| Ok(())).unwrap().is_empty());
    }
}
