//! The live line of a waiter: who holds the lock, for how long, and how far the queue has moved.
//!
//! A pure function makes the text; [`narrate`] looks at the queue and prints it.

use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use lockkeeper::backend::decide;
use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::{Advice, ContenderId, ContenderInfo, Keeper};

use crate::output::{ContenderView, brief};
use crate::voice::Voice;
use crate::witness::QueueWitness;

/// How long a wait stays silent, and how often the line is renewed on a terminal.
const BEAT: Duration = Duration::from_secs(1);

/// How often in a row the line is renewed without an answer before that is said of the service. A slow one answers
/// sooner, and most connections that cannot be opened have failed by then.
const UNANSWERED_MAX: u32 = 5;

#[derive(Debug, Default)]
struct QueueSight {
    /// As it was seen last; empty if it was not, or may not be looked at.
    queue: Vec<ContenderInfo>,
    /// Why the service cannot be reached now, if it cannot.
    unreachable: Option<String>,
    /// For how many beats no look has ended.
    unanswered: u32,
}

impl QueueSight {
    /// Takes in what came of a look, or that it goes on.
    fn take(&mut self, looked: Option<lockkeeper::Result<Vec<ContenderInfo>>>) {
        self.unanswered = if looked.is_none() { self.unanswered.saturating_add(1) } else { 0 };
        match looked {
            Some(Ok(seen)) => (self.queue, self.unreachable) = (seen, None),
            // A failed look is no reason to end the wait: the wait itself reports a failure that matters.
            Some(Err(error)) if error.advice() == Advice::Permanent => {
                (self.queue, self.unreachable) = (Vec::new(), None);
            }
            Some(Err(error)) => self.unreachable = Some(reason(&error)),
            None if self.unanswered >= UNANSWERED_MAX && self.unreachable.is_none() => {
                self.unreachable = Some("no answer".to_owned());
            }
            None => {}
        }
    }

    /// Tells whether something is known now: what is seen, or why nothing is.
    fn is_settled(&self) -> bool {
        self.unanswered == 0 || self.unreachable.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
struct WaitText<'a> {
    name: &'a str,
    service: &'a str,
    /// As it was seen last; empty if it could not be looked at.
    queue: &'a [ContenderInfo],
    /// Why the service cannot be reached now, if it cannot.
    unreachable: Option<&'a str>,
    /// Our own place in the queue, if we stand in it.
    ours: Option<&'a ContenderId>,
    waited: Duration,
    now_unix: Duration,
}

impl WaitText<'_> {
    /// Returns the line, without prefix. What it quotes may hold anything; the caller that prints it makes it harmless.
    fn text(&self) -> String {
        let Self { name, service, queue, unreachable, ours, waited, now_unix } = *self;
        if let Some(why) = unreachable {
            let waited = brief(waited);
            return format!("waiting for {name}: cannot reach {service} ({why}), trying again; {waited}");
        }
        let holds = decide::holders(queue);
        let place = ours.and_then(|ours| queue.iter().position(|contender| contender.id == *ours));
        let mut parts = Vec::new();
        let others: Vec<_> = queue.iter().zip(&holds).filter(|(other, _)| Some(&other.id) != ours).collect();
        let holders: Vec<_> =
            others.iter().filter(|(other, holds)| **holds && other.frozen.is_none()).map(|(other, _)| *other).collect();
        if let Some((first, rest)) = holders.split_first() {
            parts.push(held_by(first, rest.len(), now_unix));
        }
        // A freeze behind us is for later contenders.
        let ahead = &queue[..place.unwrap_or(queue.len())];
        if let Some((frozen, reason)) = ahead.iter().find_map(|other| Some((other, other.frozen.as_ref()?))) {
            parts.push(format!("frozen by {}: {reason}", who(frozen, now_unix)));
        }
        let in_line =
            place.filter(|&place| !holds[place]).map(|place| holds[..=place].iter().filter(|&&holds| !holds).count());
        let in_line = in_line.map(|number| format!("{} in line, ", ordinal(number))).unwrap_or_default();
        parts.push(format!("{in_line}{}", brief(waited)));
        format!("waiting for {name} ({service}): {}", parts.join("; "))
    }
}

fn held_by(first: &ContenderInfo, more: usize, now_unix: Duration) -> String {
    let asked = first.revocation.as_ref().map_or("", |_| ", who was asked to give up");
    let more = match more {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        more => format!(" and {more} others"),
    };
    format!("held by {}{asked}{more}", who(first, now_unix))
}

fn who(contender: &ContenderInfo, now_unix: Duration) -> String {
    ContenderView::new(contender, now_unix).since_when()
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// Says, after a second, what is waited for: on a terminal once a second in one live line, otherwise once. While the
/// service cannot be reached it says that, and goes on once it can be. Never ends.
///
/// A caller that drops it erases the live line afterwards by [`Voice::clear_status`].
pub(crate) async fn narrate(keeper: &Keeper, name: &str, voice: &Voice) {
    if voice.is_quiet() {
        return std::future::pending().await;
    }
    let clock = SystemClock;
    let start = clock.now();
    let service = keeper.service();
    let mut sight = QueueSight::default();
    let mut witness = QueueWitness::default();
    let mut told = None;
    let tell = |looked: Option<lockkeeper::Result<_>>| {
        let now_unix = clock.unix_time();
        let is_seen = matches!(looked, Some(Ok(_)));
        sight.take(looked);
        if is_seen {
            witness.look(&mut sight.queue, now_unix);
        }
        let ours = voice.contender();
        let waiting = WaitText {
            name,
            service: &service,
            queue: &sight.queue,
            unreachable: sight.unreachable.as_deref(),
            ours: ours.as_ref(),
            waited: clock.now().saturating_duration_since(start),
            now_unix,
        };
        let is_unreachable = sight.unreachable.is_some();
        if voice.is_live() {
            voice.show(&waiting.text());
        } else if sight.is_settled() {
            if told.replace(is_unreachable) != Some(is_unreachable) {
                voice.say(&waiting.text());
            }
            if !is_unreachable {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    };
    look_each_beat(&clock, || keeper.contenders(name), tell).await;
    std::future::pending::<()>().await;
}

/// Begins a look a beat after the start and after each answer, and passes on what came of it, or after each beat that
/// it goes on. Ends when `tell` breaks off.
async fn look_each_beat<Look: Future>(
    clock: &dyn Clock,
    mut look: impl FnMut() -> Look,
    mut tell: impl FnMut(Option<Look::Output>) -> ControlFlow<()>,
) {
    let a_beat = || clock.sleep_until(clock.now().saturating_add(BEAT));
    loop {
        a_beat().await;
        let mut looking = pin!(look());
        let mut is_over = false;
        while !is_over {
            let looked = tokio::select! {
                biased;
                looked = &mut looking => Some(looked),
                () = a_beat() => None,
            };
            is_over = looked.is_some();
            if tell(looked).is_break() {
                return;
            }
        }
    }
}

/// Returns the cause of a failure, as the system words it, without its number.
fn reason(error: &lockkeeper::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = cause.to_string();
    match text.find(" (os error ") {
        Some(at) => {
            let rest = text[at + 1..].find(')').map_or("", |end| &text[at + 2 + end..]);
            format!("{}{rest}", &text[..at])
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper::clock::TestClock;
    use lockkeeper::{Mode, Owner};

    use super::*;

    fn contender(id: &str, owner: Option<Owner>, since_seconds: Option<u64>) -> ContenderInfo {
        let mut info = ContenderInfo::new(ContenderId::new(id), Mode::Mutex);
        info.owner = owner;
        info.since_unix = since_seconds.map(Duration::from_secs);
        info.granted_unix = info.since_unix;
        info
    }

    fn text(queue: &[ContenderInfo], ours: Option<&str>) -> String {
        let ours = ours.map(ContenderId::new);
        WaitText {
            name: "nightly-backup",
            service: "zk://h1",
            queue,
            unreachable: None,
            ours: ours.as_ref(),
            waited: Duration::from_millis(14_900),
            now_unix: Duration::from_secs(1_130),
        }
        .text()
    }

    #[test]
    fn the_holder_the_place_in_line_and_the_time_are_shown() {
        let owner = Some(Owner::new("web-3", 4121, "backup.sh"));
        let queue = [contender("a", owner, Some(1_000)), contender("b", None, None), contender("c", None, None)];
        assert_eq!(
            text(&queue, Some("c")),
            "waiting for nightly-backup (zk://h1): held by web-3 pid 4121 backup.sh for 2m10s; 2nd in line, 14s"
        );
    }

    #[test]
    fn a_holder_that_waited_has_held_it_since_its_grant_or_else_is_here_since_it_joined() {
        let start = "waiting for nightly-backup (zk://h1): ";
        let mut queue = [contender("a", Some(Owner::new("web-3", 4121, "x")), Some(1_123)), contender("b", None, None)];
        queue[0].granted_unix = Some(Duration::from_secs(1_128));
        assert_eq!(text(&queue, Some("b")), format!("{start}held by web-3 pid 4121 x for 2s; 1st in line, 14s"));
        queue[0].granted_unix = None;
        assert_eq!(text(&queue, Some("b")), format!("{start}held by web-3 pid 4121 x, here for 7s; 1st in line, 14s"));
    }

    #[test]
    fn a_holder_without_an_owner_is_named_as_show_names_it() {
        let mut queue = [contender("5d2-__lock__-0000000000", None, Some(1_000)), contender("b", None, None)];
        (queue[0].label, queue[0].granted_unix) = (Some("web-3|4121".to_owned()), None);
        let line = text(&queue, Some("b"));
        let held = "held by 5d2-__lock__-0000000000 (says web-3|4121), here for 2m10s; 1st in line";
        assert!(line.contains(held), "{line}");
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let queue = [contender("a", None, None), contender("b", None, None)];
        let start = "waiting for nightly-backup (zk://h1): ";
        assert_eq!(text(&queue, Some("b")), format!("{start}held by a; 1st in line, 14s"));
        assert_eq!(text(&queue, None), format!("{start}held by a; 14s"));
        assert_eq!(text(&queue, Some("gone")), format!("{start}held by a; 14s"));
        assert_eq!(text(&[], Some("b")), format!("{start}14s"));
        assert_eq!(text(&queue[1..], Some("b")), format!("{start}14s"), "we are first, and about to be told");
    }

    #[test]
    fn a_service_that_cannot_be_reached_is_named_with_the_cause() {
        let waiting = WaitText {
            name: "nightly-backup",
            service: "zk://h1",
            queue: &[],
            unreachable: Some("Connection refused"),
            ours: None,
            waited: Duration::from_secs(14),
            now_unix: Duration::ZERO,
        };
        let expected = "waiting for nightly-backup: cannot reach zk://h1 (Connection refused), trying again; 14s";
        assert_eq!(waiting.text(), expected);
        let refused = std::io::Error::from_raw_os_error(111);
        let error = lockkeeper::Error::transient(
            lockkeeper::ErrorKind::ConnectionLost,
            lockkeeper::Operation::Connect,
            "no session",
        );
        assert_eq!(reason(&error.caused_by(refused)), "Connection refused");
    }

    #[test]
    fn a_service_that_is_slow_is_not_said_to_be_out_of_reach_until_it_has_not_answered_for_some_time() {
        let mut sight = QueueSight::default();
        sight.take(None);
        assert!(!sight.is_settled(), "nothing is known yet");
        sight.take(Some(Ok(modes(&[Mode::Mutex]))));
        for _ in 1..UNANSWERED_MAX {
            sight.take(None);
            assert_eq!((sight.queue.len(), &sight.unreachable), (1, &None), "what was seen last stays");
        }
        sight.take(None);
        assert_eq!(sight.unreachable.as_deref(), Some("no answer"));
        sight.take(Some(Ok(modes(&[Mode::Mutex; 2]))));
        assert_eq!((sight.queue.len(), &sight.unreachable, sight.is_settled()), (2, &None, true));
        let (kind, operation) = (lockkeeper::ErrorKind::ConnectionLost, lockkeeper::Operation::Inspect);
        sight.take(Some(Err(lockkeeper::Error::transient(kind, operation, "connection refused"))));
        sight.take(None);
        assert!(
            sight.unreachable.is_some_and(|why| why.contains("connection refused")),
            "the failure stays until an answer"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_goes_on_from_beat_to_beat_and_five_without_an_answer_are_five_seconds() {
        let clock = TestClock::new();
        let start = clock.now();
        let mut lasting_ms = [0, 2_500, 60_000].into_iter();
        let look = || {
            let lasting = Duration::from_millis(lasting_ms.next().unwrap());
            async move {
                tokio::time::sleep(lasting).await;
                Ok(Vec::new())
            }
        };
        let (mut sight, mut told) = (QueueSight::default(), Vec::new());
        look_each_beat(&clock, look, |looked| {
            let is_answer = looked.is_some();
            sight.take(looked);
            told.push((clock.now().saturating_duration_since(start).as_millis(), is_answer));
            if sight.unreachable.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .await;
        let answers = [(1_000, true), (3_000, false), (4_000, false), (4_500, true)];
        let none = [6_500, 7_500, 8_500, 9_500, 10_500].map(|told| (told, false));
        assert_eq!(told, [&answers[..], &none].concat());
    }

    fn modes(modes: &[Mode]) -> Vec<ContenderInfo> {
        let info = |(number, &mode): (usize, &Mode)| ContenderInfo::new(ContenderId::new(number.to_string()), mode);
        modes.iter().enumerate().map(info).collect()
    }

    #[test]
    fn of_several_holders_one_is_named_and_the_line_is_counted_behind_them() {
        let start = "waiting for nightly-backup (zk://h1): held by 0";
        let readers = modes(&[Mode::Read, Mode::Read, Mode::Write, Mode::Read]);
        assert_eq!(text(&readers, Some("2")), format!("{start} and 1 other; 1st in line, 14s"));
        assert_eq!(text(&readers, Some("3")), format!("{start} and 1 other; 2nd in line, 14s"));
        let semaphore = modes(&[Mode::Permit, Mode::Permit, Mode::Permit, Mode::Acquire, Mode::Acquire]);
        assert_eq!(text(&semaphore, Some("4")), format!("{start} and 2 others; 2nd in line, 14s"));
    }

    #[test]
    fn a_freeze_ahead_is_shown_with_its_reason_and_one_behind_is_not() {
        let start = "waiting for nightly-backup (zk://h1): ";
        let mut queue = modes(&[Mode::Mutex; 4]);
        queue[1].frozen = Some("new disks".to_owned());
        queue[1].owner = Some(Owner::new("ops-1", 7, "lockkeeper"));
        queue[0].revocation = Some(lockkeeper::Revocation::default());
        let frozen = "frozen by ops-1 pid 7 lockkeeper: new disks";
        assert_eq!(
            text(&queue, Some("3")),
            format!("{start}held by 0, who was asked to give up; {frozen}; 3rd in line, 14s")
        );
        assert_eq!(text(&queue[1..], Some("2")), format!("{start}{frozen}; 1st in line, 14s"));
        queue.swap(1, 3);
        assert!(!text(&queue, Some("1")).contains("frozen"));
    }

    #[test]
    fn a_holder_from_the_future_has_held_it_for_no_time() {
        let queue = [contender("a", None, Some(9_999)), contender("b", None, None)];
        assert!(text(&queue, None).contains("held by a for 0s"));
    }

    #[test]
    fn ordinals_are_english() {
        let shown: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 101, 111, 112].map(ordinal).to_vec();
        assert_eq!(shown, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "101st", "111th", "112th"]);
    }
}
