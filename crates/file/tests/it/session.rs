//! Sessions of the file backend within one process: entering, leaving, losing, tidying up.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{Backend, ErrorKind, Extent, Freshness, Liveness, LivenessAt, LossReason, SafeUntil};
use lockkeeper_faults::sleeper::Sleeper;
use rustix::fs::FlockOperation;
use tempfile::tempdir;

use crate::one_lock::{LOCK, directory_of, leave_dead, sessions};
use crate::support::{Place, backend, entry, lock, queue, session};

/// The names in a queue's directory that are contenders.
fn contenders(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

/// Takes a queue's own lock from outside, as a process does that is stopped while it enters.
fn stand_in_the_way(base: &Path) -> OwnedFd {
    let file = fs::File::open(directory_of(base).join(".enter")).unwrap();
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    file.into()
}

fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn an_inherited_write_end_does_not_keep_a_lock_that_was_given_up() {
    let (_directory, [ours, theirs]) = sessions();
    let held = lock(&ours, &queue(LOCK)).await.unwrap();
    let lifeline = lockkeeper_file::lifeline(&*held.joined.standing).expect("files have one");
    let heir = Heir(std::process::Command::new("sleep").arg("1000").stdin(lifeline).spawn().unwrap());
    let mut waiter = Place::join(&theirs, &queue(LOCK)).await.unwrap();
    let waiting = tokio::spawn(async move { waiter.granted().await });
    tokio::task::yield_now().await;
    held.leave().await.unwrap();
    soon("the grant", waiting).await.unwrap().unwrap();
    drop(heir);
}

/// A process that has inherited something; killed when the test ends, however it ends.
struct Heir(std::process::Child);

impl Drop for Heir {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn a_removed_holder_is_told_at_once_and_for_good() {
    let (directory, [ours]) = sessions();
    let held = lock(&ours, &queue(LOCK)).await.unwrap();
    let other = lock(&ours, &queue("other")).await.unwrap();
    let standing = held.joined.standing.clone();
    assert_eq!(standing.liveness(LivenessAt::Now), Liveness::Held { safe_until: SafeUntil::ProcessEnd });
    let told: Vec<_> = (0..10).map(|_| tokio::spawn(standing.lost())).collect();
    let mut other_lost = other.joined.standing.lost();
    tokio::task::yield_now().await;
    let sleeper = Sleeper::start();
    fs::remove_file(directory_of(directory.path()).join(held.joined.id.as_str())).unwrap();
    assert_eq!(standing.liveness(LivenessAt::Now), Liveness::Lost(LossReason::Removed));
    for told in told {
        assert_eq!(soon("the loss", told).await.unwrap(), LossReason::Removed);
    }
    // Less than the interval of looks, so it was the kernel that reported it.
    assert!(sleeper.slept() < Duration::from_millis(900), "{:?}", sleeper.slept());
    assert!(poll_once(&mut other_lost).is_pending());
    held.leave().await.unwrap();
    assert_eq!(standing.liveness(LivenessAt::Now), Liveness::Lost(LossReason::Removed));
}

#[tokio::test]
async fn a_turn_goes_by_a_look_that_is_young_and_by_what_its_process_knows() {
    let (directory, [ours]) = sessions();
    let held = Liveness::Held { safe_until: SafeUntil::ProcessEnd };
    let looked_at = SystemClock.now();
    let after = |micros| looked_at.saturating_add(Duration::from_micros(micros));
    let removed = lock(&ours, &queue("removed")).await.unwrap();
    let standing = removed.joined.standing.clone();
    assert_eq!(standing.liveness(LivenessAt::Turn(looked_at)), held);
    fs::remove_file(directory.path().join("queues/removed").join(removed.joined.id.as_str())).unwrap();
    assert_eq!(standing.liveness(LivenessAt::Turn(after(49))), held, "the look is young");
    assert_eq!(standing.liveness(LivenessAt::Turn(after(50))), Liveness::Lost(LossReason::Removed));
    assert_eq!(standing.liveness(LivenessAt::Turn(after(1))), Liveness::Lost(LossReason::Removed), "for good");
    let left = lock(&ours, &queue("left")).await.unwrap();
    let standing = left.joined.standing.clone();
    assert_eq!(standing.liveness(LivenessAt::Turn(looked_at)), held);
    left.leave().await.unwrap();
    assert_eq!(standing.liveness(LivenessAt::Turn(looked_at)), Liveness::Lost(LossReason::Removed));
    let closed = lock(&ours, &queue("closed")).await.unwrap();
    assert_eq!(closed.joined.standing.liveness(LivenessAt::Turn(looked_at)), held);
    ours.close().await.unwrap();
    assert_eq!(closed.joined.standing.liveness(LivenessAt::Turn(looked_at)), Liveness::Lost(LossReason::Closed));
}

#[test]
fn a_loss_is_noticed_on_a_second_runtime_while_the_first_stands_still() {
    let directory = tempdir().unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (idle, busy) = (runtime(), runtime());
    let session = session(directory.path());
    let held = idle.block_on(lock(&session, &queue(LOCK))).unwrap();
    let mut idle_lost = held.joined.standing.lost();
    let polled = idle.block_on(std::future::poll_fn(|context| Poll::Ready(idle_lost.as_mut().poll(context))));
    assert!(polled.is_pending());
    let lost = held.joined.standing.lost();
    let path = directory_of(directory.path()).join(held.joined.id.as_str());
    let reason = busy.block_on(async move {
        let lost = tokio::spawn(lost);
        tokio::task::yield_now().await;
        fs::remove_file(path).unwrap();
        soon("the loss", lost).await.unwrap()
    });
    assert_eq!(reason, LossReason::Removed);
}

#[tokio::test]
async fn an_entry_that_has_to_wait_blocks_no_other_and_leaves_nothing_when_withdrawn() {
    let (directory, [ours]) = sessions();
    lock(&ours, &queue(LOCK)).await.unwrap().leave().await.unwrap();
    let in_the_way = stand_in_the_way(directory.path());
    let (withdrawn, kept) = (entry(), entry());
    let ticket = withdrawn.ticket;
    let mut first = ours.enqueue_one(&queue(LOCK), withdrawn);
    let second = ours.enqueue_one(&queue(LOCK), kept);
    assert!(poll_once(&mut first).is_pending());
    // Another queue goes on meanwhile.
    lock(&ours, &queue("other")).await.unwrap().leave().await.unwrap();
    // Nothing has been made yet, so it is certain at once that nothing will be.
    ours.withdraw(&queue(LOCK), ticket).await.unwrap();
    drop(in_the_way);
    assert_eq!(soon("the refusal", first).await.unwrap_err().kind(), ErrorKind::Closed);
    let second = soon("the place", second).await.unwrap();
    assert_eq!(contenders(&directory_of(directory.path())), [second.id.as_str()]);
}

#[tokio::test]
async fn entries_that_have_to_wait_enter_in_the_order_of_the_calls() {
    let (directory, [ours]) = sessions();
    lock(&ours, &queue(LOCK)).await.unwrap().leave().await.unwrap();
    let in_the_way = stand_in_the_way(directory.path());
    let mut waiting: Vec<_> = (0..50).map(|_| ours.enqueue_one(&queue(LOCK), entry())).collect();
    drop(in_the_way);
    waiting.push(ours.enqueue_one(&queue(LOCK), entry()));
    let mut last = None;
    for entering in waiting {
        let token = Some(soon("the place", entering).await.unwrap().token);
        assert!(token > last);
        last = token;
    }
}

#[test]
fn a_runtime_ends_at_once_while_an_entry_has_to_wait() {
    let (directory, [ours]) = sessions();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { lock(&ours, &queue(LOCK)).await.unwrap().leave().await.unwrap() });
    let in_the_way = stand_in_the_way(directory.path());
    let ticket = runtime.block_on(async {
        let entry = entry();
        let ticket = entry.ticket;
        tokio::spawn(ours.enqueue_one(&queue(LOCK), entry));
        ticket
    });
    // It would hang here if the entry had a thread of the runtime.
    drop(runtime);
    drop(ours.withdraw(&queue(LOCK), ticket));
    drop(in_the_way);
    drop(ours);
    assert_eq!(contenders(&directory_of(directory.path())), Vec::<String>::new());
}

#[tokio::test]
async fn more_queues_than_a_session_keeps_open_are_tidied_up_as_it_goes() {
    let (directory, [ours]) = sessions();
    let kept = lock(&ours, &queue("kept")).await.unwrap();
    for number in 0..200 {
        lock(&ours, &queue(&number.to_string())).await.unwrap().leave().await.unwrap();
    }
    let left = fs::read_dir(directory.path().join("queues")).unwrap().count();
    assert!(left <= 33, "{left} directories of queues are left");
    assert!(kept.joined.standing.liveness(LivenessAt::Now).is_held());
    ours.close().await.unwrap();
    assert_eq!(fs::read_dir(directory.path().join("queues")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_dead_contender_is_removed_by_the_first_process_that_meets_it() {
    let (directory, [ours]) = sessions();
    let place = Place::join(&ours, &queue(LOCK)).await.unwrap();
    let make = || directory_of(directory.path()).join(leave_dead(directory.path(), place.number() - 1, "mutex"));
    let dead = make();
    let inspected = backend(directory.path()).admin().inspect(&queue(LOCK)).await.unwrap();
    assert_eq!(inspected.len(), 1);
    assert!(dead.exists(), "an onlooker changes nothing");
    assert_eq!(ours.view(&queue(LOCK), Freshness::Latest, Extent::Whole).await.unwrap().contenders.len(), 1);
    assert!(!dead.exists());
    make();
    let mut behind = Place::join(&ours, &queue(LOCK)).await.unwrap();
    assert_eq!(behind.joined.view.contenders.len(), 3);
    place.leave().await.unwrap();
    soon("the grant", behind.granted()).await.unwrap();
    assert!(!dead.exists());
}

#[tokio::test]
async fn temporary_names_of_the_dead_are_tidied_up() {
    let (directory, [ours]) = sessions();
    let place = Place::join(&ours, &queue(LOCK)).await.unwrap();
    let left = directory_of(directory.path()).join(format!(".new-{:032x}", 0x0123));
    fs::write(&left, "").unwrap();
    let second = Place::join(&ours, &queue(LOCK)).await.unwrap();
    assert!(!left.exists());
    place.leave().await.unwrap();
    second.leave().await.unwrap();
    fs::write(&left, "").unwrap();
    drop(ours);
    assert!(!directory_of(directory.path()).exists());
}

#[tokio::test]
async fn no_file_descriptor_is_left_by_places_that_came_and_went() {
    let (directory, [ours]) = sessions();
    let names: BTreeSet<_> = (0..40).map(|number| queue(&number.to_string())).collect();
    let open = || fs::read_dir("/proc/self/fd").unwrap().filter(|fd| points_into(fd, directory.path())).count();
    for _ in 0..20 {
        for name in &names {
            let held = lock(&ours, name).await.unwrap();
            let mut waiter = Place::join(&ours, name).await.unwrap();
            held.leave().await.unwrap();
            soon("the grant", waiter.granted()).await.unwrap();
            waiter.leave().await.unwrap();
        }
    }
    // Two for each of the 32 queues that stay open, and the counter.
    assert!(open() <= 65, "{} file descriptors are open", open());
    ours.close().await.unwrap();
    drop(ours);
    assert_eq!(open(), 0);
}

fn points_into(fd: &std::io::Result<fs::DirEntry>, directory: &Path) -> bool {
    fd.as_ref().ok().and_then(|fd| fs::read_link(fd.path()).ok()).is_some_and(|target| target.starts_with(directory))
}

#[test]
fn a_lifeline_is_not_handed_to_programs_by_accident() {
    let (_directory, [session]) = sessions();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let held = runtime.block_on(lock(&session, &queue(LOCK))).unwrap();
    let lifeline = lockkeeper_file::lifeline(&*held.joined.standing).unwrap();
    assert!(rustix::io::fcntl_getfd(lifeline.as_fd()).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
}
