//! Operators' logins. A session is known by a random text in its cookie, of which only the digest is kept; it has
//! another one for its forms. They are in memory alone: after a restart all have to log in again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lockkeeper::clock::BootInstant;
use subtle::ConstantTimeEq as _;

use super::token::digest;

/// How long a session lasts, whatever is done in it: a day's work.
pub(super) const SESSION_LASTS: Duration = Duration::from_secs(8 * 3_600);

/// How many there are at most: some for each operator. The oldest one ends for a new one.
const SESSIONS_MAX: usize = 64;

/// How many outcomes a session keeps to show: those of its last orders.
const TOLD_MAX: usize = 16;

/// A session, as it is named here.
pub(super) type SessionKey = [u8; 32];

#[derive(Debug, Default)]
pub(super) struct OperatorSessions {
    open: BTreeMap<SessionKey, OperatorSession>,
}

#[derive(Debug)]
struct OperatorSession {
    opened: BootInstant,
    secret: String,
    /// What came of its orders, by their numbers.
    told: VecDeque<(u64, String)>,
    next: u64,
}

impl OperatorSessions {
    /// Opens one, which is known by `id` and whose forms carry `secret`, both random.
    pub(super) fn open(&mut self, id: &str, secret: String, now: BootInstant) {
        self.end_old(now);
        if self.open.len() >= SESSIONS_MAX
            && let Some(oldest) = self.open.iter().min_by_key(|(_, session)| session.opened).map(|(key, _)| *key)
        {
            self.open.remove(&oldest);
        }
        self.open.insert(digest(id), OperatorSession { opened: now, secret, told: VecDeque::new(), next: 1 });
    }

    pub(super) fn find(&mut self, id: &str, now: BootInstant) -> Option<SessionKey> {
        self.end_old(now);
        let key = digest(id);
        self.open.contains_key(&key).then_some(key)
    }

    pub(super) fn close(&mut self, key: &SessionKey) {
        self.open.remove(key);
    }

    pub(super) fn secret(&self, key: &SessionKey) -> Option<&str> {
        self.open.get(key).map(|session| session.secret.as_str())
    }

    /// Tells whether a form carries what those of this session do.
    pub(super) fn is_of(&self, key: &SessionKey, secret: &str) -> bool {
        self.secret(key).is_some_and(|known| known.as_bytes().ct_eq(secret.as_bytes()).into())
    }

    /// Keeps what came of an order, and returns its number; a session that is over keeps nothing.
    pub(super) fn tell(&mut self, key: &SessionKey, text: String) -> Option<u64> {
        let session = self.open.get_mut(key)?;
        let number = session.next;
        session.next += 1;
        if session.told.len() >= TOLD_MAX {
            session.told.pop_front();
        }
        session.told.push_back((number, text));
        Some(number)
    }

    /// Says something else under a number.
    pub(super) fn tell_again(&mut self, key: &SessionKey, number: u64, text: String) {
        let told = self.open.get_mut(key).into_iter().flat_map(|session| &mut session.told);
        told.filter(|(one, _)| *one == number).for_each(|(_, old)| old.clone_from(&text));
    }

    pub(super) fn told(&self, key: &SessionKey, number: u64) -> Option<&str> {
        self.open.get(key)?.told.iter().find(|(one, _)| *one == number).map(|(_, text)| text.as_str())
    }

    fn end_old(&mut self, now: BootInstant) {
        self.open.retain(|_, session| now.saturating_duration_since(session.opened) < SESSION_LASTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_nanos(0).saturating_add(Duration::from_secs(seconds))
    }

    #[test]
    fn a_session_ends_after_eight_hours_or_when_it_is_closed_and_forms_are_of_one_session() {
        let mut sessions = OperatorSessions::default();
        sessions.open("a", "of a".to_owned(), at(100));
        sessions.open("b", "of b".to_owned(), at(200));
        let (a, b) = (sessions.find("a", at(300)).unwrap(), sessions.find("b", at(300)).unwrap());
        assert!(sessions.is_of(&a, "of a") && sessions.is_of(&b, "of b"));
        assert!(!sessions.is_of(&a, "of b") && !sessions.is_of(&a, "") && !sessions.is_of(&[0; 32], ""));
        assert!(sessions.find("c", at(300)).is_none());
        let eight_hours = 8 * 3_600;
        assert!(sessions.find("a", at(100 + eight_hours - 1)).is_some());
        assert!(sessions.find("a", at(100 + eight_hours)).is_none());
        assert!(!sessions.is_of(&a, "of a") && sessions.find("b", at(100 + eight_hours)).is_some());
        sessions.close(&b);
        assert!(sessions.find("b", at(300)).is_none());
    }

    #[test]
    fn the_oldest_session_ends_for_one_too_many_and_the_oldest_outcome_is_forgotten() {
        let mut sessions = OperatorSessions::default();
        for number in 0..=SESSIONS_MAX as u64 {
            sessions.open(&number.to_string(), String::new(), at(number));
        }
        assert!(sessions.find("0", at(100)).is_none());
        let key = sessions.find("1", at(100)).unwrap();
        for number in 1..=TOLD_MAX as u64 + 1 {
            assert_eq!(sessions.tell(&key, number.to_string()), Some(number));
        }
        assert_eq!((sessions.told(&key, 1), sessions.told(&key, 2)), (None, Some("2")));
        sessions.tell_again(&key, 2, "done".to_owned());
        assert_eq!(sessions.told(&key, 2), Some("done"));
        assert_eq!(sessions.tell(&[0; 32], String::new()), None);
    }
}
