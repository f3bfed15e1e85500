//! The file backend among real processes: killed, stopped, of other users, at once.
//!
//! This program is also the helper of its tests. Started with a part to play (see `parts`), it plays that and reports
//! on its standard output; started without one, it runs the tests.

mod conduct;
mod more_parts;
mod parts;
#[path = "../support/mod.rs"]
mod support;
mod users;
mod watching;

use libtest_mimic::{Arguments, Trial};

fn main() {
    if let Some(part) = parts::from_environment() {
        parts::play(&part);
        return;
    }
    let arguments = Arguments::from_args();
    let trials: [(&str, fn()); 24] = [
        ("eight_processes_at_once_get_different_and_growing_numbers", conduct::numbers_differ_and_grow),
        ("a_killed_holder_wakes_the_next_within_100_ms", conduct::a_kill_wakes_the_next),
        ("a_release_wakes_the_next_within_10_ms", conduct::a_release_wakes_the_next),
        ("a_stopped_holder_keeps_its_lock", conduct::a_stopped_holder_keeps_its_lock),
        ("a_killed_waiter_in_the_middle_disturbs_no_other", conduct::a_killed_waiter_disturbs_no_other),
        ("no_update_is_lost_and_nothing_left_while_directories_come_and_go", conduct::reaping_loses_nothing),
        ("processes_killed_at_any_moment_break_no_exclusion_and_leave_nothing", conduct::killed_at_any_moment),
        ("a_hundred_waiters_cost_no_processor_time", conduct::waiters_cost_nothing),
        ("one_lock_in_a_thousand_is_flushed_to_disk", conduct::flushes_are_rare),
        ("a_kill_is_told_to_a_follower_within_a_second", watching::a_kill_is_told_to_a_follower),
        ("a_kill_of_one_of_many_permits_is_reported", watching::a_kill_of_one_of_many_is_told),
        ("a_holder_in_another_process_is_told_that_it_is_asked_and_then_broken", watching::asked_and_broken),
        ("what_was_watched_leaves_one_instance_and_no_watch", watching::no_watch_is_left),
        ("changes_requests_and_breaks_are_noticed_without_inotify_too", watching::noticed_without_inotify),
        ("a_frozen_place_outlives_its_killed_maker", watching::frozen_outlives_a_kill),
        ("a_value_is_on_the_disk_before_its_writer_is_told", watching::values_are_flushed),
        ("processes_killed_while_they_do_all_sorts_of_things_block_no_other", watching::killed_at_all_sorts),
        ("what_one_user_has_frozen_another_thaws_and_asks_and_breaks", users::others_ask_and_thaw),
        ("a_directory_that_one_may_only_read_shows_names_and_lets_no_user_block", users::readers_only_look),
        ("a_lock_that_one_may_not_look_into_is_followed_when_one_may", users::followed_when_one_may),
        ("a_directory_that_all_may_write_lets_two_users_exclude_one_another", users::writers_take_part),
        ("an_owner_outside_of_the_group_and_its_members_exclude_one_another", users::all_rights_count),
        ("what_root_has_locked_in_a_users_directory_is_open_to_that_user", users::root_shuts_no_user_out),
        ("a_directory_that_one_may_not_write_is_refused_by_name", users::refused_by_name),
    ];
    let trials = trials.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
