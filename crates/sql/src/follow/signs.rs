//! Sessions without a sign of life, as an onlooker sees them, and which contenders went with such a session: a rule of
//! events and times, without a clock or a connection.
//!
//! The time counts on the onlooker's own clock, from the moment when it received the first answer that showed a beat,
//! as it does for the sessions that observe each other. Over a new connection all is seen anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ContenderId, ContenderInfo, SilentSession};

use crate::timing::SessionBeat;

/// A session is silent when its beat has stood still for this part of its timeout: it beats several times in that.
const SILENT_DIVISOR: u32 = 2;

/// A session that is gone has lost what it held if its beat had stood still for this part of its timeout at the last
/// look that showed it, and can have stood still for the whole one when it was gone: one that was silent for less may
/// have beaten and closed between two looks.
const LOST_PARTS: (u32, u32) = (3, 4);

/// By this part of its timeout a beat may be older than it seems, at most. The sessions that remove a silent one may
/// have seen its beat right after the look before, and looks are further apart than what they wait longer than its
/// timeout.
const OLDER_DIVISOR: u32 = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct LookTime {
    /// Before it was asked for.
    pub(super) began: BootInstant,
    /// When its answer was received.
    pub(super) ended: BootInstant,
}

/// The sessions of all contenders, as one look after the other has shown them.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// By the name that contenders have their session by.
    sessions: BTreeMap<String, SeenSession>,
    /// When the last look began.
    last: Option<BootInstant>,
    /// Those that are gone since the look before, were silent for most of their timeout at that one, and may have been
    /// for all of it at this one.
    ended: Vec<String>,
}

#[derive(Debug)]
struct SeenSession {
    shown: SessionBeat,
    /// When the first answer was received that showed this beat.
    since: BootInstant,
    /// When the look before that one began: the beat may have come right after it.
    earliest: BootInstant,
    /// When the last look began that has shown it.
    last: BootInstant,
}

impl SeenSession {
    fn is_silent(&self) -> bool {
        self.silence() >= self.timeout() / SILENT_DIVISOR
    }

    fn is_nearly_lost(&self) -> bool {
        let (part, of) = LOST_PARTS;
        self.silence() >= self.timeout() / of * part
    }

    /// Whether it can have been removed for its silence, if it was gone at this time.
    fn can_be_lost(&self, gone_at: BootInstant) -> bool {
        let older = self.since.saturating_duration_since(self.earliest).min(self.timeout() / OLDER_DIVISOR);
        self.is_nearly_lost() && gone_at.saturating_duration_since(self.since) + older >= self.timeout()
    }

    /// For how long its beat had stood still at the last look that has shown it.
    fn silence(&self) -> Duration {
        self.last.saturating_duration_since(self.since)
    }

    const fn timeout(&self) -> Duration {
        self.shown.timing.timeout
    }
}

impl Signs {
    /// Takes in what a look has shown.
    pub(super) fn take(&mut self, beats: Vec<SessionBeat>, looked: LookTime) {
        let mut before = std::mem::take(&mut self.sessions);
        // Before the first look nothing is known.
        let look_before = self.last.replace(looked.began).unwrap_or(looked.ended);
        for shown in beats {
            let name = shown.session.to_string();
            let (since, earliest) = match before.remove(&name) {
                Some(seen) if seen.shown == shown => (seen.since, seen.earliest),
                _ => (looked.ended, look_before),
            };
            self.sessions.insert(name, SeenSession { shown, since, earliest, last: looked.began });
        }
        // One that is removed was silent for its whole timeout, and one that has closed has shown that it lives.
        let ended = before.into_iter().filter(|(_, seen)| seen.can_be_lost(looked.ended));
        self.ended = ended.map(|(name, _)| name).collect();
    }

    /// Returns the sessions that were silent at the last look.
    pub(super) fn silent(&self) -> Vec<SilentSession> {
        let silent = self.sessions.iter().filter(|(_, seen)| seen.is_silent());
        silent.map(|(name, seen)| SilentSession::new(name.as_str(), seen.since, seen.timeout())).collect()
    }

    /// Names those of a lock's contenders at the look before that went with their session.
    pub(super) fn lost(&self, before: &[Arc<ContenderInfo>]) -> Vec<ContenderId> {
        let has_ended = |session: &String| self.ended.contains(session);
        let lost = before.iter().filter(|info| info.session.as_ref().is_some_and(has_ended));
        lost.map(|info| info.id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::Mode;

    use super::*;
    use crate::statement::SessionNumber;
    use crate::timing::Timing;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_nanos(seconds * 1_000_000_000)
    }

    /// A session of ten seconds.
    fn shown(session: u128, beat: i64) -> SessionBeat {
        let timing = Timing { timeout: Duration::from_secs(10) };
        SessionBeat { session: SessionNumber(session), epoch: 1, beat, timing }
    }

    /// A look that has taken no time.
    fn look(signs: &mut Signs, beats: &[(u128, i64)], second: u64) {
        let beats = beats.iter().map(|&(session, beat)| shown(session, beat)).collect();
        signs.take(beats, LookTime { began: at(second), ended: at(second) });
    }

    /// A look that shows no session, at this time.
    fn gone(signs: &mut Signs, at_ms: u64) {
        let at = BootInstant::from_nanos(at_ms * 1_000_000);
        signs.take(Vec::new(), LookTime { began: at, ended: at });
    }

    fn silent(signs: &Signs) -> Vec<(String, BootInstant)> {
        let number = |name: &str| name.trim_start_matches('0').to_owned();
        signs.silent().iter().map(|silence| (number(&silence.session), silence.since)).collect()
    }

    fn contender(session: u128) -> Arc<ContenderInfo> {
        let mut info = ContenderInfo::new(ContenderId::new(format!("of {session}")), Mode::Mutex);
        info.session = Some(SessionNumber(session).to_string());
        Arc::new(info)
    }

    fn lost(signs: &Signs) -> Vec<String> {
        signs.lost(&[contender(1), contender(2)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_session_is_silent_from_half_its_timeout_on_until_its_next_beat() {
        let mut signs = Signs::default();
        for (second, beat, expected) in [
            (0, 1, None),
            (4, 1, None),
            (5, 1, Some(0)),
            (9, 1, Some(0)),
            (10, 2, None),
            (14, 2, None),
            (16, 2, Some(10)),
        ] {
            look(&mut signs, &[(1, beat), (2, i64::try_from(second).unwrap())], second);
            let expected: Vec<_> = expected.map(|since| ("1".to_owned(), at(since))).into_iter().collect();
            assert_eq!(silent(&signs), expected, "{second}");
        }
    }

    #[test]
    fn a_session_that_has_gone_after_its_whole_timeout_in_silence_has_lost_what_it_held() {
        let mut signs = Signs::default();
        for second in [0, 4, 8] {
            look(&mut signs, &[(1, 1), (2, 1)], second);
            assert!(lost(&signs).is_empty());
        }
        look(&mut signs, &[(2, 1)], 11);
        assert_eq!(lost(&signs), ["of 1"]);
        look(&mut signs, &[(2, 2)], 12);
        assert!(lost(&signs).is_empty(), "it is told once");
    }

    /// Those that remove it count from when they saw its beat, which may be right after the look before.
    #[test]
    fn a_beat_may_be_as_old_as_the_look_before_the_one_that_showed_it_within_limits() {
        for (before, gone_at_ms, is_lost) in
            [(0, 10_000, true), (0, 9_900, false), (1, 10_000, false), (1, 11_000, true)]
        {
            let mut signs = Signs::default();
            look(&mut signs, &[(1, 1)], before);
            look(&mut signs, &[(1, 2)], 1);
            look(&mut signs, &[(1, 2)], 9);
            gone(&mut signs, gone_at_ms);
            assert_eq!(!lost(&signs).is_empty(), is_lost, "looked at {before}, gone at {gone_at_ms} ms");
        }
        let mut signs = Signs::default();
        look(&mut signs, &[(1, 1)], 0);
        look(&mut signs, &[(1, 2)], 20);
        look(&mut signs, &[(1, 2)], 28);
        gone(&mut signs, 28_500);
        assert!(lost(&signs).is_empty(), "a silence of eight seconds and a half, for all that is known");
    }

    #[test]
    fn a_session_that_closes_is_no_loss_however_long_it_was_not_looked_at() {
        let mut signs = Signs::default();
        look(&mut signs, &[(1, 1)], 0);
        // It was silent for less than its timeout, or was not seen to be silent at all.
        look(&mut signs, &[(1, 1)], 6);
        look(&mut signs, &[], 8);
        assert!(lost(&signs).is_empty());
        look(&mut signs, &[(1, 9)], 10);
        look(&mut signs, &[], 40);
        assert!(lost(&signs).is_empty());
        // It may have beaten after the last look, and then closed.
        look(&mut signs, &[(1, 9)], 50);
        look(&mut signs, &[(1, 9)], 57);
        look(&mut signs, &[], 61);
        assert!(lost(&signs).is_empty());
    }

    #[test]
    fn a_silence_counts_from_the_end_of_one_look_to_the_beginning_of_another() {
        let mut signs = Signs::default();
        for began in [0, 6] {
            signs.take(vec![shown(1, 1)], LookTime { began: at(began), ended: at(began + 3) });
        }
        assert!(silent(&signs).is_empty(), "it may have been shown late at first");
        signs.take(vec![shown(1, 1)], LookTime { began: at(8), ended: at(30) });
        assert_eq!(silent(&signs), [("1".to_owned(), at(3))]);
    }
}
