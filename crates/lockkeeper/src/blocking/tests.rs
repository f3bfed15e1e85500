//! The promises to threads, on the memory service.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier as Meeting};
use std::thread;
use std::time::Duration;

use super::*;
use crate::blocking::engine::Engine;
use crate::clock::{Clock, SystemClock};
use crate::retry::RetryPolicy;
use crate::testing::MemoryService;
use crate::{ErrorKind, Hold, LossReason, Wait};

/// How long anything may take that must happen.
const SOON: Duration = Duration::from_secs(20);

/// How long a wait lasts that must not succeed.
const SHORT: Duration = Duration::from_millis(50);

fn service() -> MemoryService {
    MemoryService::new(Arc::new(SystemClock))
}

fn keeper_of(service: &MemoryService) -> Keeper {
    Keeper::start(service.keeper_builder()).unwrap()
}

fn keeper() -> Keeper {
    keeper_of(&service())
}

/// Does something on another thread, and tells when it is done.
fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (done, told) = channel();
    thread::spawn(move || done.send(work()));
    told
}

fn wait_for_contenders(keeper: &Keeper, name: &str, count: usize) {
    let deadline = SystemClock.now().saturating_add(SOON);
    while keeper.contenders(name).unwrap().len() != count {
        assert!(SystemClock.now() < deadline, "{name} never had {count} contenders");
        thread::yield_now();
    }
}

#[test]
fn of_two_threads_that_lock_in_opposite_orders_the_last_is_refused_with_the_chain() {
    let keeper = keeper();
    let (door, gate) = (keeper.mutex("door").unwrap(), keeper.mutex("gate").unwrap());
    let of_gate = gate.lock().unwrap();
    let (holds, told) = channel();
    let other = elsewhere({
        let door = door.clone();
        move || {
            let of_door = door.lock().unwrap();
            holds.send(()).unwrap();
            drop(gate.lock().unwrap());
            drop(of_door);
        }
    });
    told.recv_timeout(SOON).unwrap();
    wait_for_contenders(&keeper, "gate", 2);
    let error = door.lock().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldDeadlock, "{error}");
    let text = error.to_string();
    assert!(text.starts_with("door: join: it would wait for itself: thread h"), "{text}");
    assert!(text.contains(" waits for gate, which thread h"), "{text}");
    assert_eq!(keeper.contenders("door").unwrap().len(), 1);
    drop(of_gate);
    other.recv_timeout(SOON).unwrap();
}

#[test]
fn a_thread_may_lock_what_it_has_and_others_may_not() {
    let (keeper, clone) = {
        let keeper = keeper();
        (keeper.clone(), keeper)
    };
    let mutex = keeper.mutex("door").unwrap();
    let outer = mutex.lock().unwrap();
    let inner = clone.mutex("door").unwrap().try_lock().unwrap().expect("it is ours");
    let third = mutex.lock_timeout(SHORT).unwrap().expect("it is ours");
    assert_eq!(inner.fencing_token(), outer.fencing_token());
    outer.release().unwrap();
    drop(third);
    let other = mutex.clone();
    let busy = elsewhere(move || (other.try_lock().unwrap().is_none(), other.lock_timeout(SHORT).unwrap().is_none()));
    assert_eq!(busy.recv_timeout(SOON).unwrap(), (true, true));
    assert!(inner.hold().is_held());
    inner.release().unwrap();
    assert!(elsewhere(move || mutex.try_lock().unwrap().is_some()).recv_timeout(SOON).unwrap());
}

#[test]
fn a_thread_waits_for_another_and_comes_first_if_it_came_first() {
    let keeper = keeper();
    let mutex = keeper.mutex("door").unwrap();
    let guard = mutex.lock().unwrap();
    let (order, arrivals) = channel();
    let mut waiting = Vec::new();
    for number in 0..4 {
        let (mutex, order) = (mutex.clone(), order.clone());
        waiting.push(elsewhere(move || {
            let _guard = mutex.lock().unwrap();
            order.send(number).unwrap();
        }));
        wait_for_contenders(&keeper, "door", number + 2);
    }
    guard.release().unwrap();
    let arrived: Vec<usize> = (0..4).map(|_| arrivals.recv_timeout(SOON).unwrap()).collect();
    assert_eq!(arrived, [0, 1, 2, 3]);
}

#[test]
fn a_timeout_is_kept_to() {
    let keeper = keeper();
    let mutex = keeper.mutex("door").unwrap();
    let guard = mutex.lock().unwrap();
    let waited = elsewhere(move || {
        let start = SystemClock.now();
        assert!(mutex.lock_timeout(SHORT).unwrap().is_none());
        SystemClock.now().saturating_duration_since(start)
    });
    let waited = waited.recv_timeout(SOON).unwrap();
    assert!(waited >= SHORT, "{waited:?}");
    assert_eq!(keeper.contenders("door").unwrap().len(), 1);
    drop(guard);
}

#[test]
fn a_thread_that_writes_may_read_and_keep_that_and_one_that_reads_may_not_write() {
    let keeper = keeper();
    let book = keeper.rw_lock("book").unwrap();
    let write = book.write().unwrap();
    let next = elsewhere({
        let book = book.clone();
        move || book.run_write(|_| ()).unwrap()
    });
    wait_for_contenders(&keeper, "book", 2);
    let read = book.read().unwrap();
    drop(book.write().unwrap());
    write.release().unwrap();
    assert_eq!(book.write().unwrap_err().kind(), ErrorKind::WouldDeadlock);
    assert_eq!(book.try_write().unwrap_err().kind(), ErrorKind::WouldDeadlock);
    // The waiting writer keeps the thread from nothing that it has.
    drop(book.try_read().unwrap().expect("ours"));
    assert!(next.recv_timeout(SHORT).is_err());
    read.release().unwrap();
    next.recv_timeout(SOON).unwrap();
}

#[test]
fn permits_are_given_back_by_any_thread() {
    let keeper = keeper();
    let semaphore = keeper.semaphore("desks", 2).unwrap();
    let permits = semaphore.acquire_many(2).unwrap();
    assert!(semaphore.try_acquire().unwrap().is_none());
    assert!(semaphore.acquire_timeout(SHORT).unwrap().is_none());
    let released = elsewhere(move || permits.into_iter().try_for_each(Permit::release));
    released.recv_timeout(SOON).unwrap().unwrap();
    semaphore.acquire().unwrap().release().unwrap();
}

#[test]
fn several_locks_are_had_together_and_count_for_the_thread() {
    let service = service();
    let (ann, bob) = (keeper_of(&service), Keeper::start(MemoryService::new(Arc::new(SystemClock)).keeper_builder()));
    let bob = bob.unwrap();
    let (a, b, book) = (ann.mutex("a").unwrap(), bob.mutex("b").unwrap(), ann.rw_lock("book").unwrap());
    let locks = MultiLock::new([b.into(), a.clone().into(), Member::read(book)]).unwrap();
    let first = a.lock().unwrap();
    let all = locks.lock().unwrap();
    drop(first);
    let names: Vec<_> = all.holds().map(|hold| hold.name().to_string()).collect();
    assert_eq!(names, ["a", "b", "book"]);
    let busy = elsewhere({
        let locks = locks.clone();
        move || a.try_lock().unwrap().is_none() && locks.try_lock().unwrap().is_none()
    });
    assert!(busy.recv_timeout(SOON).unwrap());
    all.release().unwrap();
    assert_eq!(ann.contenders("a").unwrap().len() + bob.contenders("b").unwrap().len(), 0);
    assert!(locks.lock_timeout(SHORT).unwrap().expect("free").is_held());
    let none: [Mutex; 0] = [];
    assert_eq!(MultiLock::new(none).unwrap_err().kind(), ErrorKind::InvalidRequest);
}

#[test]
fn work_is_run_under_the_lock_and_a_panic_gives_it_back() {
    let keeper = keeper();
    let mutex = keeper.mutex("door").unwrap();
    let inner = mutex.clone();
    let token = mutex.run(|hold| inner.run(|again| (hold.fencing_token(), again.fencing_token())).unwrap()).unwrap();
    assert_eq!(token.0, token.1);
    let panicked = thread::spawn({
        let mutex = mutex.clone();
        move || mutex.run(|_| panic!("as it should"))
    });
    assert!(panicked.join().is_err());
    assert!(mutex.try_lock().unwrap().is_some());
}

#[test]
fn work_with_a_wait_is_not_begun_when_the_time_is_up_first() {
    let keeper = keeper();
    let (mutex, book) = (keeper.mutex("door").unwrap(), keeper.rw_lock("book").unwrap());
    let (held, written) = (mutex.lock().unwrap(), book.write().unwrap());
    let elsewhere_in_vain = elsewhere({
        let (mutex, book) = (mutex.clone(), book.clone());
        move || {
            let short = Duration::from_millis(20);
            let in_vain = mutex.run_timeout(short, |_| unreachable!("the lock was not had")).unwrap();
            let unread = book.run_read_timeout(short, |_| unreachable!("the lock was not had")).unwrap();
            let unwritten: Option<()> =
                book.run_write_timeout(Duration::ZERO, |_| unreachable!("the lock was not had")).unwrap();
            let nothing: [Option<()>; 3] = [in_vain, unread, unwritten];
            nothing.iter().all(Option::is_none)
        }
    });
    assert!(elsewhere_in_vain.recv_timeout(SOON).unwrap());
    // The thread that has it locks it again.
    assert_eq!(mutex.run_timeout(SOON, Hold::is_held).unwrap(), Some(true));
    assert_eq!(book.run_write_timeout(SOON, Hold::is_held).unwrap(), Some(true));
    drop((held, written));
    assert_eq!(book.run_read_timeout(SOON, Hold::is_held).unwrap(), Some(true));
    assert!(mutex.try_lock().unwrap().is_some());
}

#[test]
fn a_lock_that_was_lost_is_reported_and_can_be_locked_anew_when_its_guards_are_gone() {
    let keeper = keeper();
    let mutex = keeper.mutex("door").unwrap();
    let lost = ErrorKind::Lost(LossReason::Expired);
    let error = mutex.run(|hold| {
        keeper.as_async().testing().unwrap().expire_session();
        assert!(!hold.is_held());
        assert_eq!(mutex.lock().unwrap_err().kind(), lost);
    });
    assert_eq!(error.unwrap_err().kind(), lost);
    mutex.lock().unwrap().release().unwrap();
}

#[test]
fn closing_a_keeper_wakes_its_waiters_with_an_error() {
    let keeper = keeper();
    let mutex = keeper.mutex("door").unwrap();
    let guard = mutex.lock().unwrap();
    let waiting = elsewhere({
        let mutex = mutex.clone();
        move || mutex.lock().map(drop)
    });
    wait_for_contenders(&keeper, "door", 2);
    keeper.close().unwrap();
    assert_eq!(waiting.recv_timeout(SOON).unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(guard.release().unwrap_err().kind(), ErrorKind::Lost(LossReason::Closed));
    assert_eq!(mutex.lock().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_drained_keeper_grants_nothing_more_and_says_what_is_held_still() {
    let keeper = keeper();
    let (door, hall) = (keeper.mutex("door").unwrap(), keeper.mutex("hall").unwrap());
    let (guard, outer, inner) = (door.lock().unwrap(), hall.lock().unwrap(), hall.lock().unwrap());
    assert!(door.is_held_here() && keeper.holds().len() == 2);
    let waiting = elsewhere(move || door.lock().map(drop));
    wait_for_contenders(&keeper, "door", 2);
    let held = keeper.drain(SHORT).unwrap();
    assert_eq!(held.iter().map(|own| own.lock.as_str()).collect::<Vec<_>>(), ["door", "hall"]);
    assert_eq!(waiting.recv_timeout(SOON).unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(keeper.mutex("free").unwrap().try_lock().unwrap_err().kind(), ErrorKind::Closed);
    let draining = elsewhere({
        let keeper = keeper.clone();
        move || keeper.drain(SOON).unwrap()
    });
    drop((guard, outer));
    assert!(inner.hold().is_held() && draining.try_recv().is_err());
    inner.release().unwrap();
    assert!(draining.recv_timeout(SOON).unwrap().is_empty());
    keeper.close().unwrap();
}

#[test]
fn the_session_has_ended_when_the_last_user_is_dropped_and_not_before() {
    let service = service();
    let keeper = keeper_of(&service);
    let (watching, guard) = (keeper.as_async().clone(), keeper.mutex("door").unwrap().lock().unwrap());
    drop(keeper);
    assert!(guard.hold().is_held());
    let hold = guard.hold().clone();
    drop(guard);
    assert!(!hold.is_held());
    assert_eq!(keeper_of(&service).contenders("door").unwrap().len(), 0);
    // The async keeper shares the session, which has ended for it too.
    let locked = Engine::start().unwrap().call(async move { watching.mutex("door")?.lock().await.map(drop) });
    assert_eq!(locked.unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn what_fails_for_good_is_told_and_what_may_pass_is_told_by_a_try() {
    let service = service();
    let keeper = Keeper::start(service.keeper_builder().retry(RetryPolicy::none())).unwrap();
    assert_eq!(keeper.mutex("").unwrap_err().kind(), ErrorKind::InvalidName);
    assert_eq!(connect("nonsense").unwrap_err().kind(), ErrorKind::InvalidUrl);
    keeper.as_async().testing().unwrap().cut(crate::SafeUntil::ProcessEnd);
    assert_eq!(keeper.mutex("door").unwrap().try_lock().unwrap_err().kind(), ErrorKind::ConnectionLost);
}

#[test]
fn in_an_async_task_a_call_works_on_every_kind_of_runtime() {
    for mut runtime in [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()] {
        let runtime = runtime.build().unwrap();
        let keeper = keeper();
        let mutex = keeper.mutex("door").unwrap();
        let (enter, entered) = channel();
        let (leave, left) = channel::<()>();
        let holder = elsewhere({
            let mutex = mutex.clone();
            move || {
                mutex.run(|_| {
                    enter.send(()).unwrap();
                    left.recv_timeout(SOON).unwrap();
                })
            }
        });
        entered.recv_timeout(SOON).unwrap();
        let waited = elsewhere(move || {
            runtime.block_on(async move {
                assert!(mutex.try_lock()?.is_none());
                assert!(mutex.lock_timeout(SHORT)?.is_none());
                leave.send(()).unwrap();
                // Dropped within the task, with its last user.
                let guard = mutex.lock()?;
                drop(mutex);
                guard.release()
            })
        });
        waited.recv_timeout(SOON).unwrap().unwrap();
        holder.recv_timeout(SOON).unwrap().unwrap();
    }
}

#[test]
fn many_threads_on_one_mutex_are_never_two_inside() {
    const THREADS: usize = 8;
    const TURNS: usize = 50;
    let keeper = keeper();
    let start = Arc::new(Meeting::new(THREADS));
    let inside = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let workers = (0..THREADS).map(|_| {
        let (mutex, start, inside) = (keeper.mutex("door").unwrap(), start.clone(), inside.clone());
        elsewhere(move || {
            start.wait();
            for _ in 0..TURNS {
                mutex
                    .run(|_| {
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        thread::yield_now();
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    })
                    .unwrap();
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.recv_timeout(SOON).expect("no panic and no deadlock");
    }
    assert_eq!(keeper.contenders("door").unwrap().len(), 0);
}

#[test]
fn a_thread_leads_alone_and_another_leads_when_it_resigns() {
    let keeper = keeper();
    let election = keeper.election("lead").unwrap();
    let lead = election.campaign().unwrap();
    assert!(election.campaign_within(Wait::No).unwrap().is_none());
    assert_eq!(election.leader().unwrap().map(|leader| leader.id).as_ref(), Some(lead.hold().contender()));
    let next = elsewhere(move || election.campaign().unwrap().fencing_token());
    wait_for_contenders(&keeper, "lead", 2);
    let token = lead.fencing_token();
    lead.resign().unwrap();
    assert!(next.recv_timeout(SOON).unwrap() > token);
}

#[test]
fn threads_wait_at_a_barrier_until_it_is_removed_and_go_into_a_double_barrier_together() {
    let keeper = keeper();
    let barrier = keeper.barrier("way").unwrap();
    barrier.set().unwrap();
    assert!(barrier.wait_within(Wait::AtMost(SHORT)).unwrap().is_none());
    let waiting = elsewhere({
        let barrier = barrier.clone();
        move || barrier.wait()
    });
    assert!(waiting.recv_timeout(SHORT).is_err());
    barrier.remove().unwrap();
    waiting.recv_timeout(SOON).unwrap().unwrap();

    let hall = keeper.double_barrier("hall", 2).unwrap();
    assert!(hall.enter_within(Wait::AtMost(SHORT)).unwrap().is_none(), "one of two");
    let other = elsewhere({
        let hall = hall.clone();
        move || hall.enter().unwrap().leave()
    });
    let inside = hall.enter().unwrap();
    assert!(inside.hold().is_held() && other.recv_timeout(SHORT).is_err(), "it waits for us to leave");
    inside.leave().unwrap();
    other.recv_timeout(SOON).unwrap().unwrap();
}

#[test]
fn threads_count_together_and_hear_of_a_change() {
    let keeper = keeper();
    let counter = keeper.shared_counter("builds").unwrap();
    let seen = counter.get().unwrap();
    let changed = elsewhere({
        let counter = counter.clone();
        move || counter.changed(seen).unwrap().number()
    });
    assert_eq!(counter.compare_and_set(seen, 7).unwrap().map(|count| count.number()), Some(7));
    assert!(counter.compare_and_set(seen, 8).unwrap().is_none(), "it was written since");
    assert_eq!(changed.recv_timeout(SOON).unwrap(), 7);

    let value = keeper.shared_value("motd").unwrap();
    let version = value.set(b"hello").unwrap();
    assert!(value.compare_and_set(None, b"x").unwrap().is_none());
    assert!(value.compare_and_set(Some(version), b"bye").unwrap().is_some());
    assert_eq!(value.get().unwrap().map(|value| value.bytes.to_vec()), Some(b"bye".to_vec()));
    value.remove().unwrap();
    assert!(value.get().unwrap().is_none());
}
