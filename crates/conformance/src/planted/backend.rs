//! The decorator: it passes everything on, except for what its bug spoils.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_core::{
    AdminBackend, Backend, BoxFuture, Caller, Capabilities, ConnectionNumber, Contender, ContenderId, ContenderInfo,
    Departure, Enqueued, Entry, Expected, Extent, FencingToken, Finding, Freshness, Lifetime, Mode, Part, QueueName,
    QueueView, Rank, Remnant, Request, Result, Scrutiny, Session, SessionBond, Ticket, Value, ValueVersion, Values,
    Withdrawal,
};
use tokio::sync::watch;

use crate::planted::calls::{self, BuggyStanding, Order};
use crate::planted::{Bug, Layout, values};

/// How late the late wake-up is.
const LATE: Duration = Duration::from_secs(10);

/// A backend with a bug, over one without.
#[derive(Clone, Debug)]
pub struct BuggyBackend {
    inner: Arc<dyn Backend>,
    bug: Bug,
    capabilities: Capabilities,
    layout: Layout,
    /// How many withdrawals there were, of all clients.
    departures: Arc<watch::Sender<u64>>,
    /// Those that were opened, and may still live.
    open: calls::Open,
}

impl BuggyBackend {
    /// Puts a bug over the backend of one client. The clients of a service share the count of withdrawals.
    pub fn over(inner: Arc<dyn Backend>, bug: Bug, departures: Arc<watch::Sender<u64>>) -> Self {
        let layout = Layout::of(inner.capabilities().modes);
        Self::new(inner, bug, layout, departures)
    }

    pub(super) fn new(inner: Arc<dyn Backend>, bug: Bug, layout: Layout, departures: Arc<watch::Sender<u64>>) -> Self {
        let capabilities = inner.capabilities().carrying(layout.said());
        Self { inner, bug, capabilities, layout, departures, open: Arc::default() }
    }

    fn stored_as(&self, queue: &QueueName) -> QueueName {
        let name = queue.as_str();
        let spoilt = match self.bug {
            Bug::FoldsCase => name.to_lowercase(),
            Bug::CutsLongNames => name.chars().take(20).collect(),
            Bug::MergesParts => return queue.with_part(Part::Line),
            _ => return queue.clone(),
        };
        QueueName::new(&spoilt).expect("a spoilt name is still valid").with_part(queue.part())
    }

    fn seen(&self, mut view: QueueView, me: Option<&ContenderId>) -> QueueView {
        let mut contenders: Vec<Contender> = view.contenders.to_vec();
        match self.bug {
            Bug::SeesOnlyItself => contenders.retain(|other| me.is_none_or(|me| other.id == *me)),
            Bug::LastComesFirst => contenders.reverse(),
            Bug::TakesAllForMutexes => contenders.iter_mut().for_each(|contender| contender.mode = Mode::Mutex),
            Bug::ReadersLookLikeWriters => replace(&mut contenders, Mode::Read, Mode::Write),
            Bug::WritersLookLikeReaders => replace(&mut contenders, Mode::Write, Mode::Read),
            Bug::HidesAPermit => {
                let permit = contenders.iter().position(|contender| contender.mode == Mode::Permit);
                permit.map(|at| contenders.remove(at));
            }
            Bug::NeverSeesElsewhere => view.elsewhere = None,
            Bug::OmitsUncounted => view.omitted = 0,
            // Of those ahead the first is left, which then looks like the one to wait for.
            Bug::OmitsAllButOneAhead if view.omitted > 0 => {
                let end = me.and_then(|me| contenders.iter().position(|other| other.id == *me));
                drop(contenders.drain(1..end.unwrap_or(1)));
            }
            Bug::OmitsTheNearest if view.omitted > 0 => {
                let nearest = me.and_then(|me| contenders.iter().position(|other| other.id == *me)).map(|at| at - 1);
                if let Some(nearest) = nearest {
                    contenders.remove(nearest);
                    view.omitted += 1;
                }
            }
            Bug::CountsTheDeparted if view.omitted > 0 => {
                view.omitted += usize::try_from(*self.departures.borrow()).expect("a small number");
            }
            _ => {}
        }
        view.contenders = contenders.into();
        view
    }
}

fn replace(contenders: &mut [Contender], old: Mode, new: Mode) {
    for contender in contenders.iter_mut().filter(|contender| contender.mode == old) {
        contender.mode = new;
    }
}

impl Backend for BuggyBackend {
    fn service(&self) -> String {
        self.inner.service()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        let (opening, backend) = (self.inner.session(), self.clone());
        Box::pin(async move {
            let inner = opening.await?;
            if matches!(backend.bug, Bug::ExaminationsEndSessions) {
                backend.open.lock().expect("no task panics here").push(inner.clone());
            }
            let (answered, order) = (Arc::default(), Order::default());
            let session = BuggySession { inner, backend, answered, order, joins: AtomicU64::new(0) };
            let session: Arc<dyn Session> = Arc::new(session);
            Ok(session)
        })
    }

    fn admin(&self) -> &dyn AdminBackend {
        self
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.inner.close()
    }
}

impl AdminBackend for BuggyBackend {
    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        let (inspecting, bug) = (self.inner.admin().inspect(&self.stored_as(queue)), self.bug);
        Box::pin(async move {
            let mut contenders = inspecting.await?;
            match bug {
                Bug::ShowsOnlyTheHolder => contenders.truncate(1),
                Bug::HidesFreezes => contenders.iter_mut().for_each(|contender| contender.frozen = None),
                _ => {}
            }
            Ok(contenders)
        })
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        let (naming, bug) =
            (self.inner.admin().queues(if matches!(self.bug, Bug::NamesAllQueues) { "" } else { prefix }), self.bug);
        Box::pin(async move {
            let names = naming.await?;
            let times = if matches!(bug, Bug::NamesTwice) { 2 } else { 1 };
            Ok(names.into_iter().flat_map(|name| std::iter::repeat_n(name, times)).collect())
        })
    }

    fn examine(&self, scrutiny: Scrutiny) -> BoxFuture<Result<Vec<Finding>>> {
        calls::examine(self.bug, &self.inner, &self.open, scrutiny)
    }

    fn remnants(&self, unused_for: Duration) -> BoxFuture<Result<Vec<Remnant>>> {
        match self.bug {
            Bug::TakesTheLivingForDead => calls::list_the_living(self.inner.clone()),
            _ => self.inner.admin().remnants(unused_for),
        }
    }

    fn remove(&self, remnant: &Remnant) -> BoxFuture<Result<bool>> {
        match self.bug {
            Bug::TakesTheLivingForDead => calls::remove_the_living(&self.inner, remnant),
            _ => self.inner.admin().remove(remnant),
        }
    }
}

#[derive(Debug)]
struct BuggySession {
    inner: Arc<dyn Session>,
    backend: BuggyBackend,
    /// The tickets whose join was answered.
    answered: Arc<Mutex<BTreeSet<Ticket>>>,
    order: Order,
    joins: AtomicU64,
}

impl BuggySession {
    fn bug(&self) -> Bug {
        self.backend.bug
    }

    /// Returns the token that replaces the true one, if the bug replaces it.
    fn token(&self, entry: &Entry) -> Option<FencingToken> {
        let grant = match self.bug() {
            Bug::TokensStandStill => 7,
            Bug::TokensOfTheSession => self.joins.load(Ordering::SeqCst),
            Bug::SharesNoToken if entry.rank != Rank::Tail => 1_000_000 + self.joins.load(Ordering::SeqCst),
            _ => return None,
        };
        Some(FencingToken::new(grant, 0).expect("a small number is a token"))
    }

    fn spoilt(&self, mut entry: Entry) -> Entry {
        match self.bug() {
            Bug::RanksAtTheTail => entry.rank = Rank::Tail,
            Bug::ForgetsCallers => entry.caller = Caller::default(),
            Bug::PersistsNothing => entry.lifetime = Lifetime::Session,
            _ => {}
        }
        entry
    }
}

/// Spoils the answer to a join.
fn joined(backend: &BuggyBackend, mut joined: Enqueued, token: Option<FencingToken>) -> Enqueued {
    joined.view = backend.seen(joined.view, Some(&joined.id));
    joined.standing = Arc::new(BuggyStanding { inner: joined.standing, bug: backend.bug });
    joined.token = token.unwrap_or(joined.token);
    joined
}

impl Session for BuggySession {
    fn bond(&self) -> &SessionBond {
        self.inner.bond()
    }

    fn view(&self, queue: &QueueName, freshness: Freshness, extent: Extent<'_>) -> BoxFuture<Result<QueueView>> {
        let viewing = self.inner.view(&self.backend.stored_as(queue), freshness, extent);
        let backend = self.backend.clone();
        Box::pin(async move { Ok(backend.seen(viewing.await?, None)) })
    }

    fn enqueue(&self, queue: &QueueName, entries: Vec<Entry>) -> BoxFuture<Result<Vec<Enqueued>>> {
        if let Err(error) = self.backend.layout.check(&entries) {
            return Box::pin(std::future::ready(Err(error)));
        }
        self.joins.fetch_add(entries.len() as u64, Ordering::SeqCst);
        let (queue, backend, answered) = (self.backend.stored_as(queue), self.backend.clone(), self.answered.clone());
        let tickets: Vec<Ticket> = entries.iter().map(|entry| entry.ticket).collect();
        let tokens: Vec<_> = entries.iter().map(|entry| self.token(entry)).collect();
        let entries: Vec<Entry> = entries.into_iter().map(|entry| self.spoilt(entry)).collect();
        self.order.note_sent(&entries);
        let number = self.joins.load(Ordering::SeqCst);
        let joining = match self.bug() {
            Bug::JoinsOvertake => calls::overtaken(&self.inner, queue, entries, number),
            Bug::TakesSomeOfMany => calls::some_of(&self.inner, &queue, entries),
            Bug::TakesManyInSteps => calls::in_steps(self.inner.clone(), queue, entries),
            Bug::JoinsTwice => calls::one_twice(&self.inner, &queue, entries),
            Bug::JoinsWhenPolled => {
                let inner = self.inner.clone();
                Box::pin(async move { inner.enqueue(&queue, entries).await })
            }
            _ => self.inner.enqueue(&queue, entries),
        };
        self.order.let_go(&self.inner);
        Box::pin(async move {
            let answers = joining.await?;
            answered.lock().expect("no task panics here").extend(tickets);
            Ok(answers.into_iter().zip(tokens).map(|(answer, token)| joined(&backend, answer, token)).collect())
        })
    }

    fn changed(&self, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
        let (queue, backend, inner) = (self.backend.stored_as(queue), self.backend.clone(), self.inner.clone());
        let changed = match self.bug() {
            Bug::MissesChanges => {
                let now = inner.view(&queue, Freshness::Latest, Extent::Whole);
                Box::pin(async move {
                    let now = now.await?;
                    inner.changed(&queue, &now).await
                })
            }
            Bug::TellsOfChangesTooSoon => inner.view(&queue, Freshness::Latest, Extent::Whole),
            _ => inner.changed(&queue, seen),
        };
        Box::pin(async move { Ok(backend.seen(changed.await?, None)) })
    }

    fn request(&self, queue: &QueueName, contender: &ContenderId, request: Request) -> BoxFuture<Result<bool>> {
        let queue = self.backend.stored_as(queue);
        match (self.bug(), &request) {
            (Bug::BreaksNothing, Request::Break { .. }) => Box::pin(std::future::ready(Ok(true))),
            (Bug::BreaksAnyToken, Request::Break { .. }) => {
                calls::break_anyhow(&self.backend.inner, self.inner.clone(), queue, contender.clone())
            }
            _ => self.inner.request(&queue, contender, request),
        }
    }

    fn values(&self) -> &dyn Values {
        self
    }

    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> BoxFuture<Result<Departure>> {
        let departure = self.inner.departure(&self.backend.stored_as(queue), mine, ahead, seen);
        let mut departures = self.backend.departures.subscribe();
        match self.bug() {
            Bug::TellsOfDeparturesTooSoon => Box::pin(std::future::ready(Ok(Departure::Gone))),
            Bug::NeverTellsOfDepartures => Box::pin(std::future::pending()),
            Bug::MissesDepartedAhead => Box::pin(async move {
                let _ = departures.changed().await;
                departure.await
            }),
            Bug::WakesEverybody => Box::pin(async move {
                tokio::select! {
                    biased;
                    departure = departure => departure,
                    _ = departures.changed() => Ok(Departure::Recheck),
                }
            }),
            Bug::WakesLate => Box::pin(async move {
                let answer = departure.await;
                tokio::time::sleep(LATE).await;
                answer
            }),
            _ => departure,
        }
    }

    fn keep(&self, queue: &QueueName, ticket: Ticket) {
        self.inner.keep(&self.backend.stored_as(queue), ticket);
    }

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        let queue = self.backend.stored_as(queue);
        let answered = self.answered.lock().expect("no task panics here").contains(&ticket);
        let withdrawal = match self.bug() {
            Bug::ForgetsWithdrawals => Withdrawal::done(Ok(())),
            Bug::WithdrawsBehindTheNextJoin => {
                self.order.hold(&queue, ticket);
                Withdrawal::done(Ok(()))
            }
            Bug::JoinsComeLate if !answered => {
                let withdrawal = self.inner.withdraw(&queue, ticket);
                self.order.join_late(&self.inner, &queue, ticket);
                withdrawal
            }
            Bug::ForgetsUnansweredJoins if !answered => Withdrawal::done(Ok(())),
            Bug::WithdrawsWhenPolled => {
                let inner = self.inner.clone();
                Withdrawal::under_way(Box::pin(async move { inner.withdraw(&queue, ticket).await }))
            }
            Bug::ReleaseAnswersTooSoon => {
                drop(self.inner.withdraw(&queue, ticket));
                Withdrawal::done(Ok(()))
            }
            _ => self.inner.withdraw(&queue, ticket),
        };
        self.backend.departures.send_modify(|departures| *departures += 1);
        withdrawal
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        if matches!(self.bug(), Bug::ClosesNothing) {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.inner.close()
    }
}

impl Values for BuggySession {
    fn get(&self, queue: &QueueName) -> BoxFuture<Result<Option<Value>>> {
        values::value(self.bug(), &self.inner, &self.backend.stored_as(queue))
    }

    fn set(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<Result<Option<ValueVersion>>> {
        values::set_value(self.bug(), &self.inner, &self.backend.stored_as(queue), expected, value)
    }

    fn until_changed(&self, queue: &QueueName, seen: Option<ValueVersion>) -> BoxFuture<Result<Option<Value>>> {
        values::value_changed(self.bug(), &self.inner, &self.backend.stored_as(queue), seen)
    }
}
