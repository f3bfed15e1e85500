//! A whole backend in one file: where to start when you write one, with "Adding a backend" in `CONTRIBUTING.md`.
//!
//! The service is a list in this process, behind one lock that tells of its changes. The file uses public names alone,
//! as a crate of yours would, and takes the simplest way everywhere: a real service does not wake all waiters at each
//! change. `cargo run -p lockkeeper-conformance --example toy_backend` runs the suite over it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{pending, ready};
use std::sync::Arc;

use lockkeeper_conformance::{Arguments, Client, Fault, FaultKind, Fixture, run};
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{
    AdminBackend, Answers, Backend, BoxFuture, Capabilities, ConnectionNumber, Contender, ContenderId, ContenderInfo,
    Departure, ENTRIES_MAX, Enqueued, Entry, Error, ErrorKind, Exclusion, Expected, Extent, Fencing, FencingToken,
    Freshness, Lifetime, Liveness, LivenessAt, LossReason, Operation, Part, QueueName, QueueView, Rank, Removal,
    Request, Result, Revocation, SafeUntil, Session, SessionBond, Standing, StoppedHolder, Ticket, VALUE_BYTES_MAX,
    Value, ValueVersion, Values, Withdrawal,
};
use tokio::sync::watch;

type Answer<T> = BoxFuture<Result<T>>;

/// The service. Its clones are its clients.
#[derive(Clone, Debug, Default)]
struct Toy(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    /// The last number given to a contender or a state of a value: none comes twice, and all grow.
    last: u64,
    /// The contenders of all queues; those of one queue in their order.
    rows: Vec<Arc<Row>>,
    values: BTreeMap<QueueName, Value>,
}

/// A contender, and its standing.
#[derive(Debug)]
struct Row {
    queue: QueueName,
    info: ContenderInfo,
    bond: SessionBond,
    lost: watch::Sender<Option<LossReason>>,
    revocation: watch::Sender<Option<Revocation>>,
}

impl State {
    fn queue(&self, queue: &QueueName) -> impl Iterator<Item = &Arc<Row>> {
        self.rows.iter().filter(move |row| row.queue == *queue)
    }
    /// Shows the whole queue, which is never less than was asked for. The one connection never breaks.
    fn view(&self, queue: &QueueName) -> QueueView {
        let show = |row: &Arc<Row>| Contender { id: row.info.id.clone(), ticket: row.info.ticket, mode: row.info.mode };
        let mut view = QueueView::new(ConnectionNumber(1), self.queue(queue).map(show).collect::<Vec<_>>());
        let mut others = queue.part().opposite().iter().map(|&part| queue.with_part(part));
        view.elsewhere = others.find_map(|other| self.queue(&other).next().map(|row| row.info.mode));
        view
    }
    fn remove(&mut self, reason: LossReason, is_meant: impl Fn(&Row) -> bool) {
        self.rows.extract_if(.., |row| is_meant(row)).for_each(|row| _ = row.lost.send_replace(Some(reason)));
    }
}

fn check(is_met: bool, kind: ErrorKind, operation: Operation, why: &str) -> Result<()> {
    if is_met { Ok(()) } else { Err(Error::permanent(kind, operation, why)) }
}

fn check_open(bond: &SessionBond, operation: Operation) -> Result<()> {
    check(bond.liveness().is_held(), ErrorKind::Closed, operation, "the session is closed")
}

impl Backend for Toy {
    fn service(&self) -> String {
        "toy:".to_owned()
    }
    fn capabilities(&self) -> &Capabilities {
        &const { Capabilities::new("toy", Exclusion::Process, Fencing::Process, StoppedHolder::Keeps, Removal::Told) }
    }
    fn session(&self) -> Answer<Arc<dyn Session>> {
        let (toy, bond) = (self.clone(), SessionBond::new(Arc::new(SystemClock), SafeUntil::ProcessEnd));
        let open = |name: Ticket| Arc::new(ToySession { toy, name: name.to_string(), bond }) as Arc<dyn Session>;
        Box::pin(ready(Ticket::mint().map(open)))
    }
    fn admin(&self) -> &dyn AdminBackend {
        self
    }
}

impl AdminBackend for Toy {
    fn inspect(&self, queue: &QueueName) -> Answer<Vec<ContenderInfo>> {
        let state = self.0.borrow();
        let parts = [Part::Line, Part::Permits, Part::Waiters].map(|part| queue.with_part(part));
        let info = |row: &Arc<Row>| {
            let mut info = row.info.clone();
            info.revocation = row.revocation.borrow().clone();
            info
        };
        Box::pin(ready(Ok(parts.iter().flat_map(|part| state.queue(part)).map(info).collect())))
    }
    fn queues(&self, prefix: &str) -> Answer<Vec<QueueName>> {
        let state = self.0.borrow();
        let names: BTreeSet<_> = state.rows.iter().map(|row| row.queue.with_part(Part::Line)).collect();
        Box::pin(ready(Ok(names.into_iter().filter(|name| name.as_str().starts_with(prefix)).collect())))
    }
}

#[derive(Debug)]
struct ToySession {
    toy: Toy,
    name: String,
    bond: SessionBond,
}

impl ToySession {
    /// Asks the service at the call: the future only brings the answer.
    fn ask<T: Send + 'static>(&self, operation: Operation, ask: impl FnOnce(&mut State) -> Result<T>) -> Answer<T> {
        let mut answer = None;
        self.toy.0.send_modify(|state| answer = Some(check_open(&self.bond, operation).and_then(|()| ask(state))));
        Box::pin(ready(answer.expect("it was asked")))
    }
    /// Waits until a look at the state has an answer, or the session is closed.
    fn until<T>(&self, mut look: impl FnMut(&State) -> Option<T> + Send + 'static) -> Answer<T> {
        let (bond, mut changes) = (self.bond.clone(), self.toy.0.subscribe());
        Box::pin(async move {
            loop {
                check_open(&bond, Operation::Wait)?;
                if let Some(answer) = look(&changes.borrow_and_update()) {
                    return Ok(answer);
                }
                changes.changed().await.expect("the end of the session is a change, and the channel ends later");
            }
        })
    }
    fn join(&self, state: &mut State, queue: &QueueName, entry: Entry) -> Enqueued {
        state.last += 1;
        let id = ContenderId::new(state.last.to_string());
        let own_token = FencingToken::new(state.last, 0).expect("a count does not come to 2^63");
        let beside = state.rows.iter().position(|row| entry.rank == Rank::With(row.info.id.clone()));
        let token = beside.and_then(|at| state.rows[at].info.token).unwrap_or(own_token);
        let mut info = ContenderInfo::new(id.clone(), entry.mode);
        (info.ticket, info.token) = (Some(entry.ticket), Some(token));
        (info.owner, info.caller, info.answers) =
            (Some((*entry.owner).clone()), entry.caller, Answers::of(&entry.caller));
        info.since_unix = Some(SystemClock.unix_time());
        match entry.lifetime {
            Lifetime::Session => info.session = Some(self.name.clone()),
            Lifetime::Persistent { reason } => info.frozen = Some(reason.to_string()),
        }
        let (bond, lost, revocation) = (self.bond.clone(), watch::Sender::default(), watch::Sender::default());
        let row = Arc::new(Row { queue: queue.clone(), info, bond, lost, revocation });
        state.rows.insert(beside.map_or(state.rows.len(), |at| at + 1), row.clone());
        Enqueued { id, token, view: QueueView::new(ConnectionNumber(1), []), standing: row }
    }
}

impl Session for ToySession {
    fn bond(&self) -> &SessionBond {
        &self.bond
    }
    fn view(&self, queue: &QueueName, _: Freshness, _: Extent<'_>) -> Answer<QueueView> {
        self.ask(Operation::View, |state| Ok(state.view(queue)))
    }
    fn enqueue(&self, queue: &QueueName, entries: Vec<Entry>) -> Answer<Vec<Enqueued>> {
        self.ask(Operation::Join, |state| {
            check(entries.len() <= ENTRIES_MAX, ErrorKind::LimitReached, Operation::Join, "too many entries at once")?;
            let stands = |id: &ContenderId| state.queue(queue).any(|row| row.info.id == *id);
            let is_alone = |entry: &Entry| matches!(&entry.rank, Rank::With(id) if !stands(id));
            check(!entries.iter().any(is_alone), ErrorKind::Removed, Operation::Join, "the place beside it is gone")?;
            let mut joined: Vec<_> = entries.into_iter().map(|entry| self.join(state, queue, entry)).collect();
            let view = state.view(queue);
            joined.iter_mut().for_each(|joined| joined.view = view.clone());
            Ok(joined)
        })
    }
    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        _: ConnectionNumber,
    ) -> Answer<Departure> {
        let (queue, mine, ahead) = (queue.clone(), mine.cloned(), ahead.clone());
        self.until(move |state| {
            let is_gone = |id: &ContenderId| state.queue(&queue).all(|row| row.info.id != *id);
            let removed = mine.as_ref().is_some_and(is_gone).then_some(Departure::Recheck);
            removed.or_else(|| is_gone(&ahead).then_some(Departure::Gone))
        })
    }
    fn changed(&self, queue: &QueueName, seen: &QueueView) -> Answer<QueueView> {
        let (queue, seen) = (queue.clone(), seen.clone());
        self.until(move |state| {
            Some(state.view(&queue)).filter(|new| new.contenders != seen.contenders || new.elsewhere != seen.elsewhere)
        })
    }
    fn request(&self, queue: &QueueName, contender: &ContenderId, request: Request) -> Answer<bool> {
        self.ask(Operation::Request, |state| {
            let Some(row) = state.queue(queue).find(|row| row.info.id == *contender).cloned() else { return Ok(false) };
            match request {
                Request::Yield(revocation) => _ = row.revocation.send_replace(Some(revocation)),
                Request::Break { token } if row.info.token != Some(token) => return Ok(false),
                Request::Break { .. } => state.remove(LossReason::Broken, |other| other.info.id == row.info.id),
                _ => check(false, ErrorKind::Unsupported, Operation::Request, "there is no such request here")?,
            }
            Ok(true)
        })
    }
    fn values(&self) -> &dyn Values {
        self
    }
    /// It takes effect at the call, and this process knows of each loss at once, so there is nothing to report.
    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        let is_meant = |row: &Row| row.queue == *queue && row.info.ticket == Some(ticket);
        self.toy.0.send_modify(|state| state.remove(LossReason::Released, is_meant));
        Withdrawal::done(Ok(()))
    }
    fn keep(&self, _: &QueueName, _: Ticket) {} // A contender costs its session nothing here.
    fn close(&self) -> Answer<()> {
        self.toy.0.send_modify(|state| {
            self.bond.lose(LossReason::Closed);
            state.remove(LossReason::Closed, |row| row.info.session.as_ref() == Some(&self.name));
        });
        Box::pin(ready(Ok(())))
    }
}

impl Values for ToySession {
    fn get(&self, queue: &QueueName) -> Answer<Option<Value>> {
        self.ask(Operation::Value, |state| Ok(state.values.get(queue).cloned()))
    }
    fn set(&self, name: &QueueName, expected: Expected, new: Option<Arc<[u8]>>) -> Answer<Option<ValueVersion>> {
        self.ask(Operation::Value, |state| {
            let is_short = new.as_ref().is_none_or(|bytes| bytes.len() <= VALUE_BYTES_MAX);
            check(is_short, ErrorKind::LimitReached, Operation::Value, "the value is too long")?;
            let found = state.values.get(name).map_or(Expected::Absent, |value| Expected::Version(value.version));
            if expected != Expected::Any && expected != found {
                return Ok(None);
            }
            state.last += 1;
            let version = ValueVersion(state.last.into());
            state.values.remove(name);
            state.values.extend(new.map(|bytes| (name.clone(), Value { bytes, version })));
            Ok(Some(version))
        })
    }
    fn until_changed(&self, queue: &QueueName, seen: Option<ValueVersion>) -> Answer<Option<Value>> {
        let queue = queue.clone();
        self.until(move |state| {
            Some(state.values.get(&queue).cloned()).filter(|value| value.as_ref().map(|value| value.version) != seen)
        })
    }
}

impl Drop for ToySession {
    fn drop(&mut self) {
        drop(self.close());
    }
}

impl Standing for Row {
    fn liveness(&self, _at: LivenessAt) -> Liveness {
        self.lost.borrow().map_or_else(|| self.bond.liveness(), Liveness::Lost)
    }
    fn lost(&self) -> BoxFuture<LossReason> {
        told(&self.lost)
    }
    fn revoked(&self) -> BoxFuture<Revocation> {
        told(&self.revocation)
    }
}

/// Waits until there is something; never ends if the contender goes without it.
fn told<T: Clone + Send + Sync + 'static>(source: &watch::Sender<Option<T>>) -> BoxFuture<T> {
    let mut source = source.subscribe();
    Box::pin(async move {
        let told = source.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        if let Some(told) = told { told } else { pending().await }
    })
}

impl Fixture for Toy {
    fn client(&self) -> Answer<Arc<dyn Client>> {
        Box::pin(ready(Ok(Arc::new(self.clone()) as Arc<dyn Client>)))
    }
    fn can_inflict(&self, kind: FaultKind) -> bool {
        matches!(kind, FaultKind::RemoveContender | FaultKind::TellOfRemoval)
    }
    fn leftovers(&self) -> Answer<Vec<String>> {
        let state = self.0.borrow();
        let values = state.values.keys().filter(|name| name.part() != Part::Permits);
        let names = state.rows.iter().map(|row| &row.queue).chain(values);
        Box::pin(ready(Ok(names.map(|name| format!("{name:?}")).collect())))
    }
}

impl Client for Toy {
    fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }
    fn inflict(&self, fault: Fault) -> Answer<()> {
        let Fault::RemoveContender { contender, .. } = fault else { unreachable!("not offered: {fault:?}") };
        self.0.send_modify(|state| state.remove(LossReason::Removed, |row| row.info.id == contender));
        Box::pin(ready(Ok(())))
    }
}

fn main() -> std::process::ExitCode {
    run(&Arguments::from_args(), || Box::pin(async { Ok(Arc::new(Toy::default()) as Arc<dyn Fixture>) }))
}
