//! Ours beside other locks on a database, on one real server, in turn: alone, against ShedLock's statements; one
//! waiter, against a lock that asks every 100 ms, as Spring's `JdbcLockRegistry` does; a thousand waiters, against the
//! same. And what other clients of PostgreSQL keep of their commits beside waiters that listen. Prints the medians and
//! their ratios, and fails if ours is over a budget.
//!
//! All run on one thread, so that statements are compared, and not how soon a busy machine wakes the threads of one
//! program.

mod alone;
mod beside;
mod peers;
mod server;
mod waiting;

use std::error::Error;
use std::process::ExitCode;

use crate::server::{Kind, Server};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<ExitCode> {
    let mut is_within = true;
    for kind in [Kind::Postgres, Kind::Mariadb] {
        let server = Server::start(kind).await?;
        is_within &= alone::measure(&server).await?;
        let one = waiting::one(&server).await?;
        is_within &= one.is_within;
        is_within &= waiting::thousand(&server, one.hand_off_s).await?;
        if kind == Kind::Postgres {
            is_within &= beside::measure(&server).await?;
        }
    }
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
