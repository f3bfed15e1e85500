//! The known state of the followed locks: keys come, change and go, and their locks are reported as changed. Pure. What
//! a lock looks like is left to `look`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockkeeper_core::{LockSnapshot, PassedBetween, QueueName, Scope};

use crate::layout::Layout;
use crate::look::{ShownContender, in_order, name_in};
use crate::proto::KeyValue;
use crate::session::TokenEpoch;

#[derive(Debug)]
pub(super) struct FollowedLocks {
    layout: Layout,
    prefix: String,
    /// Further locks that are followed, by their names in keys.
    also: BTreeMap<String, QueueName>,
    /// `None` before the service's first session.
    first_token: Option<u64>,
    /// By their names in keys.
    locks: BTreeMap<String, FollowedLock>,
    /// Locks that may have changed since their last report.
    changed: BTreeSet<String>,
}

#[derive(Debug)]
struct FollowedLock {
    name: QueueName,
    contenders: BTreeMap<Vec<u8>, FollowedContender>,
    /// Whether its last report had contenders.
    is_told: bool,
    /// The keys of those that came since its last report, and who of them has gone.
    came: BTreeSet<Vec<u8>>,
    passed: PassedBetween,
}

#[derive(Debug, Eq, PartialEq)]
struct FollowedContender {
    seen: ShownContender,
    /// Whether a lock that has it is named among the locks of the service: beside the keys of other clients' contenders
    /// may lie any.
    is_named: bool,
}

impl FollowedLock {
    fn new(name: QueueName) -> Self {
        let (contenders, came, passed) = (BTreeMap::new(), BTreeSet::new(), PassedBetween::default());
        Self { name, contenders, is_told: false, came, passed }
    }

    fn set_tokens(&mut self, first_token: Option<u64>) {
        self.contenders.values_mut().for_each(|contender| contender.seen.set_token(first_token));
    }
}

impl FollowedLocks {
    pub(super) fn new(layout: &Layout, scope: &Scope) -> Self {
        let by_text = |name: &QueueName| {
            let key = layout.lock(name);
            layout.divide(&key).map(|(lock, _)| (lock.to_owned(), name.clone()))
        };
        Self {
            layout: layout.clone(),
            prefix: scope.prefix.clone(),
            also: scope.also.iter().filter_map(by_text).collect(),
            first_token: None,
            locks: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// The prefixes of the keys to be read and watched, none of which is a prefix of another.
    pub(super) fn prefixes(layout: &Layout, scope: &Scope) -> Vec<Vec<u8>> {
        let also = scope.also.iter().map(|name| layout.lock(name));
        let all: BTreeSet<_> = also.chain([layout.queues(&scope.prefix), layout.offset()]).collect();
        let mut prefixes: Vec<Vec<u8>> = Vec::new();
        // What begins with another one comes behind it.
        for prefix in all {
            if prefixes.last().is_none_or(|last| !prefix.starts_with(last)) {
                prefixes.push(prefix);
            }
        }
        prefixes
    }

    pub(super) fn put(&mut self, kv: &KeyValue) {
        if kv.key == self.layout.offset() {
            let epoch = TokenEpoch::read(kv);
            self.begin_tokens_at(epoch.map(|epoch| self.layout.first_token(epoch.offset)));
            return;
        }
        let Some((text, _)) = self.layout.divide(&kv.key) else {
            return;
        };
        let Some(name) = self.name_of(text, kv) else {
            return;
        };
        let Some(seen) = ShownContender::read(&self.layout, &name, kv) else {
            return;
        };
        let contender = FollowedContender { seen, is_named: self.layout.lock_of(kv).is_some() };
        let lock = self.locks.entry(text.to_owned()).or_insert_with(|| FollowedLock::new(name));
        if lock.contenders.insert(kv.key.clone(), contender).is_none() {
            lock.came.insert(kv.key.clone());
        }
        self.changed.insert(text.to_owned());
    }

    pub(super) fn delete(&mut self, key: &[u8]) {
        if key == self.layout.offset() {
            self.begin_tokens_at(None);
            return;
        }
        let Some((text, _)) = self.layout.divide(key) else {
            return;
        };
        let Some(lock) = self.locks.get_mut(text) else {
            return;
        };
        let Some(gone) = lock.contenders.remove(key) else {
            return;
        };
        if lock.came.remove(key) && gone.is_named {
            let gone = in_order(vec![gone.seen], self.first_token).into_iter().map(Arc::unwrap_or_clone);
            gone.for_each(|info| lock.passed.add(info));
        }
        self.changed.insert(text.to_owned());
    }

    /// Replaces the known state by that of a newer look.
    pub(super) fn renew(&mut self, newer: Self) {
        self.begin_tokens_at(newer.first_token);
        let mut found = newer.locks;
        self.locks.values_mut().chain(found.values_mut()).for_each(|lock| lock.set_tokens(self.first_token));
        for (text, lock) in &mut self.locks {
            let contenders = found.remove(text).map(|lock| lock.contenders).unwrap_or_default();
            if lock.contenders != contenders {
                lock.contenders = contenders;
                lock.came.clear();
                self.changed.insert(text.clone());
            }
        }
        self.changed.extend(found.keys().cloned());
        self.locks.append(&mut found);
    }

    fn begin_tokens_at(&mut self, first_token: Option<u64>) {
        if self.first_token != first_token {
            self.first_token = first_token;
            self.changed.extend(self.locks.keys().cloned());
        }
    }

    fn name_of(&self, text: &str, kv: &KeyValue) -> Option<QueueName> {
        let known = self.locks.get(text).map(|lock| &lock.name).or_else(|| self.also.get(text)).cloned();
        let name = known.or_else(|| self.layout.lock_name(text)).or_else(|| name_in(&kv.value))?;
        let is_followed = name.as_str().starts_with(&self.prefix) || self.also.contains_key(text);
        (is_followed && self.layout.refusal(&name).is_none()).then_some(name)
    }

    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    pub(super) fn all(&mut self) -> Vec<LockSnapshot> {
        self.changed = self.locks.keys().cloned().collect();
        self.locks.values_mut().for_each(|lock| lock.is_told = false);
        self.changes()
    }

    /// Shows the changed locks, and forgets the empty ones.
    pub(super) fn changes(&mut self) -> Vec<LockSnapshot> {
        let changed = std::mem::take(&mut self.changed);
        changed.iter().filter_map(|text| self.show(text)).collect()
    }

    /// Shows a lock; `None` if it has no contenders and its last report had none.
    fn show(&mut self, text: &str) -> Option<LockSnapshot> {
        let is_asked_for = self.also.contains_key(text);
        let lock = self.locks.get_mut(text)?;
        // Where they are kept, so that all tellings share them.
        lock.set_tokens(self.first_token);
        let is_shown = is_asked_for || lock.contenders.values().any(|contender| contender.is_named);
        let seen = lock.contenders.values().filter(|_| is_shown).map(|contender| contender.seen.clone());
        let now = LockSnapshot::new(lock.name.clone(), in_order(seen.collect(), self.first_token));
        let was_told = std::mem::replace(&mut lock.is_told, !now.contenders.is_empty());
        lock.came.clear();
        let now = now.after(std::mem::take(&mut lock.passed));
        if lock.contenders.is_empty() {
            self.locks.remove(text);
        }
        (was_told || !now.contenders.is_empty() || !now.between.is_empty()).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::FencingToken;

    use super::*;
    use crate::layout::KeyNaming;

    fn kv(key: &str, revision: i64, lease: i64) -> KeyValue {
        let key = key.as_bytes().to_vec();
        KeyValue { key, create_revision: revision, mod_revision: revision, lease, ..KeyValue::default() }
    }

    fn known(naming: KeyNaming, scope: &Scope) -> FollowedLocks {
        FollowedLocks::new(&Layout::new("/x", naming), scope)
    }

    fn shown(locks: &[LockSnapshot]) -> Vec<String> {
        let tokens = |now: &LockSnapshot| {
            let token = |token: Option<FencingToken>| token.map_or_else(|| "-".to_owned(), |token| token.to_string());
            now.contenders.iter().map(|info| token(info.token)).collect::<Vec<_>>().join(" ")
        };
        locks.iter().map(|now| format!("{}: {}", now.lock, tokens(now))).collect()
    }

    fn key(lock: &str, slot: u32) -> String {
        format!("/x/q/{lock}/l/m/00000000/00000000000007ae-{slot:08x}.0000")
    }

    #[test]
    fn a_lock_is_told_when_a_contender_comes_or_goes_and_once_when_it_is_empty() {
        let mut known = known(KeyNaming::Ours, &Scope::below_base("a"));
        known.put(&KeyValue { value: b"1000".to_vec(), ..kv("/x/e", 1, 0) });
        for (lock, slot, revision) in [("a", 2, 7), ("a", 1, 8), ("b", 3, 9), ("a%2Fb", 4, 10)] {
            known.put(&kv(&key(lock, slot), revision, 1));
        }
        assert_eq!(shown(&known.all()), ["a: 1007 1008", "a/b: 1010"]);
        assert!(!known.has_changed());
        known.delete(key("a", 2).as_bytes());
        known.delete(key("c", 2).as_bytes());
        assert_eq!(shown(&known.changes()), ["a: 1008"]);
        known.delete(key("a", 1).as_bytes());
        assert_eq!(shown(&known.changes()), ["a: "]);
        known.put(&kv(&key("a", 1), 11, 1));
        known.delete(key("a", 1).as_bytes());
        let passed = known.changes();
        assert_eq!((shown(&passed), passed[0].between.told.len()), (vec!["a: ".to_owned()], 1), "it came and went");
        assert!(known.changes().is_empty(), "that is told once");
        known.put(&KeyValue { value: b"2000".to_vec(), ..kv("/x/e", 12, 0) });
        assert_eq!(shown(&known.changes()), ["a/b: 2010"]);
    }

    #[test]
    fn of_another_look_only_what_differs_is_told() {
        let look = |offset: &str, held: &[(&str, u32, i64)]| {
            let mut known = known(KeyNaming::Ours, &Scope::default());
            known.put(&KeyValue { value: offset.as_bytes().to_vec(), ..kv("/x/e", 1, 0) });
            held.iter().for_each(|&(lock, slot, revision)| known.put(&kv(&key(lock, slot), revision, 1)));
            known
        };
        let mut known = look("1000", &[("a", 1, 5), ("b", 1, 6), ("c", 1, 7)]);
        known.all();
        known.put(&kv(&key("d", 1), 8, 1));
        known.renew(look("1000", &[("b", 1, 6), ("c", 2, 9), ("d", 1, 8), ("e", 1, 10)]));
        assert_eq!(shown(&known.changes()), ["a: ", "c: 1009", "d: 1008", "e: 1010"]);
        known.renew(look("1000", &[("b", 1, 6), ("c", 2, 9), ("d", 1, 8), ("e", 1, 10)]));
        assert!(!known.has_changed());
        known.renew(look("2000", &[("b", 1, 6)]));
        assert_eq!(shown(&known.changes()), ["b: 2006", "c: ", "d: ", "e: "]);
    }

    #[test]
    fn a_contender_that_has_not_changed_is_shared_by_all_tellings() {
        let mut known = known(KeyNaming::Ours, &Scope::default());
        known.put(&KeyValue { value: b"1000".to_vec(), ..kv("/x/e", 1, 0) });
        known.put(&kv(&key("a", 1), 7, 1));
        let before = known.all();
        known.put(&kv(&key("a", 2), 8, 1));
        let after = known.changes();
        assert_eq!((shown(&before), shown(&after)), (vec!["a: 1007".to_owned()], vec!["a: 1007 1008".to_owned()]));
        assert!(Arc::ptr_eq(&before[0].contenders[0], &after[0].contenders[0]));
    }

    #[test]
    fn who_came_and_went_between_two_reports_is_told_with_its_token() {
        let mut known = known(KeyNaming::Ours, &Scope::default());
        known.put(&KeyValue { value: b"1000".to_vec(), ..kv("/x/e", 1, 0) });
        known.put(&kv(&key("a", 1), 7, 0x7ae));
        known.all();
        let tokens = |now: &LockSnapshot| -> Vec<_> {
            now.between.told.iter().map(|info| info.token.map(FencingToken::as_u64)).collect()
        };
        for slot in [2, 3] {
            known.put(&kv(&key("a", slot), 6 + i64::from(slot), 0x7ae));
            known.delete(key("a", slot).as_bytes());
        }
        let changed = known.changes();
        assert_eq!((shown(&changed), tokens(&changed[0])), (vec!["a: 1007".to_owned()], vec![Some(1008), Some(1009)]));
        known.delete(key("a", 1).as_bytes());
        assert!(known.changes()[0].between.is_empty(), "it was told of before");
        known.put(&kv(&key("a", 4), 11, 0x7ae));
        known.delete(key("a", 4).as_bytes());
        assert_eq!(tokens(&known.changes()[0]), [Some(1011)], "also of a lock that was and is empty");
        assert!(known.locks.is_empty());
    }

    #[test]
    fn among_shared_names_a_stray_key_stands_in_a_lock_but_makes_none() {
        let asked_for = QueueName::new("else").unwrap();
        let mut known = known(KeyNaming::Etcdctl, &Scope::below_base("d").with(asked_for));
        for (key, lease) in
            [("door/7ae", 0x7ae), ("door/stray", 0), ("den/stray", 0), ("else/stray", 0), ("f/7ae", 0x7ae)]
        {
            known.put(&kv(key, 5, lease));
        }
        assert_eq!(shown(&known.all()), ["door: - -", "else: -"]);
        known.delete(b"door/7ae");
        assert_eq!(shown(&known.changes()), ["door: "], "what is left are no contenders of a lock");
        known.put(&kv("door/7af", 9, 0x7af));
        assert_eq!(shown(&known.changes()), ["door: - -"]);
    }

    #[test]
    fn what_lies_in_another_range_is_not_watched_twice() {
        let name = |name: &str| QueueName::new(name).unwrap();
        let prefixes = |naming, scope: &Scope| {
            let prefixes = FollowedLocks::prefixes(&Layout::new("/x", naming), scope);
            prefixes.into_iter().map(|prefix| String::from_utf8(prefix).unwrap()).collect::<Vec<_>>()
        };
        let scope = Scope::below_base("a/b").with(name("a")).with(name("c")).with(name("a/b/c"));
        assert_eq!(prefixes(KeyNaming::Ours, &scope), ["/x/e", "/x/q/"]);
        assert_eq!(prefixes(KeyNaming::Etcdctl, &scope), ["/x/e", "a/", "c/"]);
        assert_eq!(prefixes(KeyNaming::Etcdctl, &Scope::default()), [""]);
    }
}
