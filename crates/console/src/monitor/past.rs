//! The answers about one lock, now and in the past: `/api/locks/NAME`, its `/history`, and `/api/history` of all.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use lockkeeper::QueueName;
use lockkeeper_monitor::history::{PastContender, PastQuery, lines_of};
use serde::Deserialize;

use super::alerting::View;
use super::answers::{PlainQuery, ViewState, json, plain, shown, with_type};
use crate::output::{MonitoredQueue, PastAnswer, one_line};

/// How far an answer goes back, if its request does not say.
const SINCE: Duration = Duration::from_secs(3_600);

/// How many holds one answer has, if its request does not say.
const HOLDS: usize = 1_000;

/// How many it has at most: some megabytes.
const HOLDS_MAX: usize = 10_000;

/// How many of the longest are told, if a request does not say.
const LONGEST: usize = 10;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LockPastQuery {
    since: Option<String>,
    form: PastForm,
    /// How many of the newest holds.
    limit: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AllPastQuery {
    since: Option<String>,
    form: PastForm,
    /// A moment, as a date of RFC 3339.
    at: Option<String>,
    holder: Option<String>,
    longest: Option<usize>,
    /// As many of the longest waits.
    waits: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PastForm {
    #[default]
    Json,
    /// The lines of a history, for `lockkeeper verify`.
    Lines,
    Text,
}

/// The paths.
pub(super) fn routes(view: Arc<View>) -> Router {
    Router::new().route("/api/locks/{*name}", get(lock)).route("/api/history", get(of_all)).with_state(view)
}

/// The end of the path of a lock's history. A lock whose own name ends so is asked for by `%2Fhistory`.
const OF_PAST: &str = "/history";

async fn lock(
    State(view): ViewState,
    Path(name): Path<String>,
    uri: Uri,
    asked: Result<PlainQuery<LockPastQuery>, Response>,
) -> Response {
    let is_past = uri.path().ends_with(OF_PAST);
    let name = name.strip_suffix(OF_PAST).filter(|_| is_past).unwrap_or(&name);
    let name = match QueueName::new(name) {
        Ok(name) => name,
        Err(error) => return plain(StatusCode::BAD_REQUEST, one_line(&error.to_string()) + "\n"),
    };
    if is_past {
        return asked.map_or_else(|refusal| refusal, |PlainQuery(asked)| of_lock(&view, &name, &asked));
    }
    shown(&view, |service, state, now| {
        MonitoredQueue::new(service, state, now, name.as_str(), state.model.locks().get(&name))
    })
}

/// Answers with the past of a lock.
fn of_lock(view: &View, name: &QueueName, asked: &LockPastQuery) -> Response {
    let now = view.collector.now();
    let since_unix = match since(asked.since.as_deref(), now.unix) {
        Ok(since_unix) => since_unix,
        Err(refusal) => return plain(StatusCode::BAD_REQUEST, refusal),
    };
    // The checker is to judge all.
    let usual = if matches!(asked.form, PastForm::Lines) { HOLDS_MAX } else { HOLDS };
    let limit = asked.limit.unwrap_or(usual).min(HOLDS_MAX);
    view.collector.read(|state| {
        let mut past = state.model.past(name.as_str(), since_unix, now);
        let is_cut = past.contenders.len() > limit;
        past.contenders.truncate(limit);
        if let Some(oldest) = past.contenders.last().filter(|_| is_cut) {
            past.since_unix = past.since_unix.max(oldest.until_unix);
        }
        let answer = || PastAnswer::of_lock(view.collector.service(), state, now, name.as_str(), &past);
        in_form(asked.form, view, &past.contenders, answer)
    })
}

/// Answers a question about all locks.
async fn of_all(State(view): State<Arc<View>>, PlainQuery(asked): PlainQuery<AllPastQuery>) -> Response {
    let now = view.collector.now();
    let (since_unix, at_unix) = match (since(asked.since.as_deref(), now.unix), asked.at.as_deref().map(moment)) {
        (Ok(since_unix), None) => (since_unix, None),
        // What was held then may have ended at any time since.
        (Ok(_), Some(Ok(at_unix))) => (at_unix, Some(at_unix)),
        (Err(refusal), _) | (_, Some(Err(refusal))) => return plain(StatusCode::BAD_REQUEST, refusal),
    };
    let query = match (&asked, at_unix) {
        (AllPastQuery { holder: None, longest: None, waits: None, .. }, Some(at_unix)) => PastQuery::At(at_unix),
        (AllPastQuery { holder: Some(host), longest: None, waits: None, .. }, None) => PastQuery::Holder(host),
        (AllPastQuery { holder: None, waits: Some(count), longest: None, .. }, None) => PastQuery::Waits(*count),
        (AllPastQuery { holder: None, waits: None, longest, .. }, None) => {
            PastQuery::Longest(longest.unwrap_or(LONGEST))
        }
        _ => return plain(StatusCode::BAD_REQUEST, "ask by one of at, holder, longest and waits\n".to_owned()),
    };
    view.collector.read(|state| {
        let found = state.model.ask_past(query, since_unix, HOLDS_MAX, now);
        let gaps = || state.model.gaps_since(since_unix, now);
        let answer = || PastAnswer::new(view.collector.service(), state, now, &found, gaps().into_iter());
        in_form(asked.form, &view, &found, answer)
    })
}

fn in_form(
    form: PastForm,
    view: &View,
    contenders: &[PastContender<'_>],
    answer: impl FnOnce() -> PastAnswer,
) -> Response {
    match form {
        PastForm::Json => json(StatusCode::OK, &answer()),
        PastForm::Text => plain(StatusCode::OK, answer().text()),
        PastForm::Lines => {
            let lines = contenders.iter().rev().map(|past| lines_of(past, &view.machine));
            with_type(StatusCode::OK, "application/x-ndjson", lines.collect())
        }
    }
}

fn since(asked: Option<&str>, now_unix: Duration) -> Result<Duration, String> {
    let span = asked.map_or(Ok(SINCE), lockkeeper::parse_duration);
    span.map(|span| now_unix.saturating_sub(span)).map_err(|error| one_line(&format!("since: {error}")) + "\n")
}

fn moment(text: &str) -> Result<Duration, String> {
    let read = humantime::parse_rfc3339_weak(text).ok();
    read.and_then(|moment| moment.duration_since(std::time::UNIX_EPOCH).ok())
        .ok_or_else(|| one_line(&format!("at: `{text}` is no moment, such as 2026-11-29T03:12:00Z")) + "\n")
}
