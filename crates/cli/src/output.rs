//! What the commands print to stdout: text tables and JSON.
//!
//! The JSON field names are stable, and tokens are strings in it, since many readers of JSON round large numbers.
//! Nothing that another process chose, such as its command's name, reaches a terminal with its control characters.

use std::io::{self, Write as _};
use std::time::Duration;

use lockkeeper::{Capabilities, ContenderInfo, Exclusion, Fencing, Mode, StoppedHolder};
use serde::Serialize;

use crate::exit::Failure;

/// A lock, as `ls` lists it.
#[derive(Debug, Serialize)]
pub(crate) struct ListedLock {
    name: String,
    kind: Option<&'static str>,
    holders: Vec<Contender>,
    waiters: usize,
}

/// A lock, as `show` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct ShownLock {
    name: String,
    kind: Option<&'static str>,
    service: String,
    contenders: Vec<Contender>,
}

/// One contender of either.
#[derive(Debug, Serialize)]
struct Contender {
    position: usize,
    state: State,
    mode: &'static str,
    id: String,
    token: Option<String>,
    session: Option<String>,
    owner: Option<Owner>,
    age_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Holder,
    Waiter,
}

#[derive(Debug, Serialize)]
struct Owner {
    host: String,
    pid: u32,
    command: String,
    since: Option<String>,
}

impl ListedLock {
    /// Sums up a queue as it was seen at `now_unix`.
    pub(crate) fn new(name: &str, queue: &[ContenderInfo], now_unix: Duration) -> Self {
        let (holders, waiters): (Vec<_>, Vec<_>) =
            contenders(queue, now_unix).into_iter().partition(|contender| contender.state == State::Holder);
        Self { name: name.to_owned(), kind: kind(queue), holders, waiters: waiters.len() }
    }
}

impl ShownLock {
    /// Describes a queue as it was seen at `now_unix`.
    pub(crate) fn new(name: &str, service: String, queue: &[ContenderInfo], now_unix: Duration) -> Self {
        Self { name: name.to_owned(), kind: kind(queue), service, contenders: contenders(queue, now_unix) }
    }

    /// Returns it for people.
    pub(crate) fn text(&self) -> String {
        let Self { name, kind, service, contenders } = self;
        let Some(kind) = kind else {
            return one_line(&format!("{name} ({service}): nobody holds it and nobody waits")) + "\n";
        };
        let mut rows = vec![["", "STATE", "MODE", "TOKEN", "AGE", "OWNER"].map(str::to_owned).to_vec()];
        rows.extend(contenders.iter().map(|contender| {
            let state = if contender.state == State::Holder { "holder" } else { "waiter" };
            let token = contender.token.clone().unwrap_or_else(|| "-".to_owned());
            let position = contender.position.to_string();
            vec![position, state.to_owned(), contender.mode.to_owned(), token, contender.age(), contender.owner()]
        }));
        format!("{}\n{}", one_line(&format!("{name} ({kind}, {service})")), table(&rows))
    }
}

impl Contender {
    fn owner(&self) -> String {
        match &self.owner {
            Some(Owner { host, pid, command, .. }) => format!("{host} pid {pid} {command}"),
            None => self.id.clone(),
        }
    }

    fn age(&self) -> String {
        self.age_ms.map_or_else(|| "-".to_owned(), |age_ms| brief(Duration::from_millis(age_ms)))
    }
}

/// Returns the text of `ls`; nothing at all for no locks.
pub(crate) fn list(locks: &[ListedLock]) -> String {
    if locks.is_empty() {
        return String::new();
    }
    let mut rows = vec![["NAME", "KIND", "WAITERS", "HOLDER"].map(str::to_owned).to_vec()];
    rows.extend(locks.iter().map(|lock| {
        let holders: Vec<_> = lock.holders.iter().map(Contender::owner).collect();
        let kind = lock.kind.unwrap_or("-").to_owned();
        let holder = if holders.is_empty() { "-".to_owned() } else { holders.join(", ") };
        vec![lock.name.clone(), kind, lock.waiters.to_string(), holder]
    }));
    table(&rows)
}

/// Names the kind of lock that a queue belongs to; unknown while nobody stands in it.
fn kind(queue: &[ContenderInfo]) -> Option<&'static str> {
    queue.first().map(|contender| match contender.mode {
        Mode::Read | Mode::Write => "rwlock",
        mode => mode.as_str(),
    })
}

fn contenders(queue: &[ContenderInfo], now_unix: Duration) -> Vec<Contender> {
    let contender = |(position, info): (usize, &ContenderInfo)| Contender {
        position: position + 1,
        // Only mutexes are made today: whoever is first has it.
        state: if position == 0 { State::Holder } else { State::Waiter },
        mode: info.mode.as_str(),
        id: info.id.to_string(),
        token: info.token.map(|token| token.to_string()),
        session: info.session.clone(),
        owner: info.owner.as_ref().map(|owner| Owner {
            host: owner.host.clone(),
            pid: owner.pid,
            command: owner.command.clone(),
            since: info.since_unix.map(date),
        }),
        age_ms: info.since_unix.map(|since| millis(now_unix.saturating_sub(since))),
    };
    queue.iter().enumerate().map(contender).collect()
}

/// What a service promises, in words for people and for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Promises {
    service: String,
    backend: &'static str,
    exclusion: String,
    fencing: String,
    stopped_holder: String,
    #[serde(skip)]
    sentences: [String; 3],
}

impl Promises {
    /// Puts a service's capabilities into words.
    pub(crate) fn new(service: String, capabilities: &Capabilities) -> Self {
        let Capabilities { backend, exclusion, fencing, stopped_holder, .. } = *capabilities;
        // A promise that this list does not know yet is told by its sentence.
        let exclusion_word = match exclusion {
            Exclusion::Process => "process".to_owned(),
            Exclusion::Machine => "machine".to_owned(),
            Exclusion::Timed => "timed".to_owned(),
            Exclusion::BestEffort => "best-effort".to_owned(),
            other => other.to_string(),
        };
        let fencing_word = match fencing {
            Fencing::Process => "process".to_owned(),
            Fencing::Service => "service".to_owned(),
            Fencing::Clock => "clock".to_owned(),
            other => other.to_string(),
        };
        let stopped_holder_word = match stopped_holder {
            StoppedHolder::Keeps => "keeps".to_owned(),
            StoppedHolder::Expires => "expires".to_owned(),
            other => other.to_string(),
        };
        Self {
            service,
            backend,
            exclusion: exclusion_word,
            fencing: fencing_word,
            stopped_holder: stopped_holder_word,
            sentences: [exclusion.to_string(), fencing.to_string(), stopped_holder.to_string()],
        }
    }

    /// Returns them for people.
    pub(crate) fn text(&self) -> String {
        let [exclusion, fencing, stopped_holder] = &self.sentences;
        let row = |word: &str, text: &str| vec![word.to_owned(), text.to_owned()];
        table(&[
            row("service", &self.service),
            row("backend", self.backend),
            row("exclusion", exclusion),
            row("fencing", fencing),
            row("stopped", stopped_holder),
        ])
    }
}

/// Whether a lock is still held, as `check` answers.
#[derive(Debug, Serialize)]
pub(crate) struct Checked {
    pub(crate) held: bool,
    pub(crate) safe_for_ms: Option<u64>,
    pub(crate) token: Option<String>,
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::ours(error.to_string()))?;
    print(&harmless_json(&text))
}

/// Escapes what JSON lets pass and a terminal obeys. Outside of strings JSON has nothing of the kind but its line ends.
fn harmless_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    for letter in json.chars() {
        if letter != '\n' && is_harmful(letter) {
            text.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            text.push(letter);
        }
    }
    text.push('\n');
    text
}

/// Prints a text. A reader that went away has seen enough.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::ours(format!("cannot write to stdout: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Lays out rows in columns two spaces apart.
fn table(rows: &[Vec<String>]) -> String {
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let columns = cells.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        cells.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &cells {
        let line: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Returns a text whose harmful characters are shown as escapes.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_harmful(letter) {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}

/// Tells whether a character could move a cursor, change a terminal or turn the reading direction around.
fn is_harmful(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Returns a duration in at most two units, such as `14s`, `2m10s`, `3h07m` or `2d4h`.
pub(crate) fn brief(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600, seconds / 60);
    if days > 0 {
        format!("{days}d{}h", hours % 24)
    } else if hours > 0 {
        format!("{hours}h{:02}m", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes}m{:02}s", seconds % 60)
    } else {
        format!("{seconds}s")
    }
}

/// Returns a time since 1970 as a date of RFC 3339, in UTC.
fn date(since_unix: Duration) -> String {
    /// The last second of the year 9999, after which RFC 3339 has no dates.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since_unix.min(LAST)).to_string()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use lockkeeper::ContenderId;

    use super::*;

    const NOW: Duration = Duration::from_millis(1_750_000_130_250);

    /// A holder and a waiter of whom nothing is known.
    fn queue() -> Vec<ContenderInfo> {
        let mut holder = ContenderInfo::new(ContenderId::new("c1"), Mode::Mutex);
        holder.token = lockkeeper::FencingToken::new(u64::MAX >> 1, 0);
        holder.session = Some("s1".to_owned());
        holder.owner = Some(lockkeeper::Owner::new("web-3", 4121, "back\x1b[2Jup.sh"));
        holder.since_unix = Some(Duration::from_secs(1_750_000_000));
        vec![holder, ContenderInfo::new(ContenderId::new("c2"), Mode::Mutex)]
    }

    #[test]
    fn show_prints_the_stable_json_shape_with_tokens_as_strings() {
        let shown = ShownLock::new("nightly", "file:/x".to_owned(), &queue(), NOW);
        let expected = serde_json::json!({
            "name": "nightly", "kind": "mutex", "service": "file:/x",
            "contenders": [
                {"position": 1, "state": "holder", "mode": "mutex", "id": "c1", "token": "9223372036854775807",
                 "session": "s1", "age_ms": 130_250,
                 "owner": {"host": "web-3", "pid": 4121, "command": "back\x1b[2Jup.sh", "since": "2025-06-15T15:06:40.000Z"}},
                {"position": 2, "state": "waiter", "mode": "mutex", "id": "c2", "token": null, "session": null,
                 "age_ms": null, "owner": null},
            ],
        });
        assert_eq!(serde_json::to_value(&shown).unwrap(), expected);
    }

    #[test]
    fn ls_prints_the_stable_json_shape() {
        let listed = serde_json::to_value(ListedLock::new("nightly", &queue(), NOW)).unwrap();
        assert_eq!((&listed["name"], &listed["kind"]), (&"nightly".into(), &"mutex".into()));
        assert_eq!(listed["waiters"], 1);
        assert_eq!(listed["holders"].as_array().unwrap().len(), 1);
        assert_eq!(listed["holders"][0]["owner"]["pid"], 4121);
    }

    #[test]
    fn tables_are_aligned_and_show_control_characters_as_escapes() {
        let text = ShownLock::new("nightly", "file:/x".to_owned(), &queue(), NOW).text();
        assert_eq!(
            text,
            "nightly (mutex, file:/x)\n\
             \u{20}  STATE   MODE   TOKEN                AGE    OWNER\n\
             1  holder  mutex  9223372036854775807  2m10s  web-3 pid 4121 back\\u{1b}[2Jup.sh\n\
             2  waiter  mutex  -                    -      c2\n"
        );
        let text = list(&[ListedLock::new("nightly", &queue(), NOW), ListedLock::new("x", &[], NOW)]);
        assert_eq!(
            text,
            "NAME     KIND   WAITERS  HOLDER\n\
             nightly  mutex  1        web-3 pid 4121 back\\u{1b}[2Jup.sh\n\
             x        -      0        -\n"
        );
    }

    #[test]
    fn a_lock_that_nobody_has_is_empty() {
        let shown = ShownLock::new("x", "file:/x".to_owned(), &[], NOW);
        assert_eq!(shown.text(), "x (file:/x): nobody holds it and nobody waits\n");
        assert!(serde_json::to_value(&shown).unwrap()["kind"].is_null());
        assert_eq!(list(&[]), "");
    }

    #[test]
    fn one_line_stays_one_line() {
        assert_eq!(one_line("a\nb\r\u{9b}c\u{202e}d 鍵"), "a\\nb\\r\\u{9b}c\\u{202e}d 鍵");
    }

    #[test]
    fn json_has_no_control_characters_and_still_says_the_same() {
        let value = serde_json::json!({"a": "\u{9b}2J\n\u{202e}é"});
        let text = harmless_json(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(text, "{\n  \"a\": \"\\u009b2J\\n\\u202eé\"\n}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn durations_are_brief() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (130, "2m10s"), (11_220, "3h07m"), (187_200, "2d4h")] {
            assert_eq!(brief(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_strangest_dates_do_not_panic() {
        for seconds in [253_402_300_799, 253_402_300_800, u64::MAX] {
            assert_eq!(date(Duration::from_secs(seconds)), "9999-12-31T23:59:59.000Z");
        }
    }
}
