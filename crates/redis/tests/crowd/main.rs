//! Very many waiters for one lock: 10,000 of ten processes, in order, and what each of them costs; what a join and a
//! leave cost the server behind 10,000 others; how long the server is busy with the end of 10,000; and which
//! ones a departure wakes. The plain run does a tenth.
//!
//! The allocator counts, so these tests have a separate binary, which is also the program of the ten processes.

mod burial;
mod cost;
mod herd;
mod processes;
#[path = "../support/service.rs"]
mod service;
mod stage;

use std::process::ExitCode;

use libtest_mimic::Failed;
use lockkeeper_faults::redis;
use lockkeeper_trials::suite;
use peak_alloc::PeakAlloc;

use crate::service::REDIS;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

type Test = fn() -> Result<(), Failed>;

fn main() -> ExitCode {
    let trial = |name, test: Test| suite::measuring(name, redis::availability, test);
    let trials = vec![
        trial("waiters_of_ten_processes_are_granted_one_lock_in_the_order_of_the_queue", processes::in_order),
        trial("after_an_outage_the_waiters_of_ten_processes_are_granted_the_lock_at_once", processes::outage),
        trial(
            "a_join_and_a_leave_behind_thousands_cost_the_server_little_more_than_behind_none",
            cost::behind_thousands,
        ),
        trial("no_call_takes_long_while_thousands_of_the_dead_are_removed", burial::in_pieces),
        trial("a_removal_in_one_piece_is_seen", burial::in_one_piece),
        trial("one_departure_among_200_waiters_wakes_one", herd::one_of_many),
    ];
    suite::run_crowds(&REDIS, || ALLOCATOR.current_usage(), trials)
}
