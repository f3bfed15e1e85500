//! The past of a lock on its page: the timeline, what it says as a table, and what else has happened.

use std::fmt::Write as _;
use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper_monitor::history::{LockPast, PastContender, PastEnd, PastMark};
use lockkeeper_monitor::{MonitorState, SeenEvent, TimePoint};
use serde::Deserialize;

use super::frame::{Escaped, QueryValue, thousands};
use super::row::named;
use super::timeline::{COLOURS, HoldBar, TimeWindow, Timeline, held};
use crate::output::marks::hour;
use crate::output::{brief, date, may_miss, missed, past_name};

/// How many events are shown, the newest ones.
const EVENTS_SHOWN_MAX: usize = 100;

/// How many rows the table of holds has, the newest ones: as many as there are bars, and waits in vain.
const ROWS_MAX: usize = 250;

/// How far back a page looks.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum HistorySpan {
    #[serde(rename = "15m")]
    Quarter,
    #[default]
    #[serde(rename = "1h")]
    Hour,
    #[serde(rename = "6h")]
    SixHours,
    #[serde(rename = "24h")]
    Day,
}

impl HistorySpan {
    const ALL: [Self; 4] = [Self::Quarter, Self::Hour, Self::SixHours, Self::Day];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Quarter => "15m",
            Self::Hour => "1h",
            Self::SixHours => "6h",
            Self::Day => "24h",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Quarter => "15 minutes",
            Self::Hour => "hour",
            Self::SixHours => "6 hours",
            Self::Day => "24 hours",
        }
    }

    const fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::Quarter => 900,
            Self::Hour => 3_600,
            Self::SixHours => 21_600,
            Self::Day => 86_400,
        })
    }
}

/// Returns the part of a lock's page that shows what was.
pub(super) fn past(state: &MonitorState, name: &QueueName, span: HistorySpan, now: TimePoint) -> String {
    let window = TimeWindow { from: now.unix.saturating_sub(span.duration()), until: now.unix };
    let past = state.model.past(name.as_str(), window.from, now);
    let timeline = Timeline::new(&past, window);
    let p95 = state.model.history().wait_p95(name.as_str(), window.from);
    let words = words(&past, &timeline, span);
    let mut text = format!("<div id=\"past\"><section><h2>The last {}</h2>{}", span.words(), ways(name, span));
    let _ = write!(
        text,
        "<div class=\"card drawing\"><p class=\"key\">Waiting at most: {}. \
         95 % of the last waits were no longer than {}.</p>{}{}\
         <p id=\"whose\" class=\"whose\" role=\"status\">Point or tab to a bar to see whose it is.</p>\
         {}</div><p class=\"key\">{}</p>{}</section>",
        thousands(timeline.longest_queue() as usize),
        p95.map_or_else(|| "–".to_owned(), held),
        timeline.svg(&words),
        axis(window),
        legend(&timeline),
        known(state, name, &past),
        table(&past, &timeline),
    );
    text + &events(state, name) + "</div>"
}

/// Says what the drawing shows.
fn words(past: &LockPast<'_>, timeline: &Timeline<'_>, span: HistorySpan) -> String {
    let holds = past.contenders.iter().filter(|one| one.end != PastEnd::GaveUp).count();
    format!(
        "In the last {} it was held {} times by {} hosts, and {} waited for it at most. The table below has each hold.",
        span.words(),
        thousands(holds),
        thousands(timeline.hosts.len()),
        thousands(timeline.longest_queue() as usize),
    )
}

/// The ways to the other spans.
fn ways(name: &QueueName, span: HistorySpan) -> String {
    let way = |other: HistorySpan| {
        let (link, text) = (QueryValue(name.as_str()), other.as_str());
        let current = if other == span { " aria-current=\"true\"" } else { "" };
        format!("<a href=\"lock?name={link}&amp;span={text}\"{current}>{text}</a>")
    };
    let ways: String = HistorySpan::ALL.into_iter().map(way).collect();
    format!("<nav class=\"spans\" aria-label=\"How far back\">{ways}</nav>")
}

/// The times below the drawing.
fn axis(window: TimeWindow) -> String {
    let span = window.until.saturating_sub(window.from);
    let marks: String =
        (0..=4).map(|part| format!("<span>{}</span>", &hour(window.from + span * part / 4)[..5])).collect();
    format!("<p class=\"axis\" aria-hidden=\"true\">{marks}</p>")
}

/// Which colour is which host.
fn legend(timeline: &Timeline<'_>) -> String {
    if timeline.hosts.is_empty() {
        return String::new();
    }
    let swatch =
        |colour: usize| format!("<svg viewBox=\"0 0 9 9\" aria-hidden=\"true\"><rect class=\"c{colour}\"/></svg>");
    let mut text = String::from("<ul class=\"hosts\">");
    for (colour, host) in timeline.hosts.iter().take(COLOURS).enumerate() {
        let _ = write!(text, "<li>{}{}</li>", swatch(colour), Escaped(host));
    }
    let more = timeline.hosts.len().saturating_sub(COLOURS);
    if more > 0 {
        let _ = write!(text, "<li>{}{} more</li>", swatch(COLOURS), thousands(more));
    }
    text + "</ul>"
}

/// Says since when it is known, and what may be missing.
fn known(state: &MonitorState, name: &QueueName, past: &LockPast<'_>) -> String {
    let mut text =
        format!("Known since <time datetime=\"{}\">{}</time> (UTC).", date(past.since_unix), hour(past.since_unix));
    if let Some(period) = may_miss(state) {
        let counted = if state.is_followed() { "counted" } else { "not counted" };
        let _ = write!(
            text,
            " The service is looked at each {}: shorter holds may be missing, and are {counted}.",
            held(period)
        );
    }
    if past.missed > 0 {
        let _ = write!(text, " Of this time {}.", missed(past.missed));
    }
    if !past.gaps.is_empty() {
        text += " Hatched: nothing was seen.";
    }
    if !past.freezes.is_empty() {
        text += " Blue: it was frozen.";
    }
    if !past.marks.is_empty() {
        text += " Dotted lines: requests, freezes and alerts, which the table names.";
    }
    let _ = write!(text, " <a href=\"api/locks/{}/history\">JSON</a>", QueryValue(name.as_str()));
    text
}

fn table(past: &LockPast<'_>, timeline: &Timeline<'_>) -> String {
    let bars = timeline.bars.iter().map(|bar| (bar.holds.first().map(|hold| hold.from_unix), bar_row(bar)));
    let vain = past.contenders.iter().filter(|one| one.end == PastEnd::GaveUp);
    let vain = vain.map(|one| (Some(one.from_unix), row(one, None)));
    let marks = past.marks.iter().map(|mark| (Some(mark.at_unix), mark_row(mark)));
    let mut rows: Vec<_> = bars.chain(vain).chain(marks).collect();
    if rows.is_empty() {
        return "<p class=\"key\">Nothing held it, as far as is known.</p>".to_owned();
    }
    rows.sort_by_key(|(from, _)| std::cmp::Reverse(*from));
    let rows: String = rows.into_iter().take(ROWS_MAX).map(|(_, row)| row).collect();
    format!(
        "<details class=\"holds\"><summary>Holds as a table</summary><div class=\"card\"><table>\
         <caption class=\"vh\">Who held it, the newest first</caption>\
         <thead><tr><th scope=\"col\">From (UTC)</th><th scope=\"col\">Who</th>\
         <th scope=\"col\" class=\"num\">Held</th>\
         <th scope=\"col\" class=\"num\">Waited</th><th scope=\"col\" class=\"num\">Token</th>\
         <th scope=\"col\">End</th></tr></thead><tbody>{rows}</tbody></table></div></details>"
    )
}

/// A request to give up, a freeze or its end.
fn mark_row(mark: &PastMark<'_>) -> String {
    format!(
        "<tr><td><time datetime=\"{}\">{}</time></td><td class=\"wide\"><span class=\"who\">{}</span></td>\
         <td class=\"num\"></td><td class=\"num\"></td><td class=\"num\"></td><td class=\"wide\">{}</td></tr>",
        date(mark.at_unix),
        hour(mark.at_unix),
        Escaped(mark.host),
        Escaped(mark.what),
    )
}

fn bar_row(bar: &HoldBar<'_>) -> String {
    if let Some(hold) = bar.only() {
        return row(hold, Some(&bar.id()));
    }
    let (first, longest) = (bar.holds.first(), bar.holds.iter().map(|hold| hold.held()).max());
    format!(
        "<tr id=\"{}\"><td>{}</td><td class=\"wide\"><span class=\"who\">{}</span> \
         <span class=\"sub\">{} short holds</span></td>\
         <td class=\"num\" data-l=\"held\">≤ {}</td><td class=\"num\"></td><td class=\"num\"></td><td></td></tr>",
        bar.id(),
        first.map(|hold| hour(hold.from_unix)).unwrap_or_default(),
        Escaped(&bar.hosts()),
        thousands(bar.holds.len()),
        held(longest.unwrap_or_default()),
    )
}

fn row(one: &PastContender<'_>, id: Option<&str>) -> String {
    let (who, rest) = past_name(one);
    let id = id.map(|id| format!(" id=\"{id}\"")).unwrap_or_default();
    let (held, from) = match one.end {
        PastEnd::GaveUp => ("–".to_owned(), one.until_unix),
        PastEnd::Holds => (brief(one.held()), one.from_unix),
        _ => (held(one.held()), one.from_unix),
    };
    format!(
        "<tr{id}><td><time datetime=\"{}\">{}</time></td><td class=\"wide\"><span class=\"who\">{}</span> \
         <span class=\"sub\">{}</span></td><td class=\"num\" data-l=\"held\">{held}</td>\
         <td class=\"num\" data-l=\"waited\">{}</td><td class=\"num\" data-l=\"token\">{}</td><td>{}</td></tr>",
        date(from),
        hour(from),
        Escaped(&who),
        Escaped(&rest),
        one.waited.map_or_else(|| "–".to_owned(), self::held),
        one.token.map_or_else(|| "–".to_owned(), |token| token.to_string()),
        one.end.as_str(),
    )
}

fn events(state: &MonitorState, name: &QueueName) -> String {
    let of_lock = state.model.events_from(0).rev().filter(|event| event.lock == *name);
    let rows: String = of_lock.take(EVENTS_SHOWN_MAX).map(event).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<section id=\"history\"><h2>What happened</h2><div class=\"card\"><table>\
         <caption class=\"vh\">The last events, the newest first</caption><thead><tr>\
         <th scope=\"col\">Time (UTC)</th><th scope=\"col\">Event</th></tr></thead>\
         <tbody>{rows}</tbody></table></div></section>"
    )
}

fn event(event: &SeenEvent) -> String {
    let (who, rest) = named(&event.contender);
    format!(
        "<tr><td><time datetime=\"{}\">{}</time></td><td class=\"wide\">{} <b>{}</b></td></tr>",
        date(event.at_unix),
        hour(event.at_unix),
        Escaped(&format!("{who} {rest}")),
        event.kind.as_str()
    )
}

#[cfg(test)]
mod tests {
    use lockkeeper::clock::BootInstant;
    use lockkeeper::{ContenderId, ContenderInfo, Mode};
    use lockkeeper_monitor::alerts::{About, Alert, AlertFinding, AlertNews};

    use super::*;

    fn at(second: u64) -> TimePoint {
        let passed = Duration::from_secs(second);
        TimePoint {
            boot: BootInstant::from_nanos(0).saturating_add(passed),
            unix: Duration::from_hours(300_000) + passed,
        }
    }

    fn page(state: &MonitorState, now: TimePoint) -> String {
        past(state, &QueueName::new("a").unwrap(), HistorySpan::Hour, now)
    }

    #[test]
    fn freezes_and_alerts_are_on_the_timeline_and_in_the_table_and_a_hostile_reason_is_inert() {
        let (mut state, lock) = (MonitorState::default(), QueueName::new("a").unwrap());
        let mut freezer = ContenderInfo::new(ContenderId::new("1"), Mode::Exclusive);
        freezer.frozen = Some("<script>".to_owned());
        state.model.see(&lock, Vec::<ContenderInfo>::new(), None, at(100));
        state.model.see(&lock, vec![freezer], Some(at(110).boot), at(110));
        assert!(page(&state, at(120)).contains("<rect class=\"ice\""));
        state.model.see(&lock, Vec::<ContenderInfo>::new(), Some(at(130).boot), at(130));
        let alert = Alert::new(About::Waiters(lock), AlertFinding::Said(String::new()), at(200).unix);
        state.model.history_mut().note_alert(&AlertNews::Raised(alert), at(200));
        let page = page(&state, at(300));
        assert_eq!(page.matches("<rect class=\"ice\"").count(), 1, "{page}");
        let titles: Vec<_> = page.split("<path class=\"mark\"").skip(1).collect();
        assert_eq!(titles.len(), 3, "{page}");
        assert!(titles[0].contains("frozen: &lt;script&gt;") && titles[1].contains("thawed"), "{page}");
        assert!(titles[2].contains("alert: waiters") && page.contains(">alert: waiters</td>"), "{page}");
        assert!(!page.contains("<script>") && page.contains("Blue: it was frozen."), "{page}");
    }
}
