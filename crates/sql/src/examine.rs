//! Examination of a database: findings that its users should know. A server is asked what it says of itself, by the
//! function `examine`, and how long it takes is measured.
//!
//! `judge` has the rules, pure: what both kinds of database share, and what each has for itself.

mod judge;

use std::time::Duration;

use lockkeeper_core::{Finding, Severity};
use lockkeeper_session::{
    Clocks, FOR_TOKENS, Failure, FailureKind, Lookable as _, judge_round_trip, median_round_trip,
};

use crate::examine::judge::{Examined, ServerReport};
use crate::look::GreetedWire;
use crate::site::SqlSite;
use crate::statement::{Argument, Statement, word};
use crate::trial;

/// After what part of a request's time no further one is begun: the examination has to be answered within that time.
const MEASURING_DIVISOR: u32 = 4;

/// Examines a server in full. It changes nothing there.
pub(crate) async fn examine(site: &SqlSite, lookout: &GreetedWire) -> Result<Vec<Finding>, Failure> {
    let SqlSite { config, clock, .. } = site;
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
    let report = ServerReport::of(&rows)?;
    let trial_ends = clock.now().saturating_add(config.operation_timeout / MEASURING_DIVISOR);
    let tried = trial::pass(site, lookout.server(), trial_ends).await;
    let server = report.number("clock_us").map(Duration::from_micros);
    let mut findings = judge_all(&Examined {
        config,
        wake_method: lookout.wake_method,
        clocks: server.map(|server| Clocks { server, before, after }),
        median,
        report: &report,
    });
    findings.extend(judge_trial(config.is_unverified, tried)?);
    Ok(findings)
}

/// A server that is none of those that locks were tested on.
fn judge_trial(is_unverified: bool, tried: Result<(), Failure>) -> Result<Option<Finding>, Failure> {
    match tried {
        Ok(()) => {
            Ok(is_unverified
                .then(|| Finding::note("the server is used unverified, and has what locks need in a trial")))
        }
        Err(failure) if failure.kind == FailureKind::Unsupported => {
            let cure = "use a server that locks were tested on";
            Ok(Some(Finding::new(Severity::Error, failure.to_string(), cure)))
        }
        Err(failure) => Err(failure),
    }
}

fn judge_all(seen: &Examined<'_>) -> Vec<Finding> {
    let mut findings = match seen.config.dialect {
        #[cfg(feature = "postgres")]
        crate::url::Dialect::Postgres => judge::postgres::judge(seen),
        #[cfg(feature = "mysql")]
        crate::url::Dialect::Mysql => judge::mysql::judge(seen),
        #[cfg(not(all(feature = "postgres", feature = "mysql")))]
        _ => Vec::new(),
    };
    findings.extend(judge::judge_settled(seen.report));
    findings.extend(judge::judge_waking(seen.config, seen.wake_method));
    findings.extend(seen.clocks.and_then(|clocks| clocks.judge("the server", FOR_TOKENS)));
    findings.extend(judge_round_trip(seen.config.session_timeout(), seen.median, "a session beats"));
    findings
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use std::sync::{Arc, Mutex};

    use lockkeeper_core::clock::{Clock as _, SystemClock, TestClock};
    use lockkeeper_core::{BoxFuture, Severity};
    use lockkeeper_session::Server;
    use tokio::sync::watch;

    use super::*;
    use crate::engine::{ServerGreeting, WakeMethod, Wire};
    use crate::statement::{AnswerRow, RowKind};
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
        fn ask(&self, statement: Statement) -> BoxFuture<Result<Vec<AnswerRow>, Failure>> {
            self.asked.lock().unwrap().push(statement.function);
            let (clock, ahead) = (self.clock.clone(), self.ahead);
            let answered = clock.now().saturating_add(self.takes);
            Box::pin(async move {
                clock.sleep_until(answered).await;
                let shown_us = (clock.unix_time() + ahead).as_micros().to_string();
                let what = RowKind::Fact as i16;
                Ok(vec![
                    AnswerRow { text: Some("ok".to_owned()), ..AnswerRow::default() },
                    AnswerRow { what, text: Some("clock_us".to_owned()), ask: Some(shown_us), ..AnswerRow::default() },
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
        let greeting = ServerGreeting { instance: String::new(), wake_method: WakeMethod::Notified };
        let lookout = GreetedWire::new(wire.clone(), Server::new("h1", 5432), greeting);
        let found = examine(&SqlSite { clock, ..SqlSite::new(config, Arc::new(SystemClock)).unwrap() }, &lookout)
            .await
            .unwrap();
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
