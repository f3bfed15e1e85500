//! Asks a server what it says of itself, and measures how long it takes.

use std::time::Duration;

use lockkeeper_core::Finding;
use lockkeeper_session::{Clocks, Failure, median_round_trip};

use super::judge::{Seen, judge};
use super::report::Report;
use crate::look::Lookout;
use crate::site::Site;
use crate::statement::{Argument, Statement, word};

/// After what part of a request's time no further one is begun: the examination has to be answered within that time.
const MEASURING_DIVISOR: u32 = 4;

/// Examines a server in full. It changes nothing there.
pub(crate) async fn examine(site: &Site, lookout: &Lookout) -> Result<Vec<Finding>, Failure> {
    let Site { config, clock, .. } = site;
    if let Some(missing) = lookout.wire.missing() {
        return Ok(vec![Finding::note(missing.to_string())]);
    }
    let median = median_round_trip(&**clock, config.operation_timeout / MEASURING_DIVISOR, || async {
        // No queue is named so, and it is answered in each state of the data.
        let nothing = Statement::new("inspect", vec![Argument::Text(String::new()), Argument::Int(0)]);
        word(&lookout.wire.ask(nothing).await?).map(drop)
    });
    let median = median.await?;
    let before = clock.unix_time();
    let rows = lookout.wire.ask(Statement::new("examine", Vec::new())).await?;
    let after = clock.unix_time();
    let report = Report::of(&rows)?;
    let server = report.number("clock_us").map(Duration::from_micros);
    Ok(judge(&Seen {
        config,
        wake_method: lookout.wake_method,
        clocks: server.map(|server| Clocks { server, before, after }),
        median,
        report: &report,
    }))
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use std::sync::{Arc, Mutex};

    use lockkeeper_core::clock::{Clock as _, SystemClock, TestClock};
    use lockkeeper_core::{BoxFuture, Severity};
    use lockkeeper_session::Server;
    use tokio::sync::watch;

    use super::*;
    use crate::engine::{Greeting, WakeMethod, Wire};
    use crate::statement::{Row, What};
    use crate::url::Config;

    /// A server that takes its time for each answer, and whose clock is ahead.
    #[derive(Debug)]
    struct Slow {
        clock: Arc<TestClock>,
        takes: Duration,
        ahead: Duration,
        asked: Mutex<Vec<&'static str>>,
    }

    impl Wire for Slow {
        fn ask(&self, statement: Statement) -> BoxFuture<Result<Vec<Row>, Failure>> {
            self.asked.lock().unwrap().push(statement.function);
            let (clock, ahead) = (self.clock.clone(), self.ahead);
            let answered = clock.now().saturating_add(self.takes);
            Box::pin(async move {
                clock.sleep_until(answered).await;
                let shown_us = (clock.unix_time() + ahead).as_micros().to_string();
                let what = What::Fact as i16;
                Ok(vec![
                    Row { text: Some("ok".to_owned()), ..Row::default() },
                    Row { what, text: Some("clock_us".to_owned()), ask: Some(shown_us), ..Row::default() },
                ])
            })
        }

        fn end(&self) -> watch::Receiver<bool> {
            watch::channel(false).1
        }

        fn shut(&self) {}
    }

    /// Examines a server; returns the warnings, and how many requests it was asked.
    async fn examined(takes_ms: u64, ahead_ms: u64) -> (Vec<String>, usize) {
        let clock = Arc::new(TestClock::new());
        let url = "postgres://h1/db?session_timeout=12s".parse().unwrap();
        let config = Config::from_url(&url).unwrap();
        let (takes, ahead) = (Duration::from_millis(takes_ms), Duration::from_millis(ahead_ms));
        let wire = Arc::new(Slow { clock: clock.clone(), takes, ahead, asked: Mutex::default() });
        let greeting = Greeting { instance: String::new(), wake_method: WakeMethod::Notified };
        let lookout = Lookout::new(wire.clone(), Server::new("h1", 5432), greeting);
        let found =
            examine(&Site { clock, ..Site::new(config, Arc::new(SystemClock)).unwrap() }, &lookout).await.unwrap();
        let warnings = found.into_iter().filter(|finding| finding.severity == Severity::Warning);
        let asked = wire.asked.lock().unwrap();
        assert_eq!(asked.iter().filter(|function| **function == "examine").count(), 1);
        (warnings.map(|finding| finding.what).collect(), asked.len())
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_measured_by_our_clock_for_a_limited_time() {
        // A session of twelve seconds beats every two.
        assert_eq!(examined(100, 0).await, (vec![], 21));
        // Three seconds are for measuring.
        assert_eq!(examined(500, 0).await, (vec![], 7));
        let (warnings, _) = examined(501, 0).await;
        assert!(warnings.len() == 1 && warnings[0].contains("take longer than 501ms"), "{warnings:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_the_answer_itself_is_no_difference_of_the_clocks() {
        assert_eq!(examined(400, 1_000).await.0, Vec::<String>::new());
        let (warnings, _) = examined(400, 1_001).await;
        assert!(warnings.len() == 1 && warnings[0].contains("1.0 s ahead of"), "{warnings:?}");
    }
}
