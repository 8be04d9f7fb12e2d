//! All checks, by area. One file an area.

mod batch;
mod cancel;
mod change;
mod dead_letters;
mod fencing;
mod lease;
mod limits;
mod list;
mod number;
mod order;
mod pause;
mod policy;
mod purge;
mod push;
mod put;
mod retry;
mod settle;
mod status;
mod time;
mod timeline;
mod topics;
mod ttl;
mod waiting;

use super::Check;

macro_rules! checks {
    ($($area:ident: $($name:ident)*;)*) => {
        /// Every check.
        pub(super) const ALL: &[Check] = &[$($(
            Check {
                name: concat!(stringify!($area), "::", stringify!($name)),
                run: |bench| Box::pin($area::$name(bench)),
            },
        )*)*];
    };
}

checks! {
    put: creates_what_was_sent rejects_a_live_id replaces_everything keeps_the_old_one
        refuses_to_replace_a_held_job_unless_forced replacing_a_buried_job_starts_afresh honours_if_match
        accepts_the_past refuses_more_than_ten_years spreads_by_jitter names_jobs_by_number_on_request
        same_id_in_two_topics_are_two_jobs an_id_can_be_used_again;
    batch: answers_item_by_item items_see_each_other a_bad_item_spoils_no_other settles_item_by_item
        cancels_item_by_item empty_batches_are_fine;
    time: is_never_early is_due_at_its_instant never_goes_back has_passed_for_verbs_on_a_job
        has_passed_for_verbs_on_a_topic has_passed_for_what_a_put_meets;
    lease: hands_out_once counts_attempts_and_leases honours_ttr says_who_holds auto_ack_leaves_nothing
        gives_no_more_than_asked stays_under_the_byte_limit of_an_unknown_topic_is_empty takes_from_several_topics;
    order: by_priority_then_due_then_put over_topics_the_best_head_wins release_keeps_the_place
        a_changed_priority_counts a_moved_job_takes_its_new_place;
    settle: ack_removes nack_waits_as_the_ladder_says nack_with_a_delay release_uncounts release_with_delay_and_priority
        bury_with_reason_and_priority bury_needs_no_reason extend_moves_the_end extend_asks_for_the_leases_own_ttr
        every_verb_in_every_state;
    fencing: a_stale_token_changes_nothing a_lease_that_ran_out_is_lost a_settled_lease_is_lost
        tokens_of_other_jobs_do_not_fit a_forced_change_revokes_the_lease versions_only_grow;
    retry: a_lease_that_runs_out_counts_as_a_failure the_ladder_ends_in_a_burial
        attempts_survive_until_they_are_exhausted the_default_backs_off_exponentially the_default_spreads_a_herd
        one_attempt_buries_at_once an_error_is_known_until_the_next_one;
    change: moves_earlier_and_later fires_now changes_every_field clears_fields refuses_a_held_job_unless_forced
        revives_a_buried_job honours_if_match unknown_jobs_are_not_found;
    cancel: removes_in_every_waiting_state refuses_a_held_job_unless_forced honours_if_match
        what_was_cancelled_never_comes unknown_jobs_are_not_found;
    ttl: buries_what_waits_too_long spares_what_is_held counts_anew_when_moved retries_do_not_extend_it
        a_release_does_not_extend_it counts_from_creation_at_the_earliest dead_letters_can_be_dropped;
    policy: applies_to_waiting_jobs a_jobs_own_fields_win the_servers_defaults_come_last remembers_acked_ids
        remembers_ids_acked_as_they_were_handed_out what_has_happened_stays_so;
    limits: in_flight_is_bounded in_flight_is_by_topic_pull_and_push_together in_flight_frees_waiting_consumers
        the_rate_is_bounded a_burst_is_one_seconds_worth topics_are_bounded;
    number: finds_by_number leases_by_number_whatever_the_state leases_by_number_whatever_the_topic_says
        a_lease_by_number_does_not_wait changes_and_cancels_by_number numbers_are_never_reused;
    dead_letters: redrive_gives_fresh_attempts redrive_by_due_time redrive_filters redrive_spreads
        kick_takes_buried_before_delayed kick_by_number a_kicked_retry_is_still_that_retry;
    pause: stops_hand_outs_and_nothing_else ends_by_itself keeps_consumers_waiting;
    purge: removes_one_state purging_leased_jobs_loses_their_leases a_deleted_topic_is_gone
        a_deleted_topic_forgets_acked_ids;
    topics: appear_with_their_first_job_policy_or_pause count_by_state count_ready_jobs_that_are_urgent total_what_happened
        total_burials_redrives_and_purges are_paged_by_name a_page_shows_what_a_look_at_each_shows;
    list: in_due_order_by_section filters_by_state pages_show_each_job_once pages_are_bounded_in_bytes
        finds_the_next_of_each_state each_state_has_its_own_next;
    timeline: counts_waiting_jobs_by_minute of_all_topics;
    waiting: ends_empty_after_its_time a_put_wakes_one due_time_wakes_one first_come_first_served
        a_dropped_consumer_loses_nothing does_not_wait_to_fill_up a_move_wakes_one a_nack_wakes_one
        a_lease_that_runs_out_wakes_one waits_for_a_topic_never_seen many_consumers_get_each_job_once
        serves_whoever_the_job_is_for a_wake_up_does_not_wait_for_the_sweep;
    push: a_consumer_in_front_is_not_in_a_couriers_way pull_consumers_never_see_pushed_jobs a_topic_can_push_all_its_jobs couriers_skip_blocked_lines
        no_line_takes_more_than_its_share couriers_keep_to_a_topics_bounds
        a_blocked_topic_still_pushes_to_its_jobs_own_targets shares_are_by_topic_and_line
        a_courier_is_woken_by_the_due_time a_courier_is_woken_by_a_topic_that_begins_to_push
        a_waiting_courier_is_not_given_what_it_blocks several_couriers_get_each_job_once a_dropped_courier_loses_nothing
        a_line_is_in_order what_fails_or_comes_back_stays_on_its_line the_last_deliveries_are_kept_and_no_more
        a_push_is_signed_with_what_its_topic_has_now
        a_changed_target_changes_who_gets_the_job deliveries_are_kept_beside_the_job;
    status: tells_the_time closing_answers_those_who_wait;
}
