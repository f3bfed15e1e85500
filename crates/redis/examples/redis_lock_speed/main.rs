//! Ours beside other locks on Redis, on one real server, in turn: alone, against `SET NX PX` and compare-and-delete by
//! the same crate and against the crate `rslock`; and in a crowd, against `SET NX PX` with retry. Prints the medians
//! and their ratios, and fails if ours is over a budget.
//!
//! All run on one thread, so that calls are compared, and not how soon a busy machine wakes the threads of one program.

mod alone;
mod crowd;
mod peers;

use std::error::Error;
use std::process::ExitCode;

use lockkeeper_faults::redis::{Flush, Server, Setup};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let server = Server::standalone().await?;
    let mut is_within = alone::measure(&server, "without persistence").await?;
    for hold in crowd::HOLDS {
        is_within &= crowd::measure(&server, hold).await?;
    }
    drop(server);
    // No budget: how often a disk is written to is not ours to decide.
    let server = Setup::new().append_only(Flush::EverySecond).on_disk().start().await?;
    alone::measure(&server, "AOF written every second (no budget)").await?;
    Ok(if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The ratios of the same turns.
fn ratio(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
