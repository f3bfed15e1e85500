//! The file backend among real processes: killed, stopped, of other users, at once.
//!
//! This program is its own helper: started with a part to play (see `parts`), it plays that and reports on its standard
//! output; started without one, it runs the tests.

mod conduct;
mod parts;
#[path = "../support/mod.rs"]
mod support;
mod users;

use libtest_mimic::{Arguments, Trial};

fn main() {
    if let Some(part) = parts::from_environment() {
        parts::play(&part);
        return;
    }
    let arguments = Arguments::from_args();
    let trials: [(&str, fn()); 14] = [
        ("eight_processes_at_once_get_different_and_growing_numbers", conduct::numbers_differ_and_grow),
        ("a_killed_holder_wakes_the_next_within_100_ms", conduct::a_kill_wakes_the_next),
        ("a_release_wakes_the_next_within_10_ms", conduct::a_release_wakes_the_next),
        ("a_stopped_holder_keeps_its_lock", conduct::a_stopped_holder_keeps_its_lock),
        ("a_killed_waiter_in_the_middle_disturbs_nobody", conduct::a_killed_waiter_disturbs_nobody),
        ("twenty_processes_are_served_in_the_order_they_joined", conduct::first_come_first_served),
        ("no_update_is_lost_and_nothing_left_while_directories_come_and_go", conduct::reaping_loses_nothing),
        ("processes_killed_at_any_moment_break_no_exclusion_and_leave_nothing", conduct::killed_at_any_moment),
        ("a_hundred_waiters_cost_no_processor_time", conduct::waiters_cost_nothing),
        ("one_lock_in_a_thousand_is_flushed_to_disk", conduct::flushes_are_rare),
        ("a_removal_is_noticed_without_inotify_too", conduct::a_removal_is_noticed_without_inotify),
        ("a_directory_that_one_may_only_read_shows_names_and_lets_nobody_block", users::readers_only_look),
        ("a_directory_that_all_may_write_lets_two_users_exclude_one_another", users::writers_take_part),
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
