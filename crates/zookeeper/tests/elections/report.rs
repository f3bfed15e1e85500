//! All elections, played at once on one ensemble, what they say together, and how it is printed.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_faults::zookeeper::{Ensemble, Setup};
use lockkeeper_faults::{Error, figures, long};
use tokio::task::JoinSet;

use crate::account::Term;
use crate::campaigner::now;
use crate::contest::{Contest, Played};
use crate::plan::{self, CAMPAIGNERS, ELECTIONS_OF_EACH, Fault, HAND_OVER_MAX, TICK};

/// Seconds, negative where one led before the other had ended.
type Span = f64;

/// What all rounds together have shown.
#[derive(Debug)]
pub(crate) struct Report {
    played: Vec<Played>,
    /// Whether the ensemble's own leader was another one in the end: then nothing is promised of the time.
    has_moved: bool,
    took: Duration,
}

/// Plays all rounds, and prints what they show.
pub(crate) fn play() -> Result<Report, String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    let report = runtime.block_on(play_all()).map_err(|error| error.to_string())?;
    figures::tell(&report.to_string());
    Ok(report)
}

async fn play_all() -> Result<Report, Error> {
    let ensemble = Ensemble::start(CAMPAIGNERS, Setup::new().tick(TICK)).await?;
    let (leader, begun) = (ensemble.leader().await?, now());
    let mut contests = JoinSet::new();
    for fault in Fault::ALL {
        for number in 0..ELECTIONS_OF_EACH {
            let contest = Contest::start(fault, number, &ensemble).await?;
            contests.spawn(contest.play(plan::rounds_of_each_election()));
        }
    }
    let mut played = Vec::new();
    while let Some(contest) = contests.join_next().await {
        played.push(contest.map_err(|error| Error::new(error.to_string()))??);
    }
    played.sort_by_key(|played| played.fault);
    let has_moved = ensemble.leader().await? != leader;
    Ok(Report { played, has_moved, took: now().saturating_duration_since(begun) })
}

impl Report {
    /// Each leader's belief had ended before the next one's began.
    pub(crate) fn no_two_led(&self) -> Result<(), String> {
        none_of(self.meetings(Term::believed_until), "two led at once")
    }

    /// Every time another led within the promised time.
    pub(crate) fn another_led_in_time(&self) -> Result<(), String> {
        if self.has_moved {
            let what = "the ensemble elected another leader meanwhile: the times say nothing";
            // Beside other tests, that can happen.
            if long::is_asked_for() {
                return Err(what.to_owned());
            }
            println!("{what}");
            return Ok(());
        }
        let late =
            self.played.iter().flat_map(|played| played.late().map(|took| format!("{:?}: {took:?}", played.fault)));
        none_of(late.collect(), &format!("there was no leader within {HAND_OVER_MAX:?}"))
    }

    /// Each later leader had a greater token.
    pub(crate) fn tokens_grew(&self) -> Result<(), String> {
        let pairs = self.played.iter().flat_map(|played| played.account.terms.windows(2));
        let grew_not = pairs.filter(|pair| pair[0].token >= pair[1].token).map(|pair| format!("{pair:?}"));
        none_of(grew_not.collect(), "a token did not grow")
    }

    /// The judge sees two leaders where there are two: a process that stands still would believe itself until it is
    /// told.
    pub(crate) fn believers_would_be_seen(&self) -> Result<(), String> {
        let told_at = |term: &Term| term.ended_at.unwrap_or_else(|| term.believed_until());
        let stopped: usize = self.of(Fault::Stopped).map(|played| played.rounds.len()).sum();
        let seen = self.meetings(told_at).len();
        if seen < stopped { Err(format!("only {seen} of {stopped} were seen")) } else { Ok(()) }
    }

    /// The leaders whose belief outlasted the next one's beginning, as they are printed.
    fn meetings(&self, end: impl Fn(&Term) -> BootInstant) -> Vec<String> {
        let margins = self.played.iter().flat_map(|played| margins(played, &end).into_iter().map(move |m| (played, m)));
        margins.filter(|(_, margin)| *margin < 0.0).map(|(played, m)| format!("{:?}: {m:.3} s", played.fault)).collect()
    }

    fn of(&self, fault: Fault) -> impl Iterator<Item = &Played> {
        self.played.iter().filter(move |played| played.fault == fault)
    }
}

/// How long before each leader's beginning all earlier beliefs had ended.
fn margins(played: &Played, end: impl Fn(&Term) -> BootInstant) -> Vec<Span> {
    let mut terms: Vec<&Term> = played.account.terms.iter().collect();
    terms.sort_by_key(|term| term.began_at);
    let mut last_end = None;
    let mut found = Vec::new();
    for term in terms {
        if let Some(last_end) = last_end {
            found.push(span(last_end, term.began_at));
        }
        last_end = last_end.max(Some(end(term)));
    }
    found
}

/// The time from `from` to `to`, negative if `to` is earlier.
fn span(from: BootInstant, to: BootInstant) -> Span {
    (to.as_nanos() as f64 - from.as_nanos() as f64) / 1e9
}

fn none_of(found: Vec<String>, what: &str) -> Result<(), String> {
    if found.is_empty() { Ok(()) } else { Err(format!("{what}:\n{}", found.join("\n"))) }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "elections: {:.0} s, a leader in time is one within {HAND_OVER_MAX:?}", self.took.as_secs_f64())?;
        for fault in Fault::ALL {
            let hand_overs: Vec<Duration> = self.of(fault).flat_map(Played::hand_overs).collect();
            let late: usize = self.of(fault).map(|played| played.late().count()).sum();
            let margins: Vec<Span> = self.of(fault).flat_map(|played| margins(played, Term::believed_until)).collect();
            let terms: usize = self.of(fault).map(|played| played.account.terms.len()).sum();
            writeln!(
                f,
                "  {fault:?}: {} rounds, {terms} terms, another led after {:.2} s to {:.2} s ({late} late); \
                 least margin {:.3} s",
                hand_overs.len(),
                hand_overs.iter().min().copied().unwrap_or_default().as_secs_f64(),
                hand_overs.iter().max().copied().unwrap_or_default().as_secs_f64(),
                margins.iter().copied().fold(f64::INFINITY, f64::min),
            )?;
        }
        Ok(())
    }
}
