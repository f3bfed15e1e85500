//! Lists of a queue's children, which many callers share. A caller may ask for a list of a queue while another one is
//! asked for and not written yet. That list is then put off behind everything asked for before, and its answer serves
//! both.
//!
//! So a list shows what each of its callers had to see, and ten thousand joins at once cost a few lists. The
//! answer is taken where it arrives, so that it does not matter which of the waiting callers is polled. Each caller
//! waits for as long as one request may take, however long the list goes on for later callers.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Part, QueueView};
use lockkeeper_zk_proto::client::{QUEUED_REQUESTS_MAX, RequestId};
use lockkeeper_zk_proto::message::{ErrorCode, OpCode, ZkRequest, ZkResponse};
use parking_lot::Mutex;
use tokio::sync::SetOnce;

use crate::error::ClientError;
use crate::layout::Layout;
use crate::link::{CallAnswer, OnReply, RequestOutcome, SessionLink, Then};
use crate::lock::paths::QueuePath;

/// How many callers share a list at most when the one before it was answered: few enough that the first of them, which
/// may be granted the lock at once, does not wait for long. While lists follow one another, each is shared by twice as
/// many.
const SHARERS_MIN: usize = 64;

/// How many share a list at most, however often one after the other was needed: no more joins than this are unwritten.
const SHARERS_MAX: usize = QUEUED_REQUESTS_MAX;

/// The least number of lists at which the answered ones are forgotten. From then on it is twice as many as were
/// left the last time, so that what it takes is spread over the calls between.
const LISTS_SWEPT_MIN: usize = 256;

/// How much later than asked for a timer rings when this process has stood still; and how long the connection then has
/// to read the answer, which may have come meanwhile.
const STALL_MIN: Duration = Duration::from_millis(100);

/// A list under way, with a sync before it or not, and with a list of the lock's own node if the queue lies elsewhere.
pub(super) struct SharedList {
    gathering: Mutex<Gathering>,
    listing: SetOnce<Result<Arc<QueueListing>, ClientError>>,
    /// The queue's path, for errors.
    path: Box<str>,
}

pub(super) struct ListShare {
    list: Arc<SharedList>,
    clock: Arc<dyn Clock>,
    give_up_at: BootInstant,
}

#[derive(Debug)]
struct Gathering {
    freshness: ListFreshness,
    /// One for each request, in their order.
    answers: Vec<Option<CallAnswer>>,
    /// Whether all requests were handed over; or why one was not.
    handed_over: Option<Result<(), ClientError>>,
    /// When the last caller that shares the list asked for it.
    asked_at: BootInstant,
}

impl SharedList {
    /// A list that so many requests make.
    fn of(path: &str, freshness: ListFreshness, requests: usize, asked_at: BootInstant) -> Self {
        let answers = (0..requests).map(|_| None).collect();
        let gathering = Gathering { freshness, answers, handed_over: None, asked_at };
        Self { gathering: Mutex::new(gathering), listing: SetOnce::new(), path: path.into() }
    }

    /// Notes an answer or another step of the list; the last step completes the list.
    fn note(&self, step: impl FnOnce(&mut Gathering)) {
        let mut gathering = self.gathering.lock();
        step(&mut gathering);
        if gathering.answers.iter().any(Option::is_none) {
            return;
        }
        if let Some(handed_over) = gathering.handed_over.take() {
            let answers = std::mem::take(&mut gathering.answers).into_iter().flatten();
            let (freshness, asked_at) = (gathering.freshness, gathering.asked_at);
            let listing = handed_over.and_then(|()| QueueListing::of_answers(answers, freshness, asked_at));
            // It is completed once, because its sender is taken once.
            let _ = self.listing.set(listing.map(Arc::new));
        }
    }
}

impl ListShare {
    pub(super) async fn listing(&self) -> Result<Arc<QueueListing>, ClientError> {
        tokio::select! {
            biased;
            listing = self.list.listing.wait() => listing.clone(),
            () = self.time_is_up() => {
                Err(ClientError::unanswered_in_time(OpCode::GetChildren, &self.list.path))
            }
        }
    }

    /// Waits until the time is up and what came in time was read.
    async fn time_is_up(&self) {
        self.clock.sleep_until(self.give_up_at).await;
        let now = self.clock.now();
        if now.saturating_duration_since(self.give_up_at) > STALL_MIN {
            self.clock.sleep_until(now.saturating_add(STALL_MIN)).await;
        }
    }
}

/// Delivers one answer to a list; if it is dropped before, it says that there is none.
struct ListAnswerSender {
    list: Option<Arc<SharedList>>,
    at: usize,
    operation: OpCode,
}

impl ListAnswerSender {
    fn tell(&mut self, answer: impl FnOnce(OpCode, &str) -> CallAnswer) {
        if let Some(list) = self.list.take() {
            let (at, answer) = (self.at, answer(self.operation, &list.path));
            list.note(|gathering| gathering.answers[at] = Some(answer));
        }
    }
}

impl Drop for ListAnswerSender {
    fn drop(&mut self) {
        self.tell(|operation, path| CallAnswer::none(ClientError::session_lost(operation, path)));
    }
}

#[derive(Debug, Default)]
pub(super) struct SharedLists {
    known: Mutex<LastLists>,
}

/// The last list of each queue, until it is found to be answered.
#[derive(Debug)]
struct LastLists {
    last: BTreeMap<ListKey, Last>,
    /// At how many of them those are forgotten that are answered.
    sweep_at: usize,
}

/// What a list shows.
type ListKey = (String, Part, ListFreshness);

/// The list of a queue that was asked for last.
#[derive(Debug)]
struct Last {
    list: Weak<SharedList>,
    requests: Vec<RequestId>,
    sharers: usize,
    sharers_max: usize,
}

impl Default for LastLists {
    fn default() -> Self {
        Self { last: BTreeMap::new(), sweep_at: LISTS_SWEPT_MIN }
    }
}

impl LastLists {
    fn note(&mut self, key: ListKey, last: Last) {
        if self.last.len() >= self.sweep_at {
            self.last.retain(|_, last| last.list.strong_count() > 0);
            self.sweep_at = LISTS_SWEPT_MIN.max(2 * self.last.len());
        }
        self.last.insert(key, last);
    }
}

impl SharedLists {
    /// Asks for a list that shows the effect of all earlier requests.
    pub(super) fn ask(
        &self,
        link: &SessionLink,
        layout: Layout,
        path: &QueuePath,
        part: Part,
        freshness: ListFreshness,
    ) -> ListShare {
        let now = link.clock.now();
        let share = |list| {
            let give_up_at = now.saturating_add(link.operation_time_max);
            ListShare { list, clock: link.clock.clone(), give_up_at }
        };
        let queue = path.on_server();
        let mut known = self.known.lock();
        let key = (queue, part, freshness);
        let mut sharers_max = SHARERS_MIN;
        if let Some(last) = known.last.get_mut(&key)
            && let Some(list) = last.list.upgrade()
        {
            list.gathering.lock().asked_at = now;
            if last.sharers < last.sharers_max && link.postpone_all(&last.requests) {
                last.sharers += 1;
                return share(list);
            }
            sharers_max = SHARERS_MAX.min(2 * last.sharers_max);
        }
        let (list, requests) = send(link, layout, path, part, freshness, now);
        known.note(key, Last { list: Arc::downgrade(&list), requests, sharers: 1, sharers_max });
        share(list)
    }
}

/// Sends the requests of a list, in one segment: all of them, or none.
fn send(
    link: &SessionLink,
    layout: Layout,
    path: &QueuePath,
    part: Part,
    freshness: ListFreshness,
    now: BootInstant,
) -> (Arc<SharedList>, Vec<RequestId>) {
    let sync = (freshness == ListFreshness::Synced).then(|| ZkRequest::Sync { path: path.on_server() });
    let queue = ZkRequest::GetChildren { path: path.on_server(), watch: false };
    let needs_line = !layout.is_in_line(part);
    let line = needs_line.then(|| ZkRequest::GetChildren { path: path.line_on_server(), watch: false });
    let requests: Vec<_> = sync.into_iter().chain([queue]).chain(line).collect();
    let list = Arc::new(SharedList::of(path.shown(), freshness, requests.len(), now));
    let with_callback = |(at, request): (usize, ZkRequest)| {
        let mut teller = ListAnswerSender { list: Some(list.clone()), at, operation: request.opcode() };
        let on_reply = move |outcome: RequestOutcome| {
            teller.tell(|operation, path| CallAnswer::of(outcome, operation, path));
            Then::Done
        };
        (request, Box::new(on_reply) as OnReply)
    };
    let submitted = link.submit_all(requests.into_iter().enumerate().map(with_callback).collect(), path.shown());
    let (ids, handed_over) = match submitted {
        Ok(ids) => (ids, Ok(())),
        // None was taken on, and so each has told already that there is no answer.
        Err(error) => (Vec::new(), Err(error)),
    };
    list.note(|gathering| gathering.handed_over = Some(handed_over));
    (list, ids)
}

/// Says what a list must show.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum ListFreshness {
    /// All changes that this connection has shown; other clients may know of later ones.
    Behind,
    /// All changes that any client knew before: a sync goes before the list.
    Synced,
}

#[derive(Debug)]
pub(super) struct QueueListing {
    pub(super) epoch: u64,
    /// `None` if there is no such node.
    pub(super) children: Option<Vec<String>>,
    /// Names of the lock's own node, if the queue lies elsewhere.
    pub(super) line: Vec<String>,
    /// The list shows each node made before this time that still stands.
    pub(super) asked_at: BootInstant,
    /// What the list says, read when it is first needed.
    pub(super) reading: OnceLock<ListedQueue>,
    /// Whether it misses a place of ours, found out when it is first needed.
    pub(super) misses_any: OnceLock<bool>,
}

#[derive(Debug)]
pub(super) struct ListedQueue {
    pub(super) view: QueueView,
    pub(super) foreign: Option<String>,
    pub(super) parts: Vec<Part>,
}

impl QueueListing {
    /// Reads the answers: to a sync if there was one, to the list of the queue, and to that of the lock's own node if
    /// it was listed along.
    pub(super) fn of_answers(
        mut answers: impl Iterator<Item = CallAnswer>,
        freshness: ListFreshness,
        asked_at: BootInstant,
    ) -> Result<Self, ClientError> {
        let mut next = || answers.next();
        if freshness == ListFreshness::Synced
            && let Some(sync) = next()
        {
            sync.result?;
        }
        let queue = next().ok_or_else(|| ClientError::unexpected(OpCode::GetChildren, ""))?;
        let (epoch, children) = children(queue)?;
        let line = match next() {
            Some(line) => self::children(line)?.1.unwrap_or_default(),
            None => Vec::new(),
        };
        let (reading, misses_any) = (OnceLock::new(), OnceLock::new());
        Ok(Self { epoch, children, line, asked_at, reading, misses_any })
    }
}

/// Reads the answer to a list: the connection, and the children if there is such a node.
fn children(CallAnswer { epoch, result, .. }: CallAnswer) -> Result<(u64, Option<Vec<String>>), ClientError> {
    match result {
        Ok(ZkResponse::GetChildren { children }) => Ok((epoch, Some(children))),
        Ok(_) => Err(ClientError::unexpected(OpCode::GetChildren, "")),
        Err(error) if error.is(ErrorCode::NoNode) => Ok((epoch, None)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::clock::TestClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_stood_still_past_its_time_has_the_answer_that_came_meanwhile() {
        for (stood_still, has_answer) in [(Duration::from_secs(12), true), (Duration::ZERO, false)] {
            let clock: Arc<dyn Clock> = Arc::new(TestClock::new());
            let list = Arc::new(SharedList::of("/a", ListFreshness::Behind, 1, clock.now()));
            let give_up_at = clock.now().saturating_add(Duration::from_secs(5));
            let share = ListShare { list: list.clone(), clock, give_up_at };
            let asking = tokio::spawn(async move { share.listing().await });
            tokio::task::yield_now().await;
            tokio::time::advance(stood_still).await;
            // The connection reads after the caller was woken.
            tokio::time::sleep(Duration::from_millis(if has_answer { 1 } else { 5_001 })).await;
            list.note(|gathering| {
                gathering.answers[0] = Some(CallAnswer::none(ClientError::session_lost(OpCode::GetChildren, "/a")));
                gathering.handed_over = Some(Ok(()));
            });
            let error = asking.await.expect("no panic").expect_err("it says why there is no list");
            let in_vain = ClientError::unanswered_in_time(OpCode::GetChildren, "/a");
            assert_eq!(error.to_string() != in_vain.to_string(), has_answer, "{error}");
        }
    }

    #[test]
    fn lists_under_way_are_swept_seldom_and_those_that_were_answered_are_forgotten() {
        const LISTS: usize = 10_000;
        let mut known = LastLists::default();
        let mut sweeps = 0;
        let mut note = |known: &mut LastLists, number: usize| {
            let list = Arc::new(SharedList::of("/a", ListFreshness::Behind, 1, BootInstant::from_nanos(0)));
            let last = Last { list: Arc::downgrade(&list), requests: Vec::new(), sharers: 1, sharers_max: 1 };
            let sweep_at = known.sweep_at;
            known.note((number.to_string(), Part::Line, ListFreshness::Behind), last);
            sweeps += usize::from(known.sweep_at != sweep_at);
            list
        };
        let under_way: Vec<_> = (0..LISTS).map(|number| note(&mut known, number)).collect();
        assert_eq!(known.last.len(), LISTS);
        drop(under_way);
        for number in 0..2 * LISTS {
            drop(note(&mut known, number));
        }
        assert!(known.last.len() <= LISTS_SWEPT_MIN, "{}", known.last.len());
        assert!(sweeps < 10, "{sweeps} sweeps");
    }
}
