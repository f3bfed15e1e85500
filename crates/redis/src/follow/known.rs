//! The known state of the followed locks: how they looked last, and which of them a key or a session belongs to. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockkeeper_core::{ContenderInfo, LockSnapshot, QueueName, Scope, Ticket};

use crate::layout::KeySubject;

#[derive(Debug)]
pub(super) struct FollowedNames {
    scope: Scope,
    /// By their encoded names.
    locks: BTreeMap<String, LockSnapshot>,
    /// The locks of contenders, by the latters' tickets.
    tickets: BTreeMap<Ticket, QueueName>,
}

/// Which lock is meant by a key.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum LockOfKey<'a> {
    Lock(QueueName),
    /// One that is not known, by what keys have in place of its name.
    Digest(&'a str),
    None,
}

impl FollowedNames {
    pub(super) const fn new(scope: Scope) -> Self {
        Self { scope, locks: BTreeMap::new(), tickets: BTreeMap::new() }
    }

    pub(super) fn is_followed(&self, name: &QueueName) -> bool {
        name.as_str().starts_with(&self.scope.prefix) || self.scope.also.contains(name)
    }

    /// Finds the lock that looks otherwise when a key has changed. A record that is not known is that of a contender
    /// whose queue has changed too.
    pub(super) fn lock_of<'a>(&self, subject: KeySubject<'a>) -> LockOfKey<'a> {
        let name = match subject {
            KeySubject::Record(ticket) => self.tickets.get(&ticket).cloned(),
            KeySubject::Lock(encoded) => match self.locks.get(encoded) {
                Some(known) => Some(known.lock.clone()),
                None if QueueName::is_digest(encoded) => return self.asked_for(encoded),
                None => QueueName::decode(encoded),
            },
            KeySubject::Plain(name) => QueueName::new(name).ok(),
            KeySubject::Nothing => None,
        };
        name.filter(|name| self.is_followed(name)).map_or(LockOfKey::None, LockOfKey::Lock)
    }

    fn asked_for<'a>(&self, digest: &'a str) -> LockOfKey<'a> {
        let name = self.scope.also.iter().find(|name| name.encoded() == digest);
        name.map_or(LockOfKey::Digest(digest), |name| LockOfKey::Lock(name.clone()))
    }

    /// Names the locks with contenders of these sessions.
    pub(super) fn locks_with(&self, is_meant: impl Fn(&str) -> bool) -> Vec<QueueName> {
        let is_one = |info: &Arc<ContenderInfo>| info.session.as_deref().is_some_and(&is_meant);
        let locks = self.locks.values().filter(|now| now.contenders.iter().any(is_one));
        locks.map(|now| now.lock.clone()).collect()
    }

    /// Returns the contenders of a lock as it was seen last.
    pub(super) fn contenders(&self, name: &QueueName) -> &[Arc<ContenderInfo>] {
        self.locks.get(&*name.encoded()).map_or(&[], |now| &now.contenders)
    }

    /// Takes in how a lock looks; returns it if it looked otherwise before.
    pub(super) fn see(&mut self, name: &QueueName, contenders: Vec<Arc<ContenderInfo>>) -> Option<LockSnapshot> {
        // A plain lock of another client is none of ours while no contender of ours wants it.
        let is_ours = contenders.iter().any(|info| info.ticket.is_some()) || self.scope.also.contains(name);
        let contenders = if is_ours { contenders } else { Vec::new() };
        let encoded = name.encoded();
        let old = self.locks.remove(&encoded).map(|now| now.contenders).unwrap_or_default();
        for ticket in old.iter().filter_map(|info| info.ticket) {
            self.tickets.remove(&ticket);
        }
        self.tickets.extend(contenders.iter().filter_map(|info| info.ticket).map(|ticket| (ticket, name.clone())));
        let is_other = old != contenders;
        let now = LockSnapshot::new(name.clone(), contenders);
        if !now.contenders.is_empty() {
            self.locks.insert(encoded, now.clone());
        }
        is_other.then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{ContenderId, Mode};

    use super::*;

    fn name(text: &str) -> QueueName {
        QueueName::new(text).unwrap()
    }

    fn contender(bits: u128, session: &str) -> Arc<ContenderInfo> {
        let mut info = outliving(bits);
        Arc::make_mut(&mut info).session = Some(session.to_owned());
        info
    }

    fn outliving(bits: u128) -> Arc<ContenderInfo> {
        let mut info = ContenderInfo::new(ContenderId::new(bits.to_string()), Mode::Mutex);
        info.ticket = Some(Ticket::from_bits(bits));
        Arc::new(info)
    }

    #[test]
    fn a_lock_is_told_when_it_looks_otherwise_and_once_when_it_is_empty() {
        let mut known = FollowedNames::new(Scope::below_base("a"));
        let counts = |now: Option<LockSnapshot>| now.map(|now| now.contenders.len());
        let contenders = vec![contender(1, "s"), contender(2, "t")];
        assert_eq!(counts(known.see(&name("a"), contenders.clone())), Some(2));
        assert_eq!(counts(known.see(&name("a"), contenders)), None);
        assert_eq!(counts(known.see(&name("a"), vec![contender(2, "t")])), Some(1));
        assert_eq!(counts(known.see(&name("a"), Vec::new())), Some(0));
        assert_eq!(counts(known.see(&name("a"), Vec::new())), None);
        assert!(known.locks.is_empty() && known.tickets.is_empty());
    }

    #[test]
    fn a_key_is_of_a_lock_that_is_followed_and_a_record_of_the_lock_of_its_contender() {
        let long = name(&format!("a{}", "é".repeat(90)));
        let mut known = FollowedNames::new(Scope::below_base("a").with(name("else")));
        known.see(&name("a/b"), vec![contender(1, "s"), contender(2, "t")]);
        let lock = |text: &str| LockOfKey::Lock(name(text));
        assert_eq!(known.lock_of(KeySubject::Record(Ticket::from_bits(2))), lock("a/b"));
        assert_eq!(known.lock_of(KeySubject::Record(Ticket::from_bits(3))), LockOfKey::None);
        assert_eq!(known.lock_of(KeySubject::Lock("a%2Fnew")), lock("a/new"));
        assert_eq!(known.lock_of(KeySubject::Plain("else")), lock("else"));
        for other in [KeySubject::Lock("b"), KeySubject::Plain("other"), KeySubject::Nothing] {
            assert_eq!(known.lock_of(other), LockOfKey::None, "{other:?}");
        }
        let digest = long.encoded();
        assert_eq!(known.lock_of(KeySubject::Lock(&digest)), LockOfKey::Digest(&digest));
        known.see(&long, vec![contender(4, "s")]);
        assert_eq!(known.lock_of(KeySubject::Lock(&digest)), LockOfKey::Lock(long));
    }

    #[test]
    fn the_locks_of_a_session_are_found_and_those_that_outlive_theirs_are_of_none() {
        let mut known = FollowedNames::new(Scope::default());
        known.see(&name("a"), vec![contender(1, "s"), contender(2, "t")]);
        known.see(&name("b"), vec![contender(3, "t")]);
        known.see(&name("c"), vec![outliving(4)]);
        assert_eq!(known.locks_with(|session| session == "t"), [name("a"), name("b")]);
        assert_eq!(known.locks_with(|_| true), [name("a"), name("b")]);
        assert_eq!(known.locks_with(|session| session == "s"), [name("a")]);
    }

    #[test]
    fn a_plain_lock_is_shown_where_a_contender_of_ours_wants_it_or_it_is_asked_for() {
        let foreign = Arc::new(ContenderInfo::new(ContenderId::new("plain:1"), Mode::Mutex));
        let mut known = FollowedNames::new(Scope::default().with(name("asked")));
        assert!(known.see(&name("a"), vec![foreign.clone(), contender(1, "s")]).is_some());
        assert_eq!(known.see(&name("a"), vec![foreign.clone()]).map(|now| now.contenders), Some(Vec::new()));
        assert_eq!(known.see(&name("asked"), vec![foreign]).map(|now| now.contenders.len()), Some(1));
    }
}
