//! The places of one owner, lock by lock, which task may ask for more, and the guard that is one of several on one
//! hold.
//!
//! The places only know the holds; the guards that share a hold keep it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{FencingToken, Flow, Liveness, LossReason, Mode, QueueName, Result, Ticket, Wait};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::contend::lost_error;
use crate::deadlock::{KeyId, Want};
use crate::hold::Hold;
use crate::lock::Lock;
use crate::lock::guard::{Guard, kind, run_under};
use crate::shared::Shared;

/// A kind of hold that one owner may have several guards of.
pub(crate) trait CountedHold: Sized + 'static {
    /// The mode that is asked of the service.
    const MODE: Mode;

    /// What is asked for, for other keys that want it.
    const WANT: Want;

    /// Returns where an owner keeps it.
    fn slot(place: &OwnPlace) -> &HoldSlot<Self>;
}

impl CountedHold for kind::Mutex {
    const MODE: Mode = Mode::Mutex;
    const WANT: Want = Want::Alone;

    fn slot(place: &OwnPlace) -> &HoldSlot<Self> {
        &place.mutex
    }
}

impl CountedHold for kind::Read {
    const MODE: Mode = Mode::Read;
    const WANT: Want = Want::Share;

    fn slot(place: &OwnPlace) -> &HoldSlot<Self> {
        &place.read
    }
}

impl CountedHold for kind::Write {
    const MODE: Mode = Mode::Write;
    const WANT: Want = Want::Alone;

    fn slot(place: &OwnPlace) -> &HoldSlot<Self> {
        &place.write
    }
}

/// All that one owner has.
pub(super) struct OwnerPlaces {
    /// The owner's flow of control, for those who look at the queues.
    flow: Option<Flow>,
    /// Under what it is known among the keys that may wait for each other, if it is an explicit one.
    key: Option<KeyId>,
    locks: Mutex<BTreeMap<LockKey, OwnedEntry>>,
    /// The owner of the enclosing `run`, whose holds count too.
    outer: Option<Arc<Self>>,
}

/// One lock of one keeper.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd)]
struct LockKey {
    /// The address of what the keeper and its clones share.
    keeper: usize,
    queue: QueueName,
}

struct OwnedEntry {
    /// The number of visits; at zero the entry is removed.
    visits: usize,
    place: Arc<OwnPlace>,
}

/// What an owner has of one lock, and the turn to have more.
pub(crate) struct OwnPlace {
    /// Keeps the address in the key from being reused by another keeper, without keeping the keeper alive.
    _keeper: Weak<Shared>,
    turn: Arc<tokio::sync::Mutex<()>>,
    mutex: HoldSlot<kind::Mutex>,
    read: HoldSlot<kind::Read>,
    write: HoldSlot<kind::Write>,
}

/// The hold that further guards share, while there is one.
pub(crate) type HoldSlot<Kind> = Mutex<Weak<SharedHold<Guard<Kind>>>>;

impl OwnerPlaces {
    /// Starts the places of an owner that is this flow of control.
    pub(super) const fn new(flow: Option<Flow>) -> Self {
        Self { flow, key: None, locks: Mutex::new(BTreeMap::new()), outer: None }
    }

    /// Starts the places of an owner that the program made, to be refused where it would wait for itself.
    pub(super) fn of_key(flow: Option<Flow>) -> Self {
        static KEYS: AtomicU64 = AtomicU64::new(0);
        let key = flow.map(|flow| KeyId { number: KEYS.fetch_add(1, Ordering::Relaxed), flow });
        Self { key, ..Self::new(flow) }
    }

    /// Starts the places of an owner inside another one.
    pub(super) fn inside(outer: Arc<Self>, flow: Option<Flow>) -> Self {
        Self { outer: Some(outer), ..Self::new(flow) }
    }

    /// Returns the flow of control of this owner.
    pub(super) const fn flow(&self) -> Option<Flow> {
        self.flow
    }

    /// Returns under what it is known among the keys that may wait for each other.
    pub(super) const fn key(&self) -> Option<KeyId> {
        self.key
    }

    /// Returns the ticket of the hold that was granted last, if this owner has one.
    pub(super) fn newest(&self) -> Option<Ticket> {
        // A hold that is dropped here for the last time locks the map again.
        let places: Vec<_> = self.locks.lock().values().map(|entry| entry.place.clone()).collect();
        places.iter().filter_map(|place| place.newest()).max().map(|(_, ticket)| ticket)
    }

    /// Returns what this owner, or an owner around it, has of this kind.
    pub(super) fn find<Kind: CountedHold>(&self, lock: &Lock) -> Option<Arc<SharedHold<Guard<Kind>>>> {
        let key = LockKey::of(lock);
        let mut places = self;
        loop {
            let entry = places.locks.lock().get(&key).map(|entry| entry.place.clone());
            if let Some(held) = entry.and_then(|place| Kind::slot(&place).lock().upgrade()) {
                return Some(held);
            }
            places = places.outer.as_ref()?;
        }
    }

    /// Adds an entry for a lock, which stays while the visit lives.
    pub(super) fn visit(self: &Arc<Self>, lock: &Lock) -> Visit {
        let key = LockKey::of(lock);
        let mut locks = self.locks.lock();
        let entry = locks.entry(key.clone()).or_insert_with(|| OwnedEntry {
            visits: 0,
            place: Arc::new(OwnPlace {
                _keeper: Arc::downgrade(&lock.shared),
                turn: Arc::default(),
                mutex: HoldSlot::default(),
                read: HoldSlot::default(),
                write: HoldSlot::default(),
            }),
        });
        entry.visits += 1;
        Visit { places: self.clone(), key, place: entry.place.clone() }
    }

    /// Returns the number of locks with an entry.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.locks.lock().len()
    }
}

impl OwnPlace {
    /// Returns when the newest of its holds was granted, and its ticket.
    fn newest(&self) -> Option<(BootInstant, Ticket)> {
        fn granted<Kind: CountedHold>(slot: &HoldSlot<Kind>) -> Option<(BootInstant, Ticket)> {
            let held = slot.lock().upgrade()?;
            Some((held.guard.granted_at(), held.guard.hold().ticket()))
        }
        [granted(&self.mutex), granted(&self.read), granted(&self.write)].into_iter().flatten().max()
    }
}

impl LockKey {
    fn of(lock: &Lock) -> Self {
        Self { keeper: Arc::as_ptr(&lock.shared).addr(), queue: lock.queue.clone() }
    }
}

/// A task's use of one lock for an owner: it has the lock, or asks for it.
pub(super) struct Visit {
    places: Arc<OwnerPlaces>,
    key: LockKey,
    place: Arc<OwnPlace>,
}

impl Visit {
    /// Waits until no other task asks for this lock as the same owner; `None` if the time is up first.
    pub(super) async fn turn(&self, shared: &Shared, wait: Wait) -> Option<OwnedMutexGuard<()>> {
        let turn = self.place.turn.clone();
        if wait == Wait::No {
            return turn.try_lock_owned().ok();
        }
        shared.by(wait, turn.lock_owned()).await
    }

    /// Keeps a granted hold, for others to share.
    pub(super) fn keep<Kind: CountedHold>(self, guard: Guard<Kind>) -> Arc<SharedHold<Guard<Kind>>> {
        let place = self.place.clone();
        let held = Arc::new(SharedHold { guard, visit: self });
        *Kind::slot(&place).lock() = Arc::downgrade(&held);
        held
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut locks = self.places.locks.lock();
        if let Some(entry) = locks.get_mut(&self.key) {
            entry.visits -= 1;
            if entry.visits == 0 {
                locks.remove(&self.key);
            }
        }
    }
}

/// One hold of an owner, kept by all guards that share it.
pub(crate) struct SharedHold<G> {
    /// Before the visit, so that the lock is given back before the owner forgets it.
    guard: G,
    visit: Visit,
}

impl<G> SharedHold<G> {
    pub(super) const fn guard(&self) -> &G {
        &self.guard
    }
}

impl<Kind> SharedHold<Guard<Kind>> {
    /// Gives the lock back; the release is under way when this returns.
    pub(super) fn release(self) -> impl Future<Output = Result<()>> + Send + 'static + use<Kind> {
        let Self { guard, visit } = self;
        let release = guard.release();
        drop(visit);
        release
    }
}

impl fmt::Debug for OwnerPlaces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.locks.lock().keys().map(|key| key.queue.as_str())).finish()
    }
}

impl<G: fmt::Debug> fmt::Debug for SharedHold<G> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(formatter)
    }
}

/// Proof that an owner holds a lock; one of several on the same hold, which ends with the last of them.
///
/// Made by an [`OwnerKey`](crate::OwnerKey): a `Reentrant<MutexGuard>`, `Reentrant<ReadGuard>` or
/// `Reentrant<WriteGuard>`. They may be dropped in any order and anywhere; dropping the last one gives the lock back in
/// the background, as dropping a [`Guard`] does.
#[must_use = "the lock is given back when its last guard is dropped"]
pub struct Reentrant<G> {
    held: Arc<SharedHold<G>>,
}

impl<Kind> Reentrant<Guard<Kind>> {
    pub(super) const fn new(held: Arc<SharedHold<Guard<Kind>>>) -> Self {
        Self { held }
    }

    /// Returns the [`Hold`] of this guard. Its clones are cheap, may go anywhere and never release.
    pub fn hold(&self) -> &Hold {
        self.held.guard().hold()
    }

    /// Returns the grant's token, which is the same for all guards on the hold.
    pub fn fencing_token(&self) -> FencingToken {
        self.hold().fencing_token()
    }

    /// Gives up this guard; if it is the last one, gives the lock back and waits until that is certain, as
    /// [`Guard::release`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::release`]; [`ErrorKind::Lost`](lockkeeper_core::ErrorKind::Lost) also if other guards still
    /// share the lost hold.
    pub fn release(self) -> impl Future<Output = Result<()>> + Send + 'static {
        let hold = self.hold().clone();
        let last = Arc::into_inner(self.held).map(SharedHold::release);
        async move {
            match (last, hold.liveness()) {
                (Some(release), _) => release.await,
                // Of two guards that are given up at once, the other may have given the lock back.
                (None, Liveness::Lost(reason)) if reason != LossReason::Released => {
                    Err(lost_error(hold.name(), reason))
                }
                (None, _) => Ok(()),
            }
        }
    }

    /// Runs `work`, dropping it at its next await if the hold is lost, and then gives up this guard.
    pub(crate) async fn run<Work, Running, Output>(self, work: Work) -> Result<Output>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        let hold = self.hold().clone();
        run_under(hold, work, move || self.release()).await
    }
}

impl<G: fmt::Debug> fmt::Debug for Reentrant<G> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Reentrant").field(&self.held).finish()
    }
}
