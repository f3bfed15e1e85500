//! The parts of processes that watch, ask, freeze and count.

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{
    Backend, ConnectionNumber, Expected, Extent, Freshness, Lifetime, Mode, Part as PartOf, QueueName, QueueView,
    Request, Revocation, Session,
};

use crate::parts::{Part, QUEUE, listen, say};
use crate::support::{Onlooker, Place, backend, entry, lock, queue, session};

fn permits() -> QueueName {
    queue(QUEUE).with_part(PartOf::Permits)
}

/// Takes this many permits together, and reports how many of them it sees after each change.
pub(crate) async fn watch(part: &Part) {
    let session = session(&part.directory);
    let entries = (0..part.number).map(|_| permit()).collect();
    session.enqueue(&permits(), entries).await.unwrap();
    let mut seen = QueueView::new(ConnectionNumber(0), []);
    loop {
        seen = session.changed(&permits(), &seen).await.unwrap();
        say(&seen.contenders.len().to_string());
    }
}

fn permit() -> lockkeeper_core::Entry {
    let mut entry = entry();
    entry.mode = Mode::Permit;
    entry
}

/// Begins to wait for all sorts of things and gives up, again and again; reports the instances and watches it has left.
pub(crate) async fn watch_and_stop(part: &Part) {
    let session = session(&part.directory);
    let place = lock(&session, &queue(QUEUE)).await.unwrap();
    let empty = QueueView::new(ConnectionNumber(0), []);
    for round in 0..part.number {
        let other = queue(&round.to_string());
        let waits = async {
            tokio::join!(
                session.changed(&queue(QUEUE), &place.joined.view),
                session.changed(&other, &empty),
                session.values().until_changed(&queue(QUEUE), None),
                place.joined.standing.lost(),
                place.joined.standing.revoked(),
            )
        };
        assert!(tokio::time::timeout(Duration::from_millis(1), waits).await.is_err(), "there was nothing to report");
    }
    say(&inotify());
    session.close().await.unwrap();
    drop((place, session));
    say(&inotify());
}

/// Counts this process's inotify instances and their watches.
fn inotify() -> String {
    let (mut instances, mut watches) = (0, 0);
    for fd in fs::read_dir("/proc/self/fd").unwrap() {
        let fd = fd.unwrap();
        if fs::read_link(fd.path()).is_ok_and(|target| target.to_string_lossy().contains("inotify")) {
            instances += 1;
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.file_name().to_str().unwrap())).unwrap();
            watches += info.lines().filter(|line| line.starts_with("inotify ")).count();
        }
    }
    format!("{instances} instances, {watches} watches")
}

/// Holds, and reports what it is asked and why it lost the lock.
pub(crate) async fn be_asked(part: &Part) {
    let session = session(&part.directory);
    let place = lock(&session, &queue(QUEUE)).await.unwrap();
    let (asked, lost) = (place.joined.standing.revoked(), place.joined.standing.lost());
    let (asked, lost) = (tokio::spawn(asked), tokio::spawn(lost));
    tokio::task::yield_now().await;
    say(place.joined.id.as_str());
    say(&format!("asked: {}", asked.await.unwrap().why.unwrap_or_default()));
    say(&format!("{:?}", lost.await.unwrap()));
    listen();
}

/// Freezes the lock, and stays.
pub(crate) async fn freeze(part: &Part) {
    let session = session(&part.directory);
    let mut entry = entry();
    entry.lifetime = Lifetime::Persistent { reason: "moving".into() };
    let ticket = entry.ticket;
    session.enqueue_one(&queue(QUEUE), entry).await.unwrap();
    say(&ticket.bits().to_string());
    listen();
}

/// Reports what a user who can only read sees of a frozen lock that was asked for.
pub(crate) async fn ask_in_vain(part: &Part) {
    let backend = backend(&part.directory);
    let infos = backend.admin().inspect(&queue(QUEUE)).await.unwrap();
    let session = backend.session().await.unwrap();
    let refused = if Place::join(&session, &queue(QUEUE)).await.is_err() { "refused" } else { "let in" };
    let asked = infos[0].revocation.as_ref().and_then(|revocation| revocation.why.as_deref());
    say(&format!("frozen {:?} asked {asked:?} {refused}", infos[0].frozen.as_deref()));
}

/// Waits, as an observer, until the first in the queue has left.
pub(crate) async fn wait_for_first(part: &Part) {
    let session = backend(&part.directory).session().await.unwrap();
    let view = session.view(&queue(QUEUE), Freshness::Latest, Extent::Whole).await.unwrap();
    let departure = session.departure(&queue(QUEUE), None, &view.contenders[0].id, view.connection);
    let changed = session.changed(&queue(QUEUE), &view);
    say("waiting");
    say(&format!("{:?}, {} left", departure.await.unwrap(), changed.await.unwrap().contenders.len()));
}

/// Writes a value this many times.
pub(crate) async fn write_value(part: &Part) {
    let session = session(&part.directory);
    say("ready");
    listen();
    for round in 0..part.number {
        let value: Arc<[u8]> = round.to_string().into_bytes().into();
        session.values().set(&queue(QUEUE), Expected::Any, Some(value)).await.unwrap().unwrap();
    }
    say("done");
}

/// Does one thing after another until it is killed, and writes down each count that was acknowledged.
pub(crate) async fn storm_of_all(part: &Part) {
    let log = part.directory.with_extension("log");
    let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
    say("ready");
    loop {
        let session = session(&part.directory);
        let entries: Vec<_> = (0..3).map(|_| permit()).collect();
        let tickets: Vec<_> = entries.iter().map(|entry| entry.ticket).collect();
        session.enqueue(&permits(), entries).await.unwrap();
        count(&session).await;
        log.write_all(b"+").unwrap();
        let seen = session.view(&permits(), Freshness::Latest, Extent::Whole).await.unwrap();
        if let Some(last) = seen.contenders.last() {
            let why = Revocation::new(None, None);
            session.request(&permits(), &last.id, Request::Yield(why)).await.unwrap();
        }
        break_first(&session, part).await;
        for ticket in tickets {
            session.withdraw(&permits(), ticket).await.unwrap();
        }
        // A contender that is broken meanwhile has no lock, and does not try again.
        if let Ok(place) = Place::join(&session, &queue(QUEUE)).await {
            place.leave().await.unwrap();
        }
        session.close().await.unwrap();
    }
}

async fn break_first(session: &Arc<dyn Session>, part: &Part) {
    let infos = backend(&part.directory).admin().inspect(&queue(QUEUE)).await.unwrap();
    if let Some((id, token)) = infos.first().and_then(|info| Some((&info.id, info.token?))) {
        session.request(&permits(), id, Request::Break { token }).await.unwrap();
    }
}

/// Adds one to the value.
async fn count(session: &Arc<dyn Session>) {
    loop {
        let value = session.values().get(&queue(QUEUE)).await.unwrap();
        let number = value.as_ref().map_or(0, |value| std::str::from_utf8(&value.bytes).unwrap().parse().unwrap());
        let expected = value.map_or(Expected::Absent, |value| Expected::Version(value.version));
        let next: Arc<[u8]> = (number + 1_u64).to_string().into_bytes().into();
        if session.values().set(&queue(QUEUE), expected, Some(next)).await.unwrap().is_some() {
            return;
        }
    }
}

/// Follows all locks, and reports the names of those with contenders whenever they are others.
pub(crate) async fn follow(part: &Part) {
    let mut onlooker = Onlooker::begin(&part.directory).await;
    let mut said = None;
    loop {
        let names = onlooker.picture.locks().keys().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        if said.as_ref() != Some(&names) {
            say(&names);
            said = Some(names);
        }
        onlooker.hear().await;
    }
}
