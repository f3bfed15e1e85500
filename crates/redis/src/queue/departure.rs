//! Waits for the contender ahead: by a tracked read of its record alone, so that one departure wakes one waiter.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, ConnectionNumber, ContenderId, Departure, Operation, QueueName, Result};
use redis::{Value, cmd};

use crate::connection::{Failure, Flight, Told, Wake, answer};
use crate::layout::{Member, part_letter};
use crate::queue::inner::Inner;
use crate::queue::place::Place;
use crate::queue::plain::is_foreign;
use crate::queue::record::Stored;
use crate::queue::view::read_with_foreigner;
use crate::script::Script;
use crate::session::{Link, session_gone};

/// How long after the end of another client's key it is looked at: the server tells of an end by time only once it
/// comes across it, mostly within a tenth of a second, and removes what is read after its time.
const ENDED_AFTER: Duration = Duration::from_millis(20);

/// A wait under way.
pub(super) struct Wait {
    inner: Arc<Inner>,
    queue: QueueName,
    ahead: ContenderId,
    mine: Option<Arc<Place>>,
    /// The connection that the contender ahead was seen on, and the first look; `None` if that connection is lost.
    first: Option<(Arc<Link>, Looking)>,
}

type Looking = BoxFuture<Result<Seen, Failure>>;

/// What a look shows.
enum Seen {
    /// The contender ahead is there; the wait tells when its record changes, or another client's key, which ends at
    /// this moment if it is not renewed.
    Ahead(Told, Option<BootInstant>),
    /// It is gone, and our own contender stands.
    Gone,
    /// It is gone, and another client has the plain lock that our own contender needs.
    Overtaken,
    /// Our own contender is gone.
    NotMine,
}

impl Wait {
    /// Looks at the contender ahead, now.
    pub(super) fn begin(
        inner: &Arc<Inner>,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> Self {
        let mine = mine.and_then(|mine| inner.place_of(queue, mine));
        let link = inner.core.present_link().filter(|link| link.connection_number() == seen);
        let first = link.map(|link| {
            let looking = look(inner, &link, queue, ahead, mine.as_ref());
            (link, looking)
        });
        Self { inner: inner.clone(), queue: queue.clone(), ahead: ahead.clone(), mine, first }
    }

    pub(super) async fn finish(self) -> Result<Departure> {
        let Self { inner, queue, ahead, mine, first } = self;
        let removed = async {
            match &mine {
                Some(mine) => mine.bond.removed().await,
                None => std::future::pending().await,
            }
        };
        let departed = async {
            let Some((link, looking)) = first else {
                return Ok(next_connection(&inner).await);
            };
            match departure(&inner, &link, &queue, &ahead, mine.as_ref(), looking).await {
                Ok(Departure::Gone) => {
                    // A session that is lost says so itself.
                    let _ = inner.core.until_believable().await;
                    Ok(Departure::Gone)
                }
                Ok(Departure::Recheck) => Ok(Departure::Recheck),
                Err(failure) if failure.is_passing() => {
                    inner.core.pause_after(&link, &failure).await;
                    Ok(next_connection(&inner).await)
                }
                Err(failure) => Err(inner.fail(failure, Operation::Wait, false, &queue)),
            }
        };
        let departure = tokio::select! {
            biased;
            () = removed => Ok(Departure::Recheck),
            _ = inner.core.bond().lost() => return Err(inner.over(Operation::Wait, &queue)),
            departure = departed => departure,
        };
        if let Some(mine) = &mine {
            mine.bond.explained().await;
        }
        inner.check(Operation::Wait, &queue)?;
        departure
    }
}

/// Waits for the next connection; what was told on it may not be all.
async fn next_connection(inner: &Inner) -> Departure {
    // If none comes any more, the session is lost, and that is told instead.
    if inner.core.next_link().await.is_none() {
        std::future::pending::<()>().await;
    }
    Departure::Recheck
}

/// Waits until the contender ahead is gone.
async fn departure(
    inner: &Arc<Inner>,
    link: &Arc<Link>,
    queue: &QueueName,
    ahead: &ContenderId,
    mine: Option<&Arc<Place>>,
    mut looking: Looking,
) -> Result<Departure, Failure> {
    loop {
        match looking.await? {
            Seen::Ahead(told, ends_at) => {
                let wake = tokio::select! {
                    biased;
                    wake = told => wake,
                    () = end(inner, ends_at) => Wake::Changed,
                };
                match wake {
                    Wake::Changed => looking = look(inner, link, queue, ahead, mine),
                    Wake::ConnectionOver => return Err(Failure::broken(crate::connection::Effect::None)),
                }
            }
            Seen::Gone => return Ok(Departure::Gone),
            Seen::Overtaken => return Ok(Departure::Recheck),
            Seen::NotMine => {
                if let Some(mine) = mine {
                    inner.found_gone(mine);
                }
                return Ok(Departure::Recheck);
            }
        }
    }
}

/// Waits until another client's key should have ended.
async fn end(inner: &Inner, ends_at: Option<BootInstant>) {
    match ends_at {
        Some(ends_at) => inner.core.clock.sleep_until(ends_at).await,
        None => std::future::pending().await,
    }
}

/// Looks whether the contender ahead is there. If all data was lost at once, it went with our own contender and with
/// the session, and its departure proves nothing. Where a plain lock is needed too, the look takes it.
fn look(
    inner: &Arc<Inner>,
    link: &Arc<Link>,
    queue: &QueueName,
    ahead: &ContenderId,
    mine: Option<&Arc<Place>>,
) -> Looking {
    let (core, layout) = (&inner.core, &inner.core.layout);
    let plain = layout.plain(queue);
    let told = match (Member::of(ahead), plain) {
        (Some(member), _) => link.connection.wait_for(layout.contender(member.ticket).as_bytes()),
        (None, Some(plain)) if is_foreign(ahead) => link.connection.wait_for(plain.as_bytes()),
        (None, _) => return Box::pin(std::future::ready(Ok(Seen::Gone))),
    };
    let told = match told {
        Ok(told) => told,
        Err(failure) => return Box::pin(std::future::ready(Err(failure))),
    };
    let get = |key: String| {
        let mut get = cmd("GET");
        get.arg(key);
        get
    };
    // Another program's data may be no text.
    let read = if is_foreign(ahead) { "EXISTS" } else { "GET" };
    let mut flight = Flight::new().tracked_read(read, &told).command(get(layout.alive(core.id)));
    if let Some(mine) = mine {
        flight = flight.command(get(layout.contender(mine.member.ticket)));
    }
    if plain.is_some() {
        let place = mine.map_or("", |mine| mine.id.as_str());
        let around = [part_letter(queue.part()), &queue.encoded(), place, "around"];
        flight = flight.script(layout.script(Script::Look), &[layout.base()], &around[..]);
    }
    let asking = core.fly(link, flight, Operation::Wait);
    let waiting = Waiting {
        inner: inner.clone(),
        link: link.clone(),
        queue: queue.clone(),
        ahead: ahead.clone(),
        mine: mine.cloned(),
        is_plain: plain.is_some(),
    };
    Box::pin(async move { waiting.judge(told, asking.await?) })
}

/// What a look was made for.
struct Waiting {
    inner: Arc<Inner>,
    link: Arc<Link>,
    queue: QueueName,
    ahead: ContenderId,
    mine: Option<Arc<Place>>,
    /// Whether a plain lock is needed too.
    is_plain: bool,
}

impl Waiting {
    fn judge(&self, told: Told, answers: Vec<Value>) -> Result<Seen, Failure> {
        let mut answers = answers.into_iter();
        let mut next = |what| answer(answers.next().ok_or_else(Failure::unexpected)?, what);
        if let Value::BulkString(bytes) = next("GET")?
            && Stored::read(&bytes).is_some_and(|stored| stored.member == self.ahead.as_str())
        {
            return Ok(Seen::Ahead(told, None));
        }
        if next("GET")? == Value::Nil {
            return Err(session_gone());
        }
        if self.mine.is_some() && next("GET")? == Value::Nil {
            return Ok(Seen::NotMine);
        }
        if self.is_plain { self.judge_plain(told, next("look")?) } else { Ok(Seen::Gone) }
    }

    /// The view was made for our own contender, and shows it first if it has the plain lock now.
    fn judge_plain(&self, told: Told, view: Value) -> Result<Seen, Failure> {
        let (view, foreigner) = read_with_foreigner(self.link.connection_number(), view)?;
        if let Some(foreigner) = foreigner.filter(|foreigner| foreigner.id == self.ahead) {
            let ends_in = foreigner.ends_in.map(|ends_in| ends_in.saturating_add(ENDED_AFTER));
            let now = self.inner.core.clock.now();
            return Ok(Seen::Ahead(told, ends_in.map(|ends_in| now.saturating_add(ends_in))));
        }
        let Some(mine) = &self.mine else { return Ok(Seen::Gone) };
        self.inner.note_turn(&self.queue, &view, &mine.id);
        let is_first = view.contenders.first().is_some_and(|first| first.id == mine.id);
        Ok(if is_first { Seen::Gone } else { Seen::Overtaken })
    }
}
