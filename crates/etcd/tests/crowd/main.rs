//! Very many waiters for one lock: 10,000 of ten processes, in order, and what each of them costs; and what a join
//! costs behind 5,000 others. The plain run does a tenth.
//!
//! The allocator counts, so these tests have a separate binary, which is also the program of the ten processes.

mod join;
mod processes;
#[path = "../support/service.rs"]
mod service;

use std::process::ExitCode;

use libtest_mimic::Failed;
use lockkeeper_faults::etcd;
use lockkeeper_trials::suite;
use peak_alloc::PeakAlloc;

use crate::service::ETCD;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

type Test = fn() -> Result<(), Failed>;

fn main() -> ExitCode {
    let trial = |name, test: Test| suite::measuring(name, etcd::availability, test);
    let trials = vec![
        trial("waiters_of_ten_processes_are_granted_one_lock_in_the_order_of_the_queue", processes::in_order),
        trial("after_an_outage_the_waiters_of_ten_processes_are_granted_the_lock_at_once", processes::outage),
        trial("a_join_behind_thousands_costs_at_most_four_times_one_behind_none", join::behind_thousands),
    ];
    suite::run_crowds(&ETCD, || ALLOCATOR.current_usage(), trials)
}
