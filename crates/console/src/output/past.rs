//! The history of locks, in the shapes of a monitor's HTTP answers and as text.

use std::time::Duration;

use lockkeeper_monitor::history::{BlindGap, LengthStep, LockPast, PastContender, PastEnd, PastMark};
use lockkeeper_monitor::{CollectionMode, MonitorState, TimePoint};
use serde::Serialize;

use super::monitored::AnswerAge;
use super::text::{brief, one_line, table};
use super::who::{date, millis};

/// What was held, as `/api/history` and `/api/locks/NAME/history` show it.
#[derive(Debug, Serialize)]
pub(crate) struct PastAnswer {
    service: String,
    freshness: AnswerAge,
    /// Since when all that was seen is known; `null` if nothing was seen yet.
    known_since: Option<String>,
    /// Holds that are shorter may be missing, where the service is looked at again and again.
    may_miss_ms: Option<u64>,
    holds: Vec<PastRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<PastQueue>,
    /// When nothing was seen.
    gaps: Vec<GapRow>,
}

/// What is known of one lock besides its holds.
#[derive(Debug, Serialize)]
struct PastQueue {
    wait_p95_ms: Option<u64>,
    /// How many more came and went at most, of which nothing else is known: each held it for a moment, or gave up.
    /// `null` where that cannot be counted.
    missed: Option<u64>,
    queue: Vec<StepRow>,
    marks: Vec<MarkRow>,
}

#[derive(Debug, Serialize)]
struct PastRow {
    lock: String,
    host: String,
    program: String,
    pid: Option<u32>,
    mode: &'static str,
    token: Option<String>,
    from: String,
    /// When it was seen to hold last; `null` while it holds.
    until: Option<String>,
    held_ms: u64,
    /// How long before its beginning and after its end it may have held too.
    from_slack_ms: Option<u64>,
    until_slack_ms: u64,
    waited_ms: Option<u64>,
    ended: &'static str,
}

#[derive(Debug, Serialize)]
struct StepRow {
    at: String,
    longest: u32,
    last: u32,
}

#[derive(Debug, Serialize)]
struct MarkRow {
    at: String,
    host: String,
    what: String,
}

#[derive(Debug, Serialize)]
struct GapRow {
    from: String,
    until: String,
}

/// Names a contender of the past, and the rest that is known of it.
pub(crate) fn past_name(past: &PastContender<'_>) -> (String, String) {
    let pid = past.pid.map(|pid| format!("pid {pid} ")).unwrap_or_default();
    (past.host.to_owned(), format!("{pid}{}", past.program).trim_end().to_owned())
}

/// How short a hold may be missing: where the service is looked at again and again, as short as the time between.
pub(crate) const fn may_miss(state: &MonitorState) -> Option<Duration> {
    match state.way {
        CollectionMode::Looks(period) => Some(period),
        _ => None,
    }
}

/// Says how many contenders more came and went than are shown.
pub(crate) fn missed(count: u64) -> String {
    format!("at most {count} more came and went unseen: each held it for a moment, or gave up")
}

impl PastAnswer {
    /// Answers with the past of one lock.
    pub(crate) fn of_lock(
        service: String,
        state: &MonitorState,
        now: TimePoint,
        name: &str,
        past: &LockPast<'_>,
    ) -> Self {
        let wait_p95_ms = state.model.history().wait_p95(name, past.since_unix).map(millis);
        let queue = past.steps.iter().map(StepRow::new).collect();
        let marks = past.marks.iter().map(MarkRow::new).collect();
        let missed = Some(past.missed).filter(|_| state.is_followed() || may_miss(state).is_none());
        let answer = Self::new(service, state, now, &past.contenders, past.gaps.iter().copied());
        Self {
            lock: Some(PastQueue { wait_p95_ms, missed, queue, marks }),
            known_since: answer.known_since.map(|_| date(past.since_unix)),
            ..answer
        }
    }

    /// Answers with contenders of many locks.
    pub(crate) fn new(
        service: String,
        state: &MonitorState,
        now: TimePoint,
        contenders: &[PastContender<'_>],
        gaps: impl Iterator<Item = BlindGap>,
    ) -> Self {
        Self {
            service,
            freshness: AnswerAge::new(state, now),
            known_since: state.model.history().since_unix().map(date),
            may_miss_ms: may_miss(state).map(millis),
            holds: contenders.iter().map(PastRow::new).collect(),
            lock: None,
            gaps: gaps.map(GapRow::new).collect(),
        }
    }

    /// Returns it as text.
    pub(crate) fn text(&self) -> String {
        let mut rows =
            vec![["LOCK", "FROM (UTC)", "HELD", "WAITED", "TOKEN", "WHO", "ENDED"].map(str::to_owned).to_vec()];
        rows.extend(self.holds.iter().map(PastRow::cells));
        let mut text = table(&rows);
        if self.holds.is_empty() {
            text = "nothing was held\n".to_owned();
        }
        let since = self.known_since.as_deref().unwrap_or("now");
        text += &one_line(&format!("{}: known since {since}", self.service));
        if let Some(may_miss_ms) = self.may_miss_ms {
            text += &format!("; holds shorter than {may_miss_ms}ms may be missing");
        }
        match self.lock.as_ref().map(|lock| lock.missed) {
            Some(Some(count @ 1..)) => text += &format!("; {}", missed(count)),
            Some(None) => text += ", and are not counted",
            _ => {}
        }
        text.push('\n');
        for GapRow { from, until } in &self.gaps {
            text += &format!("nothing was seen from {from} to {until}\n");
        }
        text
    }
}

impl PastRow {
    fn new(past: &PastContender<'_>) -> Self {
        Self {
            lock: past.lock.to_owned(),
            host: past.host.to_owned(),
            program: past.program.to_owned(),
            pid: past.pid,
            mode: past.mode.as_str(),
            token: past.token.map(|token| token.to_string()),
            from: date(past.from_unix),
            until: (past.end != PastEnd::Holds).then(|| date(past.until_unix)),
            held_ms: millis(past.held()),
            from_slack_ms: past.from_slack.map(millis),
            until_slack_ms: millis(past.until_slack),
            waited_ms: past.waited.map(millis),
            ended: past.end.as_str(),
        }
    }

    fn cells(&self) -> Vec<String> {
        let span = |ms: u64| if ms < 1_000 { format!("{ms}ms") } else { brief(Duration::from_millis(ms)) };
        let pid = self.pid.map(|pid| format!(" pid {pid}")).unwrap_or_default();
        vec![
            self.lock.clone(),
            self.from.clone(),
            span(self.held_ms),
            self.waited_ms.map_or_else(|| "-".to_owned(), span),
            self.token.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{}{pid} {}", self.host, self.program),
            self.ended.to_owned(),
        ]
    }
}

impl StepRow {
    fn new(step: &LengthStep) -> Self {
        Self { at: date(step.at_unix), longest: step.longest, last: step.last }
    }
}

impl MarkRow {
    fn new(mark: &PastMark<'_>) -> Self {
        Self { at: date(mark.at_unix), host: mark.host.to_owned(), what: mark.what.to_owned() }
    }
}

impl GapRow {
    fn new(gap: BlindGap) -> Self {
        Self { from: date(gap.from_unix), until: date(gap.until_unix) }
    }
}
