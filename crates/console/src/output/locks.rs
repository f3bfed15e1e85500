//! A lock with its holders and waiters, as `ls` and `show` print it.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper::backend::decide;
use lockkeeper::{ContenderInfo, Mode};
use serde::Serialize;

use super::text::{one_line, table};
use super::who::ContenderView;

/// How many holders a line of `ls` names; the rest is counted.
const NAMED_MAX: usize = 3;

/// A lock with its holders and the number of its waiters.
#[derive(Debug, Serialize)]
pub struct ListedLock {
    name: String,
    kind: Option<&'static str>,
    holders: Vec<PrintedContender>,
    waiters: usize,
}

/// A lock with its whole queue.
#[derive(Debug, Serialize)]
pub struct ShownLock {
    name: String,
    kind: Option<&'static str>,
    service: String,
    contenders: Vec<PrintedContender>,
}

#[derive(Debug, Serialize)]
struct PrintedContender {
    position: usize,
    state: EntryState,
    #[serde(flatten)]
    who: ContenderView,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EntryState {
    Holder,
    Waiter,
}

impl ListedLock {
    /// Describes the queue of a lock as seen at `now_unix`.
    pub fn new(name: &str, queue: &[ContenderInfo], now_unix: Duration) -> Self {
        let (holders, waiters): (Vec<_>, Vec<_>) =
            contenders(queue, now_unix).into_iter().partition(|contender| contender.state == EntryState::Holder);
        Self { name: name.to_owned(), kind: kind(queue), holders, waiters: waiters.len() }
    }
}

impl ShownLock {
    /// Describes the queue of a lock as seen at `now_unix`.
    pub fn new(name: &str, service: String, queue: &[ContenderInfo], now_unix: Duration) -> Self {
        Self { name: name.to_owned(), kind: kind(queue), service, contenders: contenders(queue, now_unix) }
    }

    /// Returns it as text.
    pub fn text(&self) -> String {
        let Self { name, kind, service, contenders } = self;
        let Some(kind) = kind else {
            return one_line(&format!("{name} ({service}): free, no waiters")) + "\n";
        };
        let is_held_known = contenders.iter().any(|contender| contender.who.held().is_some());
        let mut title = ["", "STATE", "MODE", "TOKEN", "HERE"].map(str::to_owned).to_vec();
        title.extend(is_held_known.then(|| "HELD".to_owned()));
        title.push("OWNER".to_owned());
        let callers = callers(contenders);
        let is_caller_known = callers.iter().any(Option::is_some);
        title.extend(is_caller_known.then(|| "CALLER".to_owned()));
        if contenders.iter().any(|contender| contender.who.note().is_some()) {
            title.push("NOTE".to_owned());
        }
        let row = |(contender, caller): (&PrintedContender, Option<String>)| {
            let state = if contender.state == EntryState::Holder { "holder" } else { "waiter" };
            let token = contender.who.token.clone().unwrap_or_else(|| "-".to_owned());
            let position = contender.position.to_string();
            let mut row = vec![position, state.to_owned(), contender.who.mode.to_owned(), token, contender.who.age()];
            row.extend(is_held_known.then(|| contender.who.held().unwrap_or_else(|| "-".to_owned())));
            row.push(contender.who.name());
            row.extend(is_caller_known.then(|| caller.unwrap_or_else(|| "-".to_owned())));
            row.extend(contender.who.note());
            row
        };
        let rows: Vec<_> = std::iter::once(title).chain(contenders.iter().zip(callers).map(row)).collect();
        format!("{}\n{}", one_line(&format!("{name} ({kind}, {service})")), table(&rows))
    }

    /// Tells whether another shows the same lock in the same state, apart from the time that has passed.
    pub fn is_same(&self, other: &Self) -> bool {
        let ageless = |shown: &Self| {
            let mut value = serde_json::to_value(shown).unwrap_or_default();
            for contender in value["contenders"].as_array_mut().into_iter().flatten() {
                contender["age_ms"].take();
                contender["held_ms"].take();
            }
            value
        };
        ageless(self) == ageless(other)
    }
}

/// Says of each contender whose it is. A flow of control is named where it tells the contenders of one process apart.
fn callers(contenders: &[PrintedContender]) -> Vec<Option<String>> {
    let mut of_process = BTreeMap::<&str, usize>::new();
    for process in contenders.iter().filter_map(|contender| contender.who.process.as_deref()) {
        *of_process.entry(process).or_default() += 1;
    }
    let caller = |PrintedContender { who, .. }: &PrintedContender| {
        let others = who.process.as_deref().and_then(|process| of_process.get(process)).is_some_and(|&count| count > 1);
        who.caller(who.flow.as_deref().filter(|_| others))
    };
    contenders.iter().map(caller).collect()
}

/// Returns the text of `ls`; nothing at all for no locks.
pub fn list(locks: &[ListedLock]) -> String {
    if locks.is_empty() {
        return String::new();
    }
    let mut rows = vec![["NAME", "KIND", "WAITERS", "HOLDER"].map(str::to_owned).to_vec()];
    rows.extend(locks.iter().map(|lock| {
        let mut holders: Vec<_> = lock.holders.iter().take(NAMED_MAX).map(|holder| holder.who.as_holder()).collect();
        if lock.holders.len() > NAMED_MAX {
            holders.push(format!("{} more", lock.holders.len() - NAMED_MAX));
        }
        let kind = lock.kind.unwrap_or("-").to_owned();
        let holder = if holders.is_empty() { "-".to_owned() } else { holders.join(", ") };
        vec![lock.name.clone(), kind, lock.waiters.to_string(), holder]
    }));
    table(&rows)
}

/// Names the kind of lock that a queue belongs to; unknown while the queue is empty.
pub(crate) fn kind<'a>(queue: impl IntoIterator<Item = &'a ContenderInfo>) -> Option<&'static str> {
    let of_mode = |mode| match mode {
        Mode::Read | Mode::Write => Some("rwlock"),
        Mode::Acquire | Mode::Permit => Some("semaphore"),
        Mode::Candidate => Some("election"),
        Mode::Member => Some("barrier"),
        // A mutex, which may be the exclusive side of a read/write lock, or a writer of a client that does not tell
        // which: the others may tell.
        _ => None,
    };
    let mut kind = None;
    for contender in queue {
        kind = Some("mutex");
        if let Some(told) = of_mode(contender.mode) {
            return Some(told);
        }
    }
    kind
}

fn contenders(queue: &[ContenderInfo], now_unix: Duration) -> Vec<PrintedContender> {
    let contender = |(position, (info, holds)): (usize, (&ContenderInfo, bool))| {
        let who = ContenderView::new(info, now_unix);
        let (state, who) = if holds { (EntryState::Holder, who.granted()) } else { (EntryState::Waiter, who) };
        PrintedContender { position: position + 1, state, who }
    };
    queue.iter().zip(decide::holders(queue)).enumerate().map(contender).collect()
}

#[cfg(test)]
mod tests {
    use lockkeeper::ContenderId;
    use lockkeeper::backend::{Flow, FlowKind, ProcessId, TicketHead};

    use super::*;

    const NOW: Duration = Duration::from_millis(1_750_000_130_250);

    /// A holder, and a waiter with an unknown owner.
    fn queue() -> Vec<ContenderInfo> {
        let mut holder = ContenderInfo::new(ContenderId::new("c1"), Mode::Mutex);
        holder.token = lockkeeper::FencingToken::new(u64::MAX >> 1, 0);
        holder.session = Some("s1".to_owned());
        holder.owner = Some(lockkeeper::Owner::new("web-3", 4121, "back\x1b[2Jup.sh"));
        holder.since_unix = Some(Duration::from_secs(1_750_000_000));
        holder.granted_unix = Some(Duration::from_secs(1_750_000_120));
        holder.answers = lockkeeper::Answers::Yes;
        vec![holder, ContenderInfo::new(ContenderId::new("c2"), Mode::Mutex)]
    }

    #[test]
    fn show_prints_the_stable_json_shape_with_tokens_as_strings() {
        let shown = ShownLock::new("nightly", "file:/x".to_owned(), &queue(), NOW);
        let expected = serde_json::json!({
            "name": "nightly", "kind": "mutex", "service": "file:/x",
            "contenders": [
                {"position": 1, "state": "holder", "mode": "mutex", "id": "c1", "token": "9223372036854775807",
                 "session": "s1", "label": null, "ticket": null, "process": null, "flow": null, "within": null,
                 "until": null, "age_ms": 130_250, "held_ms": 10_250, "frozen": null, "kept": false, "revocation": null,
                 "answers": "yes", "owner": {
                     "host": "web-3", "pid": 4121, "command": "back\x1b[2Jup.sh", "since": "2025-06-15T15:06:40.000Z"
                 }},
                {"position": 2, "state": "waiter", "mode": "mutex", "id": "c2", "token": null, "session": null,
                 "label": null, "ticket": null, "process": null, "flow": null, "within": null, "until": null,
                 "age_ms": null, "held_ms": null, "owner": null, "frozen": null, "kept": false, "revocation": null,
                 "answers": "unknown"},
            ],
        });
        assert_eq!(serde_json::to_value(&shown).unwrap(), expected);
    }

    #[test]
    fn tables_are_aligned_and_show_control_characters_as_escapes() {
        let text = ShownLock::new("nightly", "file:/x".to_owned(), &queue(), NOW).text();
        assert_eq!(
            text,
            "nightly (mutex, file:/x)\n\
             \u{20}  STATE   MODE   TOKEN                HERE   HELD  OWNER\n\
             1  holder  mutex  9223372036854775807  2m10s  10s   web-3 pid 4121 back\\u{1b}[2Jup.sh\n\
             2  waiter  mutex  -                    -      -     c2\n"
        );
        let text = list(&[ListedLock::new("nightly", &queue(), NOW), ListedLock::new("x", &[], NOW)]);
        assert_eq!(
            text,
            "NAME     KIND   WAITERS  HOLDER\n\
             nightly  mutex  1        web-3 pid 4121 back\\u{1b}[2Jup.sh\n\
             x        -      0        -\n"
        );
    }

    fn contender(id: &str, mode: Mode) -> ContenderInfo {
        ContenderInfo::new(ContenderId::new(id), mode)
    }

    #[test]
    fn whose_a_contender_is_is_shown_where_it_is_known() {
        let mut queue = ["c1", "c2", "c3", "c4"].map(|id| contender(id, Mode::Mutex));
        for (number, info) in queue.iter_mut().enumerate().take(2) {
            info.caller.process = ProcessId::parse("00000000000000ab");
            info.caller.flow = Flow::new(FlowKind::Task, number as u64);
            info.caller.within = TicketHead::parse("0123456789abcdef").filter(|_| number == 1);
            info.caller.until_unix = Some(NOW + Duration::from_secs(8));
        }
        // The only one of its process.
        queue[3].caller.process = ProcessId::parse("00000000000000cd");
        queue[3].caller.flow = Flow::parse("h1");
        queue[2].label = Some("127.0.0.1\n".to_owned());
        let shown = ShownLock::new("x", "file:/x".to_owned(), &queue, NOW);
        assert_eq!(
            shown.text(),
            "x (mutex, file:/x)\n\
             \u{20}  STATE   MODE   TOKEN  HERE  OWNER  CALLER                            NOTE\n\
             1  holder  mutex  -      -     c1     t0\n\
             2  waiter  mutex  -      -     c2     t1, in 0123456789abcdef, 8s left\n\
             3  waiter  mutex  -      -     c3     -                                 says 127.0.0.1\\n\n\
             4  waiter  mutex  -      -     c4     -\n"
        );
        let json = serde_json::to_value(&shown).unwrap();
        assert_eq!(json["contenders"][3]["flow"], "h1");
        let (holder, waiter, foreign) = (&json["contenders"][0], &json["contenders"][1], &json["contenders"][2]);
        assert_eq!((&waiter["process"], &waiter["flow"]), (&"00000000000000ab".into(), &"t1".into()));
        assert_eq!(
            (&waiter["within"], &waiter["until"]),
            (&"0123456789abcdef".into(), &"2025-06-15T15:08:58.250Z".into())
        );
        assert!(holder["until"].is_null() && holder["within"].is_null(), "what a holder waited for is over");
        assert!(foreign["process"].is_null() && foreign["flow"].is_null());
        assert_eq!(foreign["label"], "127.0.0.1\n");
    }

    #[test]
    fn every_kind_of_lock_is_named_and_its_holders_are_told_from_its_waiters() {
        use Mode::{Acquire, Candidate, Exclusive, Member, Mutex, Permit, Read, Write};
        for (modes, kind, holders) in [
            (&[Mutex, Mutex][..], "mutex", 1),
            (&[Read, Read, Write, Read], "rwlock", 2),
            (&[Mutex, Read, Mutex], "rwlock", 1),
            (&[Read, Mutex, Read], "rwlock", 1),
            (&[Exclusive, Read], "rwlock", 1),
            (&[Exclusive, Exclusive], "mutex", 1),
            (&[Permit, Permit, Acquire, Acquire], "semaphore", 2),
            (&[Acquire], "semaphore", 0),
            (&[Candidate, Candidate], "election", 1),
            (&[Member, Member, Member], "barrier", 3),
        ] {
            let queue: Vec<_> = modes.iter().map(|&mode| contender("c", mode)).collect();
            let listed = serde_json::to_value(ListedLock::new("x", &queue, NOW)).unwrap();
            assert_eq!(
                (&listed["kind"], listed["holders"].as_array().unwrap().len()),
                (&kind.into(), holders),
                "{modes:?}"
            );
            assert_eq!(listed["waiters"], modes.len() - holders, "{modes:?}");
        }
    }

    #[test]
    fn of_many_holders_a_few_are_named_and_the_rest_is_counted() {
        let readers: Vec<_> = (0..5).map(|number| contender(&format!("c{number}"), Mode::Read)).collect();
        let text = list(&[ListedLock::new("x", &readers, NOW)]);
        assert_eq!(text.lines().nth(1), Some("x     rwlock  0        c0, c1, c2, 2 more"));
    }

    #[test]
    fn a_place_that_may_be_idle_is_shown_as_kept() {
        let mut holder = contender("c1", Mode::Mutex);
        holder.ticket = Some(lockkeeper::backend::Ticket::mint_kept().unwrap());
        let shown = ShownLock::new("x", "file:/x".to_owned(), &[holder], NOW);
        assert!(shown.text().contains("kept: in use or idle"), "{}", shown.text());
        assert_eq!(serde_json::to_value(&shown).unwrap()["contenders"][0]["kept"], true);
    }

    #[test]
    fn the_passing_of_time_alone_is_not_a_change() {
        let shown = |queue: &[ContenderInfo], later| ShownLock::new("x", "file:/x".to_owned(), queue, NOW + later);
        let before = shown(&queue(), Duration::ZERO);
        assert!(before.is_same(&shown(&queue(), Duration::from_secs(7))));
        assert!(!before.is_same(&shown(&queue()[..1], Duration::ZERO)));
    }
}
