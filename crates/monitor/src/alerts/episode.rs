//! From what is wrong now and then to one alert: an episode is told when it has lasted, and is over when it has been
//! over for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper::clock::BootInstant;

use super::findings::{About, AlertFinding, HeldSince, Symptom, of_locks, of_service};
use super::findings::{Rule, Thresholds};
use crate::collect::{MonitorState, ServiceFreshness};
use crate::moment::TimePoint;

/// How many episodes are kept at a time: far more than an operator can look at, and some megabytes.
const EPISODES_MAX: usize = 10_000;

/// An alert that was told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Alert {
    /// What it is about.
    pub about: About,
    /// What was found last.
    pub finding: AlertFinding,
    /// When it was found first, in time since 1970-01-01 UTC.
    pub began_unix: Duration,
    /// When it was over, if it is.
    pub ended_unix: Option<Duration>,
    /// Which outage it is, if it is one that was counted: monitors that could not agree on its beginning agree on this.
    pub outage: Option<Outage>,
}

impl Alert {
    /// Describes one that is not over, and is none of the outages that are counted.
    pub const fn new(about: About, finding: AlertFinding, began_unix: Duration) -> Self {
        Self { about, finding, began_unix, ended_unix: None, outage: None }
    }
}

/// Which outage of the service: the monitors that send alerts number what they note there, and each counts the outages
/// that it has seen since the last note.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "it is two numbers")]
pub struct Outage {
    /// The number of the note.
    pub note: u64,
    /// Which outage since then, from 1.
    pub number: u64,
}

/// The news of an alert.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AlertNews {
    /// An alert has begun.
    Raised(Alert),
    /// An alert is over.
    Ended(Alert),
}

#[derive(Clone, Debug)]
struct Episode {
    phase: EpisodePhase,
    finding: AlertFinding,
    began_unix: Duration,
}

/// How far an episode is.
#[derive(Clone, Copy, Debug)]
enum EpisodePhase {
    /// It has been wrong since then, and is not told yet.
    Pending(BootInstant),
    /// It was told.
    Firing,
    /// It was told, and has not been wrong since then.
    Clearing(BootInstant, Duration),
}

/// The episodes, from one judgement to the next.
#[derive(Clone, Debug, Default)]
pub struct Alerts {
    episodes: BTreeMap<About, Episode>,
    raised: BTreeMap<Rule, u64>,
}

impl Alerts {
    /// Judges the present state and returns the news. Call it at each change, and each second.
    ///
    /// While the service cannot be asked, nothing of its locks begins or ends.
    pub fn judge(
        &mut self,
        state: &MonitorState,
        now: TimePoint,
        thresholds: impl Fn(&QueueName) -> Thresholds,
    ) -> Vec<AlertNews> {
        let mut news = Vec::new();
        let of_service = of_service(state).map(|symptom| (About::Unreachable, symptom));
        self.go_on(of_service.into_iter().collect(), |about| *about == About::Unreachable, now, &mut news);
        if matches!(state.freshness, ServiceFreshness::Fresh(_)) {
            let held_since = |about: &About| self.firing_since(about);
            let is_any_told = self.firing_about().any(|about| about.rule() == Rule::Held);
            let found = of_locks(state, now, thresholds, is_any_told.then_some(&held_since as HeldSince<'_>));
            self.go_on(found, |about| *about != About::Unreachable, now, &mut news);
        } else {
            self.hold_on();
        }
        news
    }

    /// Takes in what is wrong with those that are judged.
    fn go_on(
        &mut self,
        mut found: BTreeMap<About, Symptom>,
        is_judged: impl Fn(&About) -> bool,
        now: TimePoint,
        news: &mut Vec<AlertNews>,
    ) {
        for about in self.episodes.keys().filter(|about| is_judged(about)).cloned().collect::<Vec<_>>() {
            let symptom = found.remove(&about);
            self.step(about, symptom, now, news);
        }
        for (about, symptom) in found {
            if self.episodes.len() < EPISODES_MAX {
                self.step(about, Some(symptom), now, news);
            }
        }
    }

    fn step(&mut self, about: About, symptom: Option<Symptom>, now: TimePoint, news: &mut Vec<AlertNews>) {
        let rule = about.rule();
        let old = self.episodes.remove(&about);
        let (wrong, finding) = match symptom {
            Some(Symptom::Wrong(finding)) => (Some(true), Some(finding)),
            Some(Symptom::Middling(finding)) => (None, Some(finding)),
            None => (Some(false), None),
        };
        let began = EpisodePhase::Pending(now.boot);
        let (phase, began_unix, old_finding) = match old {
            Some(Episode { phase, finding, began_unix }) => (phase, began_unix, Some(finding)),
            None if wrong == Some(true) => (began, now.unix, None),
            None => return,
        };
        let Some(finding) = finding.or(old_finding) else { return };
        let lasted = |since: BootInstant| now.boot.saturating_duration_since(since);
        let phase = match (phase, wrong) {
            (EpisodePhase::Pending(since), Some(true)) if lasted(since) >= rule.raised_after() => {
                *self.raised.entry(rule).or_default() += 1;
                news.push(AlertNews::Raised(alert(&about, &finding, began_unix, None)));
                EpisodePhase::Firing
            }
            (EpisodePhase::Pending(since), Some(true)) => EpisodePhase::Pending(since),
            // It was not wrong for long enough.
            (EpisodePhase::Pending(_), _) => return,
            (EpisodePhase::Firing | EpisodePhase::Clearing(..), Some(true) | None) => EpisodePhase::Firing,
            (EpisodePhase::Firing, Some(false)) => EpisodePhase::Clearing(now.boot, now.unix),
            (clearing @ EpisodePhase::Clearing(..), Some(false)) => clearing,
        };
        if let EpisodePhase::Clearing(since, since_unix) = phase
            && lasted(since) >= rule.ended_after(&finding)
        {
            news.push(AlertNews::Ended(alert(&about, &finding, began_unix, Some(since_unix))));
            return;
        }
        self.episodes.insert(about, Episode { phase, finding, began_unix });
    }

    /// Forgets what was about to begin or to end with the locks: it may have been otherwise meanwhile.
    fn hold_on(&mut self) {
        self.episodes.retain(|about, episode| {
            let is_pending = matches!(episode.phase, EpisodePhase::Pending(_));
            if matches!(episode.phase, EpisodePhase::Clearing(..)) && *about != About::Unreachable {
                episode.phase = EpisodePhase::Firing;
            }
            *about == About::Unreachable || !is_pending
        });
    }

    /// Goes on with an alert that was raised before a restart, or by another monitor: it ends as its other alerts do.
    /// One that it raised goes on as it is.
    pub fn adopt(&mut self, alert: Alert) {
        let Alert { about, finding, began_unix, .. } = alert;
        let is_firing = self.firing_since(&about).is_some();
        if !is_firing && (self.episodes.len() < EPISODES_MAX || self.episodes.contains_key(&about)) {
            self.episodes.insert(about, Episode { phase: EpisodePhase::Firing, finding, began_unix });
        }
    }

    /// Returns when an alert has begun that was raised and is not over.
    fn firing_since(&self, about: &About) -> Option<Duration> {
        let episode = self.episodes.get(about)?;
        (!matches!(episode.phase, EpisodePhase::Pending(_))).then_some(episode.began_unix)
    }

    /// Returns the alerts that were raised and are not over.
    pub fn firing(&self) -> impl Iterator<Item = Alert> {
        let told = self.episodes.iter().filter(|(_, episode)| !matches!(episode.phase, EpisodePhase::Pending(_)));
        told.map(|(about, episode)| alert(about, &episode.finding, episode.began_unix, None))
    }

    /// Names what they are about.
    pub(super) fn firing_about(&self) -> impl Iterator<Item = &About> {
        let told = self.episodes.iter().filter(|(_, episode)| !matches!(episode.phase, EpisodePhase::Pending(_)));
        told.map(|(about, _)| about)
    }

    /// Returns how many alerts of a rule were raised so far.
    pub fn raised(&self, rule: Rule) -> u64 {
        self.raised.get(&rule).copied().unwrap_or(0)
    }
}

fn alert(about: &About, finding: &AlertFinding, began_unix: Duration, ended_unix: Option<Duration>) -> Alert {
    Alert { about: about.clone(), finding: finding.clone(), began_unix, ended_unix, outage: None }
}
