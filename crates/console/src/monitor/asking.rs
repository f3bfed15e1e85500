//! Questions about the past to a monitor that runs elsewhere, as `lockkeeper history` asks them.

use std::time::Duration;

use lockkeeper::clock::{Clock as _, SystemClock};
use tokio::time::timeout;

use super::page::QueryValue;
use super::receiver::Poster;
use crate::args::HistoryArgs;
use crate::config::{Webhook, WebhookFormat};
use crate::exit::CommandFailure;
use crate::output::one_line;

/// How long a monitor may take to answer.
const TIME_MAX: Duration = Duration::from_secs(30);

/// How long its answer may be: the lines of all holds that it can remember of one lock.
const ANSWER_BYTES_MAX: usize = 256 << 20;

const DAY_SECONDS: u64 = 86_400;

/// What the answer is to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "text is for people, lines are for programs")]
pub enum HistoryForm {
    /// A table.
    Text,
    /// The lines of a history, as `lockkeeper verify` reads them.
    Lines,
}

/// Asks a monitor, and returns its answer, without what a terminal obeys.
pub async fn ask_history(args: &HistoryArgs, form: HistoryForm) -> Result<String, CommandFailure> {
    let failed = |what: String| CommandFailure::ours(one_line(&format!("history: {what}")));
    let path = path(args, form, SystemClock.unix_time()).map_err(failed)?;
    let target = Webhook::parse(&args.monitor, WebhookFormat::Plain, None);
    let target = target.map_err(|what| failed(what.replacen("monitor.webhook", "--monitor", 1)))?;
    let asked = Poster::new(target)?;
    let answered = timeout(TIME_MAX, asked.get(&path, ANSWER_BYTES_MAX)).await;
    let unanswered = |what: String| {
        failed(format!("the monitor at {} does not answer: {what}; `lockkeeper monitor` starts one", args.monitor))
    };
    let (status, body) = answered.map_err(|_| unanswered(format!("within {TIME_MAX:?}")))?.map_err(unanswered)?;
    let text = String::from_utf8_lossy(&body);
    match status {
        200 => Ok(text.lines().map(|line| one_line(line) + "\n").collect()),
        _ => Err(failed(format!("the monitor at {} answers {status}: {}", args.monitor, text.trim_end()))),
    }
}

/// Returns the path that asks for it.
fn path(args: &HistoryArgs, form: HistoryForm, now_unix: Duration) -> Result<String, String> {
    let form = match form {
        HistoryForm::Text => "text",
        HistoryForm::Lines => "lines",
    };
    let since = format!("form={form}&since={}ms", args.since.as_millis());
    if let Some(name) = &args.name {
        return Ok(format!("/api/locks/{}/history?{since}", QueryValue(name)));
    }
    let asked = match (&args.at, &args.holder, args.longest, args.waits) {
        (Some(at), ..) => format!("at={}", QueryValue(&moment(at, now_unix)?)),
        (_, Some(holder), ..) => format!("holder={}", QueryValue(holder)),
        (.., Some(waits)) => format!("waits={waits}"),
        (_, _, longest, _) => format!("longest={}", longest.unwrap_or(10)),
    };
    Ok(format!("/api/history?{since}&{asked}"))
}

/// Returns a moment as a date: a time of the day is the last one that has passed.
fn moment(text: &str, now_unix: Duration) -> Result<String, String> {
    let Some(second) = second_of_day(text) else { return Ok(text.to_owned()) };
    let today = now_unix.as_secs() / DAY_SECONDS * DAY_SECONDS;
    let then =
        if today + second <= now_unix.as_secs() { today + second } else { today.saturating_sub(DAY_SECONDS) + second };
    Ok(crate::output::date(Duration::from_secs(then)))
}

/// Reads `03:12` or `03:12:45`; `None` if it is no such time.
fn second_of_day(text: &str) -> Option<u64> {
    let parts: Vec<u64> =
        text.split(':').map(|part| part.parse().ok().filter(|_| part.len() == 2)).collect::<Option<_>>()?;
    let [hour, minute, second] = match parts[..] {
        [hour, minute] => [hour, minute, 0],
        [hour, minute, second] => [hour, minute, second],
        _ => return None,
    };
    (hour < 24 && minute < 60 && second < 60).then(|| hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_day_is_the_last_one_that_has_passed() {
        // 2026-11-29T10:00:00Z
        let now = Duration::from_secs(1_795_946_400);
        for (text, date) in [
            ("03:12", "2026-11-29T03:12:00.000Z"),
            ("10:00:00", "2026-11-29T10:00:00.000Z"),
            ("10:00:01", "2026-11-28T10:00:01.000Z"),
            ("2026-11-27T03:12:00Z", "2026-11-27T03:12:00Z"),
            ("3:12", "3:12"),
            ("24:00", "24:00"),
        ] {
            assert_eq!(moment(text, now).as_deref(), Ok(date), "{text}");
        }
    }
}
