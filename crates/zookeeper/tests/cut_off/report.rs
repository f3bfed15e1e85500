//! All rounds, played at once on several networks, what they say together, and how it is printed.

use std::fmt;
use std::thread;
use std::time::Duration;

use lockkeeper_conformance::{SEED_VARIABLE, seed};
use lockkeeper_core::LossReason;
use lockkeeper_faults::figures;

use crate::ledger::{Rule, now};
use crate::plan::{self, NETWORKS, Victim};
use crate::round::{Outcome, Span, Stage, Whose};

const WHOSE: [Whose; 2] = [Whose::Library, Whose::Bare];

/// What all rounds together have shown.
#[derive(Debug)]
pub(crate) struct Report {
    outcomes: Vec<Outcome>,
    took: Duration,
}

/// Plays all rounds, and prints what they show.
pub(crate) fn play() -> Result<Report, String> {
    let seed = seed();
    println!("again: {SEED_VARIABLE}={seed} cargo test -p lockkeeper-zookeeper --test cut_off");
    let begun = now();
    let played: Vec<Result<Vec<Outcome>, String>> = thread::scope(|scope| {
        let networks: Vec<_> = (0..NETWORKS).map(|network| scope.spawn(move || play_network(seed, network))).collect();
        networks.into_iter().map(|network| network.join().unwrap_or_else(|panic| Err(said(&*panic)))).collect()
    });
    let outcomes = played.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let report = Report { outcomes, took: now().saturating_duration_since(begun) };
    figures::tell(&report.to_string());
    Ok(report)
}

/// Plays the rounds of one network, one after another.
fn play_network(seed: u64, network: usize) -> Result<Vec<Outcome>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let mut stage = Stage::start().await.map_err(|error| error.to_string())?;
        let mut outcomes = Vec::new();
        for round in plan::rounds(seed, network) {
            let outcome = stage.play(round).await.map_err(|error| error.to_string())?;
            println!("{outcome}");
            outcomes.push(outcome);
        }
        Ok(outcomes)
    })
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a network panicked").to_owned()
}

impl Report {
    /// The library's hold ended before the rival was granted the lock, each time.
    pub(crate) fn library_never_shared(&self) -> Result<(), String> {
        if self.outcomes.len() < plan::rounds_min() {
            return Err(format!("only {} rounds were played", self.outcomes.len()));
        }
        none_of(self.shown(|outcome| outcome.is_shared), "two held at once")?;
        // A holder that is cut off is told of nothing: after any other end there would have been no cut.
        none_of(self.shown(|outcome| outcome.ended_by != LossReason::Lapsed), "a hold ended by what it was told")
    }

    /// Every naive rule would have let two hold at once, in some round: the test can see it.
    pub(crate) fn naive_rules_shared(&self) -> Result<(), String> {
        let unseen = Rule::NAIVE.into_iter().filter(|rule| self.shared(Whose::Bare, *rule) == 0);
        none_of(unseen.map(|rule| format!("{rule:?}")).collect(), "no double hold was seen under a naive rule")
    }

    /// The anchor, on the same exchanges, would not.
    pub(crate) fn anchor_never_shared(&self) -> Result<(), String> {
        let is_shared = |outcome: &Outcome| WHOSE.iter().any(|whose| outcome.shares(*whose, Rule::Anchor));
        none_of(self.shown(is_shared), "the anchor outlasted a grant")
    }

    /// In how many rounds `rule` would have let two hold at once.
    fn shared(&self, whose: Whose, rule: Rule) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.shares(whose, rule)).count()
    }

    /// The rounds that are meant, as they are printed.
    fn shown(&self, is_meant: impl Fn(&Outcome) -> bool) -> Vec<String> {
        self.outcomes.iter().filter(|outcome| is_meant(outcome)).map(ToString::to_string).collect()
    }

    fn worst(&self, whose: Whose, rule: Rule) -> Span {
        self.outcomes.iter().filter_map(|outcome| outcome.overlap(whose, rule)).fold(f64::NEG_INFINITY, f64::max)
    }

    fn least_margin(&self, victim: Victim) -> Span {
        let played = self.outcomes.iter().filter(|outcome| outcome.round.victim == victim);
        played.map(|outcome| outcome.margin).fold(f64::INFINITY, f64::min)
    }
}

fn none_of(found: Vec<String>, what: &str) -> Result<(), String> {
    if found.is_empty() { Ok(()) } else { Err(format!("{what}:\n{}", found.join("\n"))) }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, shared) = (self.outcomes.len(), self.shown(|outcome| outcome.is_shared).len());
        writeln!(f, "cut off: {count} rounds in {:.0} s, {shared} of them with two holders", self.took.as_secs_f64())?;
        for victim in [Victim::Follower, Victim::Leader] {
            writeln!(f, "  {victim:?} cut off: least margin {:.2} s", self.least_margin(victim))?;
        }
        for rule in Rule::ALL {
            write!(f, "  {rule:?}:")?;
            for whose in WHOSE {
                let (shared, worst) = (self.shared(whose, rule), self.worst(whose, rule));
                write!(f, " {whose:?}: {shared} double holds, worst overlap {worst:+.2} s;")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, cut_after, ended_by, is_shared, margin, .. } = self;
        let verdict = if *is_shared { "TWO HELD" } else { "ok" };
        let [mine, bares] = cut_after.map(|after| after.as_millis());
        write!(
            f,
            "{round}: {verdict}, {ended_by:?} {margin:.2} s before the grant; cut {mine} / {bares} ms after a write;"
        )?;
        for whose in WHOSE {
            write!(f, " {whose:?}")?;
            for rule in Rule::ALL {
                match self.overlap(whose, rule) {
                    Some(overlap) => write!(f, " {rule:?} {overlap:+.2}")?,
                    None => write!(f, " {rule:?} none")?,
                }
            }
        }
        Ok(())
    }
}
