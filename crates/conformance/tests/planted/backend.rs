//! The decorator: it passes everything on, but for what its bug spoils.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_core::{
    Backend, BoxFuture, Capabilities, Contender, ContenderId, ContenderInfo, Departure, Enqueued, Entry, FencingToken,
    Mode, QueueName, QueueView, Result, Session, SessionBond, Ticket, Version, Withdrawal,
};
use tokio::sync::watch;

use super::Bug;
use super::standing::BuggyStanding;

/// How late the late wake-up is.
const LATE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct BuggyBackend {
    pub(super) inner: Arc<dyn Backend>,
    pub(super) bug: Bug,
    /// How many withdrawals there were, of all clients.
    pub(super) departures: Arc<watch::Sender<u64>>,
    pub(super) sessions: Arc<AtomicU64>,
}

impl BuggyBackend {
    fn stored_as(&self, queue: &QueueName) -> QueueName {
        let name = queue.as_str();
        let spoilt = match self.bug {
            Bug::FoldsCase => name.to_lowercase(),
            Bug::CutsLongNames => name.chars().take(20).collect(),
            _ => return queue.clone(),
        };
        QueueName::new(&spoilt).expect("a spoilt name is still one")
    }

    fn seen(&self, view: QueueView, me: Option<&ContenderId>) -> QueueView {
        let mut contenders: Vec<Contender> = view.contenders.to_vec();
        match self.bug {
            Bug::SeesOnlyItself => contenders.retain(|other| me.is_none_or(|me| other.id == *me)),
            Bug::LastComesFirst => contenders.reverse(),
            Bug::TakesAllForMutexes => contenders.iter_mut().for_each(|contender| contender.mode = Mode::Mutex),
            _ => {}
        }
        QueueView::new(view.version, contenders)
    }
}

impl Backend for BuggyBackend {
    fn service(&self) -> String {
        self.inner.service()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        self.sessions.fetch_add(1, Ordering::SeqCst);
        let (opening, backend) = (self.inner.session(), self.clone());
        Box::pin(async move {
            let inner = opening.await?;
            let session = BuggySession { inner, backend, answered: Arc::default(), joins: AtomicU64::new(0) };
            let session: Arc<dyn Session> = Arc::new(session);
            Ok(session)
        })
    }

    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        let (inspecting, bug) = (self.inner.inspect(&self.stored_as(queue)), self.bug);
        Box::pin(async move {
            let mut contenders = inspecting.await?;
            if bug == Bug::ShowsOnlyTheHolder {
                contenders.truncate(1);
            }
            Ok(contenders)
        })
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        self.inner.queues(if self.bug == Bug::NamesAllQueues { "" } else { prefix })
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.inner.close()
    }
}

#[derive(Debug)]
struct BuggySession {
    inner: Arc<dyn Session>,
    backend: BuggyBackend,
    /// The tickets whose join was answered.
    answered: Arc<Mutex<BTreeSet<Ticket>>>,
    joins: AtomicU64,
}

impl BuggySession {
    fn bug(&self) -> Bug {
        self.backend.bug
    }

    fn token(&self, token: FencingToken) -> FencingToken {
        let grant = match self.bug() {
            Bug::TokensStandStill => 7,
            Bug::TokensOfTheSession => self.joins.load(Ordering::SeqCst),
            _ => return token,
        };
        FencingToken::new(grant, 0).expect("a small number is a token")
    }
}

impl Session for BuggySession {
    fn bond(&self) -> &SessionBond {
        self.inner.bond()
    }

    fn view(&self, queue: &QueueName) -> BoxFuture<Result<QueueView>> {
        let (viewing, backend) = (self.inner.view(&self.backend.stored_as(queue)), self.backend.clone());
        Box::pin(async move { Ok(backend.seen(viewing.await?, None)) })
    }

    fn enqueue(&self, queue: &QueueName, entry: Entry) -> BoxFuture<Result<Enqueued>> {
        self.joins.fetch_add(1, Ordering::SeqCst);
        let (queue, bug, ticket) = (self.backend.stored_as(queue), self.bug(), entry.ticket);
        if bug == Bug::JoinsTwice {
            let ticket = Ticket::mint().expect("the system gives randomness");
            drop(self.inner.enqueue(&queue, Entry::new(ticket, entry.mode, entry.owner.clone())));
        }
        let joining = if bug == Bug::JoinsWhenPolled {
            let inner = self.inner.clone();
            Box::pin(async move { inner.enqueue(&queue, entry).await })
        } else {
            self.inner.enqueue(&queue, entry)
        };
        let (backend, answered) = (self.backend.clone(), self.answered.clone());
        let spoilt_token = self.token(FencingToken::new(0, 0).expect("zero is a token"));
        let spoils_token = matches!(bug, Bug::TokensStandStill | Bug::TokensOfTheSession);
        Box::pin(async move {
            let mut joined = joining.await?;
            answered.lock().expect("nobody panics here").insert(ticket);
            joined.view = backend.seen(joined.view, Some(&joined.id));
            joined.standing = Arc::new(BuggyStanding { inner: joined.standing, bug });
            if spoils_token {
                joined.token = spoilt_token;
            }
            Ok(joined)
        })
    }

    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: Version,
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

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        let queue = self.backend.stored_as(queue);
        let answered = self.answered.lock().expect("nobody panics here").contains(&ticket);
        let withdrawal = match self.bug() {
            Bug::ForgetsWithdrawals => Withdrawal::done(Ok(())),
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
        if self.bug() == Bug::ClosesNothing {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.inner.close()
    }
}
