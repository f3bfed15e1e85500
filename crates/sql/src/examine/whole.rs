//! Asks a server what it says of itself, and measures how long it takes.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Finding;
use lockkeeper_core::clock::Clock;

use super::judge::{Clocks, Seen, judge};
use super::report::Report;
use crate::failure::Failure;
use crate::look::Lookout;
use crate::statement::{Argument, Statement, word};
use crate::url::Config;

/// How many requests are measured.
const ROUND_TRIPS: usize = 20;

/// What an examination needs beside a connection.
#[derive(Clone)]
pub(crate) struct Examination {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Examines a server in full. It changes nothing there.
pub(crate) async fn examine(examination: Examination, lookout: Lookout) -> Result<Vec<Finding>, Failure> {
    let Examination { config, clock } = examination;
    let median = median_round_trip(&lookout, &*clock).await?;
    let before = clock.unix_time();
    let rows = lookout.wire().ask(Statement::new("examine", Vec::new())).await?;
    let after = clock.unix_time();
    let report = Report::of(&rows)?;
    let server = report.number("clock_us").map(Duration::from_micros);
    Ok(judge(&Seen {
        config: &config,
        waking: lookout.waking(),
        instance: lookout.instance(),
        clocks: server.map(|server| Clocks { server, before, after }),
        median,
        report: &report,
    }))
}

/// Measures requests that find nothing, such as a look is one.
async fn median_round_trip(lookout: &Lookout, clock: &dyn Clock) -> Result<Duration, Failure> {
    let mut took = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let start = clock.now();
        word(&lookout.wire().ask(Statement::new("missing", vec![Argument::Ids(Vec::new())])).await?)?;
        took.push(clock.now().saturating_duration_since(start));
    }
    took.sort_unstable();
    Ok(took[ROUND_TRIPS / 2])
}
