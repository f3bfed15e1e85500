//! Very many waiters for one lock: 10,000 of ten processes, in order, and what each of them costs; and what a join
//! costs behind 5,000 others. The plain run does a tenth.
//!
//! The allocator counts, so these tests have a separate binary, which is also the program of the ten processes.

mod join;
mod processes;
#[path = "../support/service.rs"]
mod service;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};
use lockkeeper_conformance::crowd;
use lockkeeper_faults::etcd;
use peak_alloc::PeakAlloc;

use crate::service::ETCD;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// One at a time, since each measures.
static TURN: Mutex<()> = Mutex::new(());

fn main() -> ExitCode {
    if let Some(asked) = crowd::asked() {
        return asked.take_part(ETCD.open, || ALLOCATOR.current_usage());
    }
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("waiters_of_ten_processes_are_granted_one_lock_in_the_order_of_the_queue", processes::in_order),
        trial("a_join_behind_thousands_costs_at_most_four_times_one_behind_none", join::behind_thousands),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: &'static str, test: fn() -> Result<(), Failed>) -> Trial {
    Trial::test(name, move || {
        if !etcd::availability().or_skip(name) {
            return Ok(());
        }
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        test()
    })
}
