//! Watches: on a queue or a value, on the contender ahead, and on our own contenders.
//!
//! The server is to tell of changes before it looks. A departure is waited for by a tracked read of the contender's
//! record alone, so that one departure wakes one waiter. Once that is told or the record is not there, it is checked
//! that the contender has gone, and our own stands. A task reads the record of each contender of our own once that has
//! stood for a while, again after each change, and over each new connection.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use std::vec;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, ContenderId, Departure, Operation, QueueName, QueueView};
use lockkeeper_session::{Departing, Effect, Failure, Link as _, Watch, Young, or_never, part_letter};
use parking_lot::Mutex;
use redis::{Value as Answer, cmd};
use tokio::task::AbortHandle;

use crate::connection::{Batch, KeyWait, KeyWake, answer, number, only};
use crate::layout::QueueMember;
use crate::queue::view::{StoredRecord, is_foreign, read_with_foreigner};
use crate::script::Script;
use crate::session::{Core, RedisLink};

pub(crate) struct Redis {
    pub(super) core: Arc<Core>,
    /// The places that are not watched yet.
    pub(super) young: Young<RedisOwn>,
}

pub(super) type Queues = lockkeeper_session::Queues<Redis>;

pub(super) type RedisPlace = lockkeeper_session::Place<RedisOwn>;

#[derive(Debug, Default)]
pub(crate) struct RedisOwn {
    watcher: Mutex<Option<AbortHandle>>,
    /// The task that watches the plain lock that it took, if it took one.
    plain_watcher: Mutex<Option<AbortHandle>>,
}

impl RedisOwn {
    /// Has this task watch it in place of another one.
    fn watch_by(&self, watcher: Option<AbortHandle>) {
        let before = std::mem::replace(&mut *self.watcher.lock(), watcher);
        if let Some(before) = before {
            before.abort();
        }
    }
}

impl lockkeeper_session::Own for RedisOwn {
    fn withdrawn(&self) {
        self.watch_by(None);
        if let Some(watcher) = self.plain_watcher.lock().take() {
            watcher.abort();
        }
    }
}

/// Watches keys, and looks behind that, all in one batch.
pub(super) fn begin_watch<T: Send + 'static>(
    core: &Arc<Core>,
    keys: Vec<String>,
    look: impl Fn(Batch) -> Batch + Send + Sync + 'static,
    read: fn(&RedisLink, Answer) -> Result<T, Failure>,
) -> Watch<RedisLink, T> {
    let core = core.clone();
    Box::new(move |link| {
        let tolds: Result<Vec<_>, _> = keys.iter().map(|key| link.connection.wait_for(key.as_bytes())).collect();
        let tolds = match tolds {
            Ok(tolds) => tolds,
            Err(failure) => return Box::pin(std::future::ready(Err(failure))),
        };
        let tracked = tolds.iter().fold(Batch::new(), |batch, told| batch.tracked("EXISTS", told.key()));
        let (asking, link) = (core.send(link, look(tracked), Operation::Wait), link.clone());
        Box::pin(async move {
            let mut answers = asking.await?;
            let shown = answers.pop().ok_or_else(Failure::unexpected)?;
            answers.into_iter().try_for_each(|tracked| answer(tracked, "EXISTS").map(|_| ()))?;
            Ok((read(&link, shown)?, first_of(tolds)))
        })
    })
}

fn first_of(mut tolds: Vec<KeyWait>) -> BoxFuture<()> {
    Box::pin(poll_fn(move |context| {
        let is_told = tolds.iter_mut().any(|told| Pin::new(told).poll(context).is_ready());
        if is_told { Poll::Ready(()) } else { Poll::Pending }
    }))
}

/// How long after the end of another client's key it is looked at: the server tells of an end by time only once it
/// comes across it, mostly within a tenth of a second, and removes what is read after its time.
const ENDED_AFTER: Duration = Duration::from_millis(20);

type Looking = BoxFuture<Result<AheadLook, Failure>>;

enum AheadLook {
    /// The contender ahead is there; the wait tells when its record changes, or another client's key, which ends at
    /// this moment if it is not renewed.
    Ahead(KeyWait, Option<BootInstant>),
    /// Its record changed, but it is there.
    There,
    /// Its record is not there.
    Absent,
    /// It is gone, and our own contender stands.
    Gone,
    /// It is gone, and another client has the plain lock that our own contender needs.
    Overtaken,
    /// Our own contender is gone.
    NotMine,
}

/// Looks at the contender ahead, now, and waits until it is gone.
pub(super) fn depart(queues: &Arc<Queues>, departing: Departing<Redis>) -> BoxFuture<Result<Departure, Failure>> {
    let Departing { link, queue, ahead, mine } = departing;
    let waiting = TrackedWait { queues: queues.clone(), link, queue, ahead, mine };
    let looking = waiting.look();
    Box::pin(async move { waiting.departure(looking).await })
}

#[derive(Clone)]
struct TrackedWait {
    queues: Arc<Queues>,
    link: Arc<RedisLink>,
    queue: QueueName,
    ahead: ContenderId,
    mine: Option<Arc<RedisPlace>>,
}

impl TrackedWait {
    async fn departure(&self, mut looking: Looking) -> Result<Departure, Failure> {
        loop {
            match looking.await? {
                AheadLook::Ahead(told, ends_at) => {
                    let clock = &self.queues.service.core.life.clock;
                    let wake = tokio::select! {
                        biased;
                        wake = told => wake,
                        // Another client's key should have ended.
                        () = or_never(ends_at.map(|ends_at| clock.sleep_until(ends_at))) => KeyWake::Changed,
                    };
                    match wake {
                        KeyWake::Changed if is_foreign(&self.ahead) => looking = self.look(),
                        KeyWake::Changed => looking = self.check(),
                        KeyWake::ConnectionOver => return Err(Failure::broken(Effect::None)),
                    }
                }
                AheadLook::There => looking = self.look(),
                AheadLook::Absent => looking = self.check(),
                AheadLook::Gone => return Ok(Departure::Gone),
                AheadLook::Overtaken => return Ok(Departure::Recheck),
                AheadLook::NotMine => {
                    if let Some(mine) = &self.mine {
                        self.queues.found_gone(mine);
                    }
                    return Ok(Departure::Recheck);
                }
            }
        }
    }

    /// Reads the contender ahead, so that a change of it is told. If it is another client, this looks for its end too.
    fn look(&self) -> Looking {
        let layout = &self.queues.service.core.layout;
        let (key, read) = match (QueueMember::of(&self.ahead), layout.plain(&self.queue)) {
            (Some(member), _) => (layout.contender(member.ticket), "GET"),
            // Another program's data may be no text.
            (None, Some(plain)) if is_foreign(&self.ahead) => (plain.to_owned(), "EXISTS"),
            (None, _) => return Box::pin(std::future::ready(Ok(AheadLook::Gone))),
        };
        let told = match self.link.connection.wait_for(key.as_bytes()) {
            Ok(told) => told,
            Err(failure) => return Box::pin(std::future::ready(Err(failure))),
        };
        let batch = Batch::new().tracked(read, told.key());
        let is_foreign = is_foreign(&self.ahead);
        let asking = self.send(if is_foreign { self.with_proofs(batch) } else { batch });
        let waiting = self.clone();
        Box::pin(async move {
            let mut answers = asking.await?.into_iter();
            let read = next(&mut answers, read)?;
            match is_foreign {
                true => waiting.judge(answers, Some(told)),
                false if waiting.is_ahead(read) => Ok(AheadLook::Ahead(told, None)),
                false => Ok(AheadLook::Absent),
            }
        })
    }

    /// Looks whether the contender ahead, which is one of ours, has gone, and what that proves.
    fn check(&self) -> Looking {
        let Some(member) = QueueMember::of(&self.ahead) else { return self.look() };
        let mut get = cmd("GET");
        get.arg(self.queues.service.core.layout.contender(member.ticket));
        let asking = self.send(self.with_proofs(Batch::new().command(get)));
        let waiting = self.clone();
        Box::pin(async move {
            let mut answers = asking.await?.into_iter();
            let read = next(&mut answers, "GET")?;
            if waiting.is_ahead(read) { Ok(AheadLook::There) } else { waiting.judge(answers, None) }
        })
    }

    /// Whether this is the record of the contender ahead.
    fn is_ahead(&self, read: Answer) -> bool {
        let Answer::BulkString(bytes) = read else { return false };
        StoredRecord::read(&bytes).is_some_and(|stored| stored.member == self.ahead.as_str())
    }

    /// Adds what a departure is judged by. If all data was lost at once, the contender ahead went with our own and with
    /// the session, and its departure proves nothing. Where a plain lock is needed too, the look takes it.
    fn with_proofs(&self, batch: Batch) -> Batch {
        let layout = &self.queues.service.core.layout;
        let mut exist = cmd("EXISTS");
        exist.arg(layout.alive(self.queues.service.core.id));
        if let Some(mine) = &self.mine {
            exist.arg(layout.contender(mine.ticket));
        }
        let batch = batch.command(exist);
        if layout.plain(&self.queue).is_none() {
            return batch;
        }
        let place = self.mine.as_ref().map_or("", |mine| mine.id.as_str());
        let around = [part_letter(self.queue.part()), &self.queue.encoded(), place, "around"];
        batch.script(layout.script(Script::Look), &[layout.base()], &around[..])
    }

    fn send(&self, batch: Batch) -> BoxFuture<Result<Vec<Answer>, Failure>> {
        self.queues.service.core.send(&self.link, batch, Operation::Wait)
    }

    /// Judges a departure by its proofs.
    fn judge(&self, mut answers: vec::IntoIter<Answer>, told: Option<KeyWait>) -> Result<AheadLook, Failure> {
        let there = number(&next(&mut answers, "EXISTS")?)?;
        if there < 1 + u64::from(self.mine.is_some()) {
            // Our own contender may have gone with the session; its removal says so.
            return if self.mine.is_some() { Ok(AheadLook::NotMine) } else { Err(Failure::session_gone()) };
        }
        if self.queues.service.core.layout.plain(&self.queue).is_none() {
            return Ok(AheadLook::Gone);
        }
        // This view was made for our own contender, and shows it first if it has the plain lock now.
        let (view, foreigner) = read_with_foreigner(self.link.connection_number(), next(&mut answers, "look")?)?;
        if let Some(told) = told
            && let Some(foreigner) = foreigner.filter(|foreigner| foreigner.id == self.ahead)
        {
            let ends_in = foreigner.ends_in.map(|ends_in| ends_in.saturating_add(ENDED_AFTER));
            let now = self.queues.service.core.life.clock.now();
            return Ok(AheadLook::Ahead(told, ends_in.map(|ends_in| now.saturating_add(ends_in))));
        }
        let Some(mine) = &self.mine else { return Ok(AheadLook::Gone) };
        note_turn(&self.queues, mine, &view);
        let is_first = view.contenders.first().is_some_and(|first| first.id == mine.id);
        Ok(if is_first { AheadLook::Gone } else { AheadLook::Overtaken })
    }
}

/// The next answer, which may be a refusal.
fn next(answers: &mut vec::IntoIter<Answer>, command: &'static str) -> Result<Answer, Failure> {
    answer(answers.next().ok_or_else(Failure::unexpected)?, command)
}

/// Takes in which contenders renewals found to be gone, and has those watched that have stood for a while, until the
/// session is over.
pub(super) async fn run_guard(queues: Arc<Queues>) {
    let core = &queues.service.core;
    let mut hearing = pin!(queues.hear_of(&core.contenders));
    loop {
        tokio::select! {
            biased;
            () = &mut hearing => return,
            place = queues.service.young.grown(&*core.life.clock) => watch_place(&queues, &place),
        }
    }
}

/// Has a place watched. The task holds the place, and ends with its withdrawal.
fn watch_place(queues: &Arc<Queues>, place: &Arc<RedisPlace>) {
    let core = &queues.service.core;
    let key = core.layout.contender(place.ticket);
    let watching = core.life.runtime.spawn(watch_key(queues.clone(), place.clone(), key, note_record));
    place.own.watch_by(Some(watching.abort_handle()));
    if place.bond.is_left() {
        place.own.watch_by(None);
    }
}

/// Watches the key of one place until that is gone, or is the place's no more.
async fn watch_key(
    queues: Arc<Queues>,
    place: Arc<RedisPlace>,
    key: String,
    is_there: fn(&Core, &RedisPlace, Answer) -> Result<bool, Failure>,
) {
    let core = &queues.service.core;
    while place.bond.stands() {
        let Some(link) = core.life.next_link().await else { return };
        let reading = async {
            let told = link.connection.wait_for(key.as_bytes())?;
            let answers = core.send(&link, Batch::new().tracked("GET", told.key()), Operation::Wait).await?;
            Ok::<_, Failure>(is_there(core, &place, only(answers)?)?.then_some(told))
        };
        match reading.await {
            Ok(Some(told)) => {
                // After the end of a connection all is read over the next one.
                let _: KeyWake = told.await;
            }
            Ok(None) => queues.found_gone(&place),
            Err(failure) => core.life.pause_after(&link, &failure).await,
        }
    }
}

/// Notes what is stored of a place now; returns whether it is there.
fn note_record(_core: &Core, place: &RedisPlace, record: Answer) -> Result<bool, Failure> {
    let bytes = match answer(record, "GET")? {
        Answer::Nil => return Ok(false),
        Answer::BulkString(bytes) => bytes,
        _ => return Err(Failure::unexpected()),
    };
    if let Some(revocation) = StoredRecord::read(&bytes).and_then(|stored| stored.revocation()) {
        place.bond.revoke(revocation);
    }
    Ok(true)
}

/// Has a contender's plain lock watched from the view on that was made for it and shows it first: that view took it.
pub(super) fn note_turn(queues: &Arc<Queues>, place: &Arc<RedisPlace>, view: &QueueView) {
    let core = &queues.service.core;
    let Some(key) = core.layout.plain(&place.queue) else { return };
    if view.contenders.first().is_none_or(|first| first.id != place.id) {
        return;
    }
    let mut watcher = place.own.plain_watcher.lock();
    if place.bond.stands() && watcher.is_none() {
        let watching = watch_key(queues.clone(), place.clone(), key.to_owned(), is_ours);
        *watcher = Some(core.life.runtime.spawn(watching).abort_handle());
    }
}

/// Whether a plain lock is still that of this contender.
fn is_ours(core: &Core, place: &RedisPlace, value: Answer) -> Result<bool, Failure> {
    if matches!(&value, Answer::ServerError(error) if error.code() == "WRONGTYPE") {
        return Ok(false);
    }
    let ours = core.layout.contender(place.ticket);
    Ok(answer(value, "GET")? == Answer::BulkString(ours.into_bytes()))
}
