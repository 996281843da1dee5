//! One contract, every backend: `device.rs` has its text.

mod events;
mod lab;
mod memory;
#[cfg(target_os = "linux")]
mod model;
mod random;
mod registration;
mod signals;

/// Makes every rule a test of one backend.
macro_rules! contract {
    ($($(#[$attribute:meta])* $backend:ident: $lab:ty;)*) => {$(
        $(#[$attribute])*
        mod $backend {
            contract!(@tests $lab;
                memory: moves_stay_inside_the_dmb, bug_dibs_lengths_are_added_in_64_bits,
                    cursors_keep_their_alignment, elements_have_a_bound,
                    octets_arrive_where_they_were_sent, a_dmb_is_zero_when_announced;
                registration: lengths_a_dmb_can_have, a_third_party_is_refused,
                    unknown_tokens_are_refused, lengths_are_as_the_peer_announces_or_less, tokens_work_only_once_reported,
                    nothing_works_on_what_is_gone, dmbs_run_out_and_come_back,
                    attaching_twice_is_two_attachments,
                    a_dmb_taken_back_is_reported_behind_what_was_done_before, vlans_are_joined_and_left;
                signals: a_signalled_peer_sees_what_was_moved, signals_are_reported_once_or_more,
                    no_signal_without_asking, elements_are_distinct,
                    bug_smcd_a_dmb_taken_away_is_silent, cve_2026_74513_moves_in_flight_harm_no_later_dmb,
                    many_dmbs_are_all_reported, a_head_is_new_only_once;
                events: events_arrive_in_order, a_flood_of_events_is_refused_not_lost,
                    cve_2026_74690_exit_is_reported_after_all_before_it, exit_with_moves_in_flight,
                    a_peer_that_does_not_exist_is_unreachable;
                random: any_order_of_calls_is_as_the_model;
            );
        }
    )*};
    (@tests $lab:ty; $($room:ident: $($rule:ident),*;)*) => {$($(
        #[test]
        fn $rule() {
            crate::$room::$rule::<$lab>();
        }
    )*)*};
}

contract! {
    in_process: crate::lab::InProcess;
    #[cfg(target_os = "linux")]
    shared: crate::lab::Shared;
    #[cfg(target_os = "linux")]
    pci: crate::model::Model;
}
