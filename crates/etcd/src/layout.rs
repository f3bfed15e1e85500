//! The layout of the data: keys, and the names in them. Pure.
//!
//! Below the base, with a lease of 16 and a ticket of 32 hexadecimal digits:
//!
//! | key | what |
//! | --- | --- |
//! | `e` | the offset of all tokens, written once |
//! | `s/<lease>` | a session |
//! | `q/<lock>/<part>/<mode>/<segment>/<lease>-<ticket>.<number>` | a contender |
//! | `q/<lock>/<part>/<mode>/<segment>/<lease>-<ticket>.<number>@<revision>.<turn>.<next>` | one beside another one |
//! | `t/<lock>/<part>` | the segment at the tail of a queue, if it is not the first |
//! | `v/<lock>/<part>` | the value of a queue |
//! | `x/<lease>/<ticket>.<revision>` | that the contender that was created at this revision was broken |
//!
//! `<number>` counts the contenders that were made in one call. A queue is ordered by the revision at which a contender
//! was created, then by its number; one beside another stands where that one does, and behind it.
//!
//! A long queue lies in segments, of some tens of contenders each: all of one segment stand ahead of all of the next.
//! The server sorts nothing but by reading all of it, so this is how a place in a long queue is looked at without that.
//!
//! With [`KeyNaming::Etcdctl`] a lock's name is the prefix of its contenders' keys, as it is for `etcdctl lock`,
//! `etcdctl elect` and Go's `clientv3/concurrency`: ours are `<name>/<lease>-<ticket>.<number>`, and every other key
//! there is a contender of another client. All else of ours stays below the base.

mod name;
mod record;

use std::ops::RangeInclusive;

use lockkeeper_core::{Contender, ContenderId, Mode, MutexRole, Part, QueueName, QueueView, Ticket};
use lockkeeper_session::part_letter;

pub(crate) use crate::layout::name::{MODES, Name, QueuePosition};
use crate::layout::name::{lease_text, mode_letter, revision_text, segment_text, slot_text};
use crate::layout::record::ContenderIdentity;
pub(crate) use crate::layout::record::{KeyRecord, ticket_of};
use crate::proto::KeyValue;
use crate::rpc::prefix_end;

/// The scheme of the keys of contenders.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum KeyNaming {
    /// Our own keys, below the base.
    #[default]
    Ours,
    /// The keys of `etcdctl` and of Go's `clientv3/concurrency`, in one queue with them.
    Etcdctl,
}

pub(crate) type Segments = RangeInclusive<u32>;

#[derive(Clone, Debug)]
pub(crate) struct Layout {
    base: String,
    naming: KeyNaming,
}

impl Layout {
    pub(crate) fn new(base: &str, naming: KeyNaming) -> Self {
        Self { base: base.to_owned(), naming }
    }

    /// Whether other clients stand in the queue of this part of a lock too.
    fn is_shared(&self, part: Part) -> bool {
        self.naming == KeyNaming::Etcdctl && part == Part::Line
    }

    /// Whether the keys of a queue lie in segments. Permits are counted, and so read whole.
    pub(crate) fn has_segments(&self, queue: &QueueName) -> bool {
        self.naming == KeyNaming::Ours && queue.part() != Part::Permits
    }

    pub(crate) fn refusal(&self, queue: &QueueName) -> Option<String> {
        let is_ours =
            queue.as_str().strip_prefix(&*self.base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        (self.naming == KeyNaming::Etcdctl && is_ours).then(|| {
            format!(
                "with `layout=etcdctl` a lock's name is the prefix of its keys, and below {} lie keys of our own",
                self.base
            )
        })
    }

    /// Names the keys that a user must be allowed to read and write.
    pub(crate) fn rights(&self) -> String {
        match self.naming {
            KeyNaming::Ours => format!("all keys below {}/", self.base),
            KeyNaming::Etcdctl => format!("all keys below {}/ and below the locks' names", self.base),
        }
    }

    /// Where tokens begin, in a service that counts them from this offset. Those of a shared queue are the revisions,
    /// by which its other clients know their contenders.
    pub(crate) fn first_token(&self, offset: u64) -> u64 {
        match self.naming {
            KeyNaming::Ours => offset,
            KeyNaming::Etcdctl => 0,
        }
    }

    /// Notes in a view what can stand in the queue beside ours. The other clients' keys do not tell a mutex from an
    /// election.
    pub(crate) fn mark(&self, queue: &QueueName, view: &mut QueueView) {
        if self.is_shared(queue.part()) {
            (view.mutex_role, view.candidate) = (MutexRole::Stranger, Mode::Mutex);
        }
    }

    /// The key of the offset that all tokens begin at.
    pub(crate) fn offset(&self) -> Vec<u8> {
        format!("{}/e", self.base).into_bytes()
    }

    pub(crate) fn session(&self, lease: i64) -> Vec<u8> {
        format!("{}/s/{}", self.base, lease_text(lease)).into_bytes()
    }

    /// A prefix of the keys of all contenders of the locks whose names begin with `prefix`; other keys may have it too.
    pub(crate) fn queues(&self, prefix: &str) -> Vec<u8> {
        match self.naming {
            KeyNaming::Ours => format!("{}/q/", self.base).into_bytes(),
            KeyNaming::Etcdctl => prefix.as_bytes().to_vec(),
        }
    }

    /// The prefix of the keys of all contenders of a lock, in all of its queues.
    pub(crate) fn lock(&self, queue: &QueueName) -> Vec<u8> {
        match self.naming {
            KeyNaming::Ours => format!("{}/q/{}/", self.base, queue.encoded()).into_bytes(),
            KeyNaming::Etcdctl => format!("{}/", queue.as_str()).into_bytes(),
        }
    }

    /// The prefix of the keys of all contenders of a queue.
    pub(crate) fn queue(&self, queue: &QueueName) -> Vec<u8> {
        if self.is_shared(queue.part()) {
            return self.lock(queue);
        }
        format!("{}/q/{}/{}/", self.base, queue.encoded(), part_letter(queue.part())).into_bytes()
    }

    fn text(&self, name: &Name) -> String {
        match self.naming {
            KeyNaming::Ours => name.text(),
            KeyNaming::Etcdctl => name.bare(),
        }
    }

    fn parse(&self, text: &str) -> Option<Name> {
        match self.naming {
            KeyNaming::Ours => Name::parse(text),
            KeyNaming::Etcdctl => Name::parse_bare(Mode::Mutex, 0, text),
        }
    }

    pub(crate) fn id(&self, name: &Name, created: i64) -> ContenderId {
        ContenderIdentity { text: &self.text(name), created }.id()
    }

    pub(crate) fn name(&self, id: &ContenderId) -> Option<Name> {
        self.parse(ContenderIdentity::parse(id)?.text)
    }

    pub(crate) fn key(&self, queue: &QueueName, name: &Name) -> Vec<u8> {
        self.key_of(queue, &self.text(name))
    }

    /// The key of a contender of any client, and the revision at which it was created: 0, as no key was, if no
    /// contender has this identity.
    pub(crate) fn contender(&self, queue: &QueueName, id: &ContenderId) -> (Vec<u8>, i64) {
        let (text, created) =
            ContenderIdentity::parse(id).map_or((id.as_str(), 0), |identity| (identity.text, identity.created));
        (self.key_of(queue, text), created)
    }

    fn key_of(&self, queue: &QueueName, text: &str) -> Vec<u8> {
        let mut key = self.queue(queue);
        key.extend_from_slice(text.as_bytes());
        key
    }

    /// The keys of all contenders of this mode in these segments of a queue: what they begin at, and what they are
    /// less than.
    pub(crate) fn segments(&self, queue: &QueueName, mode: Mode, segments: Segments) -> (Vec<u8>, Vec<u8>) {
        let of_mode = |segment: u32| {
            let mut key = self.queue(queue);
            key.extend_from_slice(format!("{}/{}/", mode_letter(mode), segment_text(segment)).as_bytes());
            key
        };
        (of_mode(*segments.start()), prefix_end(&of_mode(*segments.end())))
    }

    pub(crate) fn tail(&self, queue: &QueueName) -> Vec<u8> {
        format!("{}/t/{}/{}", self.base, queue.encoded(), part_letter(queue.part())).into_bytes()
    }

    pub(crate) fn value(&self, queue: &QueueName) -> Vec<u8> {
        format!("{}/v/{}/{}", self.base, queue.encoded(), part_letter(queue.part())).into_bytes()
    }

    pub(crate) fn broken(&self, lease: i64, slot: u32, created: i64) -> Vec<u8> {
        let (lease, slot, created) = (lease_text(lease), slot_text(slot), revision_text(created));
        format!("{}/x/{lease}/{slot}.{created}", self.base).into_bytes()
    }

    /// The name of the lock that a contender's key belongs to, encoded where our own names are in use.
    ///
    /// In a shared queue a key that another client made is a contender's if it ends with the number of its lease, as
    /// those clients write it: any key of any program may lie beside.
    pub(crate) fn lock_of<'a>(&self, kv: &'a KeyValue) -> Option<&'a str> {
        let (lock, id) = self.divide(&kv.key)?;
        let is_theirs = || kv.lease != 0 && id == format!("{:x}", kv.lease.cast_unsigned());
        (self.naming == KeyNaming::Ours || self.parse(id).is_some() || is_theirs()).then_some(lock)
    }

    /// Divides a contender's key into the lock and the rest; any other key gives any two texts, or `None`.
    pub(crate) fn divide<'a>(&self, key: &'a [u8]) -> Option<(&'a str, &'a str)> {
        match self.naming {
            KeyNaming::Ours => {
                let rest = str::from_utf8(key.strip_prefix(&*self.queues(""))?).ok()?;
                Some(rest.split_once('/').unwrap_or((rest, "")))
            }
            KeyNaming::Etcdctl => str::from_utf8(key).ok()?.rsplit_once('/'),
        }
    }

    /// Reads a lock's name as it stands in keys.
    pub(crate) fn lock_name(&self, lock: &str) -> Option<QueueName> {
        match self.naming {
            KeyNaming::Ours => QueueName::decode(lock),
            KeyNaming::Etcdctl => QueueName::new(lock).ok(),
        }
    }

    /// Where the locks behind this key of this lock begin. Among shared names, keys of other locks may lie between
    /// those of one lock.
    pub(crate) fn behind(&self, key: &[u8], lock: Option<&str>) -> Vec<u8> {
        match (self.naming, lock) {
            // `0` comes right after `/`.
            (KeyNaming::Ours, Some(lock)) => format!("{}/q/{lock}0", self.base).into_bytes(),
            _ => [key, &[0]].concat(),
        }
    }

    /// Reads the part and the contender that a key below that of its lock names.
    pub(crate) fn read(&self, queue: &QueueName, kv: &KeyValue) -> Option<(Part, StoredKey)> {
        let rest = str::from_utf8(kv.key.strip_prefix(&*self.lock(queue))?).ok()?;
        let (part, id) = match self.naming {
            KeyNaming::Ours => {
                let (letter, id) = rest.split_once('/')?;
                (part_of(letter)?, id)
            }
            KeyNaming::Etcdctl => (Part::Line, rest),
        };
        Some((part, self.stored(id, kv)?))
    }

    /// Reads a contender. Among names that are shared, a key below another lock's is none of this lock.
    fn stored(&self, text: &str, kv: &KeyValue) -> Option<StoredKey> {
        let (name, created) = (self.parse(text), kv.create_revision);
        if name.is_none() && (self.naming == KeyNaming::Ours || text.is_empty() || text.contains('/')) {
            return None;
        }
        Some(StoredKey {
            id: ContenderIdentity { text, created }.id(),
            mode: name.as_ref().map_or(Mode::Mutex, |name| name.mode),
            segment: name.as_ref().map_or(0, |name| name.segment),
            position: Name::position_of(name.as_ref(), created),
            is_ours: name.is_some(),
            ticket: name.and_then(|_| ticket_of(&kv.value)),
        })
    }

    /// Reads the contenders that keys of a queue name, in the order of the keys. What is no contender is passed over.
    pub(crate) fn read_keys(&self, queue: &QueueName, kvs: &[KeyValue]) -> Vec<StoredKey> {
        let read = kvs.iter().filter_map(|kv| self.read(queue, kv));
        read.filter(|(part, _)| *part == queue.part()).map(|(_, stored)| stored).collect()
    }

    /// Reads the mode of the first contender that stands in another queue of the same lock.
    pub(crate) fn first_outside(&self, queue: &QueueName, kvs: &[KeyValue]) -> Option<Mode> {
        let mut read = kvs.iter().filter_map(|kv| self.read(queue, kv));
        read.find(|(part, _)| *part != queue.part()).map(|(_, stored)| stored.mode)
    }

    /// Reads the contenders of a queue from its keys, in their order. What is no contender is passed over.
    pub(crate) fn read_queue(&self, queue: &QueueName, kvs: &[KeyValue]) -> Vec<StoredKey> {
        let mut stored = self.read_keys(queue, kvs);
        stored.sort_by(|one, other| (one.position, &one.id).cmp(&(other.position, &other.id)));
        stored
    }
}

#[derive(Clone, Debug)]
pub(crate) struct StoredKey {
    pub(crate) id: ContenderId,
    pub(crate) mode: Mode,
    pub(crate) segment: u32,
    pub(crate) is_ours: bool,
    /// `None` of another client's, and where only the keys were read.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) position: QueuePosition,
}

impl StoredKey {
    pub(crate) fn contender(&self) -> Contender {
        Contender { id: self.id.clone(), ticket: self.ticket, mode: self.mode }
    }
}

fn part_of(letter: &str) -> Option<Part> {
    [Part::Line, Part::Permits, Part::Waiters].into_iter().find(|part| part_letter(*part) == letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(key: Vec<u8>, create_revision: i64) -> KeyValue {
        KeyValue { key, create_revision, ..KeyValue::default() }
    }

    fn name(slot: u32, number: u32, beside: Option<QueuePosition>) -> Name {
        Name { mode: Mode::Write, segment: 2, lease: 0x07ae, slot, number, beside }
    }

    #[test]
    fn a_contender_has_this_key() {
        let layout = Layout::new("/lockkeeper", KeyNaming::Ours);
        let queue = QueueName::new("a/b").unwrap();
        let beside = QueuePosition { revision: 16, turn: 1, next: 2 };
        let key = layout.key(&queue, &name(0xab, 3, Some(beside)));
        let expected = "/lockkeeper/q/a%2Fb/l/w/00000002/00000000000007ae-000000ab.0003\
                        @0000000000000010.0001.0002";
        assert_eq!(String::from_utf8(key.clone()).unwrap(), expected);
        assert_eq!(layout.lock_of(&kv(key.clone(), 1)), Some("a%2Fb"));
        let behind = |lock| layout.behind(&key, lock);
        assert!(behind(Some("a%2Fb")) > key && behind(Some("a%2Fb")) < behind(Some("a%2Fc")));
        assert!(behind(None) > key && behind(None) < behind(Some("a%2Fb")));
    }

    #[test]
    fn a_queue_is_in_the_order_of_creation_and_one_beside_another_stands_behind_it() {
        let layout = Layout::new("/x", KeyNaming::Ours);
        let queue = QueueName::new("door").unwrap();
        let beside = QueuePosition { revision: 7, turn: 0, next: 1 };
        let names =
            [(name(9, 0, None), 7), (name(1, 1, None), 7), (name(5, 0, Some(beside)), 20), (name(3, 0, None), 8)];
        let kvs: Vec<_> = names.iter().map(|(name, created)| kv(layout.key(&queue, name), *created)).rev().collect();
        let slot = |stored: &StoredKey| layout.name(&stored.id).map(|name| name.slot);
        let order: Vec<_> = layout.read_queue(&queue, &kvs).iter().filter_map(slot).collect();
        assert_eq!(order, [9, 5, 1, 3]);
        assert!(layout.read_queue(&queue, &[kv(b"/x/q/door/l/m/other".to_vec(), 1)]).is_empty());
    }

    #[test]
    fn in_a_shared_queue_every_key_right_below_the_name_is_a_contender_and_tokens_are_revisions() {
        let layout = Layout::new("/lockkeeper", KeyNaming::Etcdctl);
        let queue = QueueName::new("jobs/nightly").unwrap();
        let ours = layout.key(&queue, &Name { mode: Mode::Mutex, ..name(0xab, 0, None) });
        let expected = "jobs/nightly/00000000000007ae-000000ab.0000";
        assert_eq!(String::from_utf8(ours.clone()).unwrap(), expected);
        let theirs = KeyValue { lease: 0x7aea, ..kv(b"jobs/nightly/7aea".to_vec(), 5) };
        let kvs = [kv(ours.clone(), 7), theirs.clone(), kv(b"jobs/nightly/deeper/7aea".to_vec(), 6)];
        let order: Vec<_> = layout.read_queue(&queue, &kvs).iter().map(|stored| stored.is_ours).collect();
        assert_eq!(order, [false, true]);
        assert_eq!(layout.first_token(1_000), 0);
        for (kv, lock) in [
            (&kv(ours, 7), Some("jobs/nightly")),
            (&theirs, Some("jobs/nightly")),
            (&kv(b"jobs/nightly/7aea".to_vec(), 5), None),
        ] {
            assert_eq!(layout.lock_of(kv), lock, "{kv:?}");
        }
        let permits = layout.queue(&queue.with_part(Part::Permits));
        assert!(permits.starts_with(b"/lockkeeper/q/"), "none of them lies beside the other clients' keys");
        let refused = |name| layout.refusal(&QueueName::new(name).unwrap()).is_some();
        assert!(
            refused("/lockkeeper") && refused("/lockkeeper/e") && !refused("/lockkeepers") && !refused("lockkeeper")
        );
    }

    #[test]
    fn the_keys_of_some_segments_are_those_of_one_mode_in_them_and_no_others() {
        let (layout, queue) = (Layout::new("/x", KeyNaming::Ours), QueueName::new("door").unwrap());
        let key = |mode, segment| layout.key(&queue, &Name { mode, segment, ..name(1, 0, None) });
        let (from, end) = layout.segments(&queue, Mode::Write, 1..=u32::MAX);
        let is_in = |key: Vec<u8>| from <= key && key < end;
        assert!(is_in(key(Mode::Write, 1)) && is_in(key(Mode::Write, 0xffff)) && is_in(key(Mode::Write, u32::MAX)));
        assert!(!is_in(key(Mode::Write, 0)) && !is_in(key(Mode::Read, 1)) && !is_in(key(Mode::Permit, 1)));
        assert!(!is_in(layout.tail(&queue)) && !is_in(layout.value(&queue)));
    }
}
