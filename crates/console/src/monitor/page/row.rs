//! A lock as a row of the list: rendered once, for pages and for what they are told later.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use lockkeeper::backend::{Flow, ProcessId};
use lockkeeper::{ContenderInfo, QueueName};
use lockkeeper_monitor::{KnownContender, KnownLock, LockModel, TimePoint};

use super::frame::{Escaped, QueryValue, aged, row_id, thousands};
use super::timeline::held;
use crate::output::marks::{NAMED_MAX, freezer, longest_hold, oldest_wait, shown_kind};
use crate::output::{LockMark, LockMarks};

/// Over how long waits are judged.
const WAITS_OVER: Duration = Duration::from_secs(3_600);

/// What the columns behind the name are, for the style sheet: on a narrow page each says what it is.
const COLUMNS: [&str; 6] = [
    "class=\"kind\"",
    "class=\"wide\"",
    "class=\"num\" data-l=\"held\"",
    "class=\"num\" data-l=\"waiting\"",
    "class=\"num\" data-l=\"oldest wait\"",
    "class=\"num\" data-l=\"95 % of waits\"",
];

pub(super) fn row(lock_name: &QueueName, model: &LockModel, marks: &LockMarks, now: TimePoint) -> String {
    let lock = model.locks().get(lock_name);
    let (id, link, shown) = (row_id(lock_name), QueryValue(lock_name.as_str()), Escaped(lock_name.as_str()));
    let mark = lock.map_or(LockMark::None, |lock| marks.of(lock_name, lock));
    let hit = if mark == LockMark::Deadlock { " class=\"hit\"" } else { "" };
    let mut name = format!("<a class=\"name\" href=\"lock?name={link}\">{shown}</a>");
    let cells: Vec<String> = match lock {
        None => {
            let waits = [waiters(lock_name, 0, model, now), "–".to_owned(), wait_p95(lock_name, model, now)];
            ["", "<span class=\"sub\">free</span>", "–"].map(str::to_owned).into_iter().chain(waits).collect()
        }
        Some(lock) => {
            name += &tagged(mark);
            cells(lock_name, lock, model, now)
        }
    };
    let mut row = format!("<tr id=\"{id}\" role=\"row\"{hit}><td role=\"cell\">{name}</td>");
    for (attributes, cell) in COLUMNS.into_iter().zip(cells) {
        let _ = write!(row, "<td role=\"cell\" {attributes}>{cell}</td>");
    }
    row + "</tr>"
}

/// What stands behind the name of a lock: its kind, its holders, how long it is held, how many wait, for how long, and
/// for how long others did.
fn cells(name: &QueueName, lock: &KnownLock, model: &LockModel, now: TimePoint) -> Vec<String> {
    let kind = format!("<span class=\"tag n\">{}</span>", used_as(lock));
    let waiters = waiters(name, lock.waiters().count(), model, now);
    vec![kind, holders(lock), holding(lock, now), waiters, waiting(lock, now), wait_p95(name, model, now)]
}

pub(super) fn used_as(lock: &KnownLock) -> String {
    shown_kind(lock, "read/write")
}

fn tagged(mark: LockMark) -> String {
    let (class, words) = match mark {
        LockMark::None => return String::new(),
        LockMark::Frozen => ('i', "frozen"),
        LockMark::Told(words) => ('w', words),
        LockMark::Deadlock => ('b', "deadlock"),
    };
    format!(" <span class=\"tag {class}\">{words}</span>")
}

/// For how long it is held by the one that holds it longest.
pub(super) fn holding(lock: &KnownLock, now: TimePoint) -> String {
    longest_hold(lock, now).map_or_else(|| "–".to_owned(), |held| held_for(held, now))
}

/// For how long its oldest waiter waits.
pub(super) fn waiting(lock: &KnownLock, now: TimePoint) -> String {
    oldest_wait(lock, now).map_or_else(|| "–".to_owned(), |age| aged(age, now))
}

fn holders(lock: &KnownLock) -> String {
    if let Some(frozen) = freezer(lock) {
        let (by, _) = named(&frozen.info);
        let why = frozen.info.frozen.as_deref().unwrap_or_default();
        let (by, why) = (Escaped(&by), Escaped(why));
        return format!("<span class=\"who\">frozen by {by}</span> <span class=\"sub\">{why}</span>");
    }
    let holders: Vec<_> = lock.holders().take(NAMED_MAX).map(|holder| named(&holder.info)).collect();
    let more = lock.holders().count().saturating_sub(NAMED_MAX);
    match holders.as_slice() {
        [] => String::new(),
        [(who, rest)] => {
            format!("<span class=\"who\">{}</span> <span class=\"sub\">{}</span>", Escaped(who), Escaped(rest))
        }
        several => {
            let names: Vec<_> = several.iter().map(|(who, _)| who.as_str()).collect();
            let more = if more > 0 { format!(" and {} more", thousands(more)) } else { String::new() };
            format!("<span class=\"who\">{}</span><span class=\"sub\">{more}</span>", Escaped(&names.join(", ")))
        }
    }
}

/// How many wait, as a number, and in each minute of the last hour as a line.
fn waiters(name: &QueueName, waiting: usize, model: &LockModel, now: TimePoint) -> String {
    let shown = thousands(waiting);
    model
        .history()
        .peaks(name.as_str(), now.unix)
        .map_or_else(|| shown.clone(), |peaks| format!("<span class=\"q\">{}{shown}</span>", sparkline(&peaks)))
}

fn sparkline(peaks: &[u16]) -> String {
    let most = peaks.iter().copied().max().unwrap_or(0);
    let mut path = String::from("M0 14");
    let mut before = None;
    for (minute, &count) in peaks.iter().enumerate() {
        if before != Some(count) {
            let _ = write!(path, "H{minute}V{:.0}", 14.0 - 13.0 * f64::from(count) / f64::from(most.max(1)));
        }
        before = Some(count);
    }
    format!(
        "<svg role=\"img\" aria-label=\"{} at most in the last hour\" viewBox=\"0 0 60 14\">\
         <path d=\"{path}H60V14Z\"/></svg>",
        thousands(usize::from(most))
    )
}

/// The 95th percentile of the last waits of an hour.
fn wait_p95(name: &QueueName, model: &LockModel, now: TimePoint) -> String {
    let p95 = model.history().wait_p95(name.as_str(), now.unix.saturating_sub(WAITS_OVER));
    p95.map_or_else(|| "–".to_owned(), held)
}

/// How many other locks of one flow are named.
const OTHERS_MAX: usize = 3;

/// What names a contender: its host, or what its client wrote, and the rest that is known of it.
pub(in crate::monitor) fn named(info: &ContenderInfo) -> (String, String) {
    let session = info.session.as_ref().map(|session| format!("session {session}"));
    match (&info.owner, &info.label) {
        (Some(owner), _) => (owner.host.clone(), format!("pid {} {}", owner.pid, owner.command)),
        (None, Some(label)) => (label.clone(), session.unwrap_or_else(|| info.id.to_string())),
        (None, None) => (info.id.to_string(), session.unwrap_or_default()),
    }
}

/// Says for how long it is held; `≥` where that is since it was seen to.
pub(super) fn held_for((least, is_longer): (Duration, bool), now: TimePoint) -> String {
    format!("{}{}", if is_longer { "≥ " } else { "" }, aged(least, now))
}

/// What a flow of control does with another lock.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) lock: QueueName,
    pub(super) holds: bool,
}

type FlowKey = (ProcessId, Flow);

fn flow_key(info: &ContenderInfo) -> Option<FlowKey> {
    Some((info.caller.process?, info.caller.flow?))
}

/// Finds what the flows of some contenders do with locks other than this one, in the order of the contenders.
pub(super) fn others(model: &LockModel, here: &QueueName, contenders: &[KnownContender]) -> Vec<Vec<Other>> {
    let mut found = vec![Vec::new(); contenders.len()];
    let mut places: BTreeMap<FlowKey, Vec<usize>> = BTreeMap::new();
    for (at, one) in contenders.iter().enumerate() {
        if let Some(key) = flow_key(&one.info) {
            places.entry(key).or_default().push(at);
        }
    }
    if places.is_empty() {
        return found;
    }
    for (name, lock) in model.locks().iter().filter(|(name, _)| *name != here) {
        for other in &lock.contenders {
            let same = flow_key(&other.info).and_then(|key| places.get(&key));
            for &at in same.into_iter().flatten() {
                if found[at].len() < OTHERS_MAX {
                    found[at].push(Other { lock: name.clone(), holds: other.hold.is_some() });
                }
            }
        }
    }
    found
}
