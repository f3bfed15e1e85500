//! Waits for the contender ahead: by a tracked read of its record alone, so that one departure wakes one waiter.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, ConnectionNumber, ContenderId, Departure, Operation, QueueName, Result};
use redis::{Value, cmd};

use crate::connection::{Failure, Flight, Told, Wake, answer};
use crate::layout::Member;
use crate::queue::inner::Inner;
use crate::queue::place::Place;
use crate::queue::record::Stored;
use crate::session::{Link, session_gone};

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
    /// The contender ahead is there; the wait tells when its record changes.
    Ahead(Told),
    /// It is gone, and our own contender stands.
    Gone,
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
            let looking = look(inner, &link, ahead, mine.as_deref());
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
            match departure(&inner, &link, &ahead, mine.as_ref(), looking).await {
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
    ahead: &ContenderId,
    mine: Option<&Arc<Place>>,
    mut looking: Looking,
) -> Result<Departure, Failure> {
    loop {
        match looking.await? {
            Seen::Ahead(told) => match told.await {
                Wake::Changed => looking = look(inner, link, ahead, mine.map(|mine| &**mine)),
                Wake::ConnectionOver => return Err(Failure::broken(crate::connection::Effect::None)),
            },
            Seen::Gone => return Ok(Departure::Gone),
            Seen::NotMine => {
                if let Some(mine) = mine {
                    inner.found_gone(mine);
                }
                return Ok(Departure::Recheck);
            }
        }
    }
}

/// Looks whether the contender ahead is there. If all data was lost at once, it went with our own contender and with
/// the session, and its departure proves nothing.
fn look(inner: &Inner, link: &Arc<Link>, ahead: &ContenderId, mine: Option<&Place>) -> Looking {
    let Some(member) = Member::of(ahead) else {
        return Box::pin(std::future::ready(Ok(Seen::Gone)));
    };
    let (core, layout) = (&inner.core, &inner.core.layout);
    let told = match link.connection.wait_for(layout.contender(member.ticket).as_bytes()) {
        Ok(told) => told,
        Err(failure) => return Box::pin(std::future::ready(Err(failure))),
    };
    let get = |key: String| {
        let mut get = cmd("GET");
        get.arg(key);
        get
    };
    let mut flight = Flight::new().tracked_get(&told).command(get(layout.alive(core.id)));
    if let Some(mine) = mine {
        flight = flight.command(get(layout.contender(mine.member.ticket)));
    }
    let asking = core.fly(link, flight, Operation::Wait);
    let ahead = ahead.clone();
    Box::pin(async move {
        let mut answers = asking.await?.into_iter();
        let mut next = || answer(answers.next().ok_or_else(Failure::unexpected)?, "GET");
        if let Value::BulkString(bytes) = next()?
            && Stored::read(&bytes).is_some_and(|stored| stored.member == ahead.as_str())
        {
            return Ok(Seen::Ahead(told));
        }
        if next()? == Value::Nil {
            return Err(session_gone());
        }
        let is_mine_gone = answers.next().is_some_and(|mine| mine == Value::Nil);
        Ok(if is_mine_gone { Seen::NotMine } else { Seen::Gone })
    })
}
