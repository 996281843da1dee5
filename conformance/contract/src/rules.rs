//! The rules, by what they are about.

mod broken;
mod memory;
mod messages;

use crate::{Adapters, Rule};

/// All rules, by their names.
#[must_use]
pub fn rules<A: Adapters>() -> Vec<(&'static str, Rule<A>)> {
    macro_rules! named {
        ($($room:ident: $($rule:ident),*;)*) => {
            vec![$($((stringify!($rule), $room::$rule::<A> as Rule<A>),)*)*]
        };
    }
    named![
        memory: memory_is_zero_and_marked, elements_are_cleared_alone,
            a_damaged_eye_catcher_is_reported_and_nothing_read, keys_are_new_each_time,
            a_refused_registration_harms_nothing_else;
        messages: writes_are_there_when_the_send_behind_them_is, bursts_arrive_in_order,
            large_messages_arrive_whole, who_does_not_listen_loses_nothing,
            what_finds_no_receive_waits_or_breaks_the_link;
        broken: a_write_to_where_it_may_not_names_its_connection,
            a_message_longer_than_the_receive_breaks_the_link,
            what_is_posted_is_flushed, no_peer_answers,
            nothing_is_written_once_it_is_drained;
    ]
}
