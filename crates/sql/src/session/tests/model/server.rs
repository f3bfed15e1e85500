//! A database as sessions see it: its rows, what it may lose, and its own account of the state of its data. Pure.
//!
//! It does what the functions in `sessions.sql`, `liveness.sql` and `queues.sql` do, each in one step: they lock the
//! rows that they look at, so that nothing comes between.

use std::rc::Rc;

use lockkeeper_core::Ticket;

use super::answer::{Answer, Request};
use super::flaw::Flaw;
use crate::statement::SessionNumber;
use crate::timing::{BRIEF, SessionBeat, Timing};

/// The session that has a queue to itself: what it misses tells of the others' loss.
pub(super) const WITNESS: usize = 2;

/// How many sessions there are at most.
const SESSIONS: usize = WITNESS + 1;

/// The server's clock at first, in milliseconds.
const CLOCK_MS: u64 = 1 << 40;

/// By how much an operator sets the clock back, in milliseconds.
const SET_BACK_MS: u64 = 3_600_000;

/// Which database, and what it flushes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum DatabaseKind {
    /// It flushes all but places, withdrawals and beats.
    Postgres,
    /// It flushes what it acknowledges.
    Mariadb,
    /// It flushes now and then, and its settings say so.
    LazyMariadb,
}

/// How much of the latest commits is gone.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Loss {
    Nothing,
    Last,
    LastTwo,
    /// In a crash all that was not flushed; at another server all since the sessions were opened.
    All,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct StateRow {
    id: u64,
    instance: u8,
    /// The start of the server that it was told of.
    start: u32,
    is_settled: bool,
    wait_ms: u64,
    timeout_max_ms: u64,
    token_floor: i64,
    token_ceiling: i64,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct BeatRow {
    epoch: i64,
    beat: i64,
    timing: Timing,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct PlaceRow {
    ticket: Ticket,
    token: i64,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Tables {
    state: StateRow,
    sessions: [Option<BeatRow>; SESSIONS],
    places: Vec<PlaceRow>,
    last: [i64; QUEUES],
}

/// How many queues there are.
const QUEUES: usize = 2;

/// Which session a contender belongs to.
pub(super) fn session_of(ticket: Ticket) -> usize {
    usize::try_from(ticket.bits() >> 64).expect("few sessions")
}

/// Which queue a contender stands in.
fn queue_of(ticket: Ticket) -> usize {
    usize::from(session_of(ticket) == WITNESS)
}

pub(super) fn number_of(session: usize) -> SessionNumber {
    SessionNumber(u128::try_from(session).expect("few sessions"))
}

fn index_of(session: SessionNumber) -> usize {
    usize::try_from(session.0).expect("few sessions")
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct ModelServer {
    kind: DatabaseKind,
    flaw: Option<Flaw>,
    tables: Tables,
    /// The tables before the last commit, and before that one.
    before: [Option<Rc<Tables>>; 2],
    flushed: Rc<Tables>,
    unflushed: usize,
    /// The tables once the sessions were opened.
    first: Rc<Tables>,
    instance: u8,
    start: u32,
    /// What the table says that is not logged: the start that was told last.
    told_start: Option<u32>,
    states: u64,
    is_set_back: bool,
    /// The session whose rows another transaction holds.
    pub(super) held: Option<usize>,
}

impl ModelServer {
    /// Begins with sessions of these timeouts, in a state that is settled.
    pub(super) fn new(kind: DatabaseKind, flaw: Option<Flaw>, timings: &[Timing]) -> Self {
        let timeout_max_ms = timings.iter().map(|timing| timing.timeout.as_millis()).max().expect("a session");
        let state = StateRow {
            id: 0,
            instance: 0,
            start: 0,
            is_settled: true,
            wait_ms: 0,
            timeout_max_ms: u64::try_from(timeout_max_ms).expect("it is short"),
            token_floor: 0,
            token_ceiling: 0,
        };
        let opened = |session: usize| timings.get(session).map(|&timing| BeatRow { epoch: 1, beat: 1, timing });
        let sessions = std::array::from_fn(opened);
        let tables = Tables { state, sessions, places: Vec::new(), last: [0; QUEUES] };
        let first = Rc::new(tables.clone());
        let mut server = Self {
            kind,
            flaw,
            tables,
            before: [None, None],
            flushed: first.clone(),
            unflushed: 0,
            first,
            instance: 0,
            start: 0,
            told_start: Some(0),
            states: 0,
            is_set_back: false,
            held: None,
        };
        server.raise_ceiling(0);
        server.flushed = Rc::new(server.tables.clone());
        server.first = server.flushed.clone();
        server
    }

    /// Has the oldest data know neither the longest timeout, which was set since, nor the sessions with it.
    pub(super) fn forget_longest(&mut self) {
        let mut first = (*self.first).clone();
        let longest = first.state.timeout_max_ms;
        let is_shorter = |row: &BeatRow| row.timing.timeout.as_millis() < longest.into();
        first.sessions = first.sessions.map(|row| row.filter(is_shorter));
        let shorter = first.sessions.iter().flatten().map(|row| row.timing.timeout.as_millis()).max();
        first.state.timeout_max_ms = u64::try_from(shorter.expect("a shorter one")).expect("it is short");
        self.first = Rc::new(first);
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.tables.state.is_settled && self.is_present()
    }

    fn is_present(&self) -> bool {
        let state = &self.tables.state;
        state.start == self.start
            && (self.kind != DatabaseKind::Postgres || state.token_ceiling == 0 || self.has_start())
    }

    fn has_start(&self) -> bool {
        self.told_start == Some(self.tables.state.start)
    }

    /// Whether a contender is stored.
    pub(super) fn has_place(&self, ticket: Ticket) -> bool {
        self.tables.places.iter().any(|place| place.ticket == ticket)
    }

    /// Whether nothing stands in the first queue.
    pub(super) fn is_queue_empty(&self) -> bool {
        !self.tables.places.iter().any(|place| queue_of(place.ticket) == 0)
    }

    /// Whether a crash can lose so much.
    pub(super) fn can_lose(&self, loss: Loss) -> bool {
        self.unflushed
            >= [Loss::Nothing, Loss::Last, Loss::LastTwo, Loss::All].iter().position(|&one| one == loss).unwrap()
    }

    /// Whether another server can lack so much.
    pub(super) fn can_lack(&self, loss: Loss) -> bool {
        match loss {
            Loss::Nothing | Loss::All => true,
            Loss::Last => self.before[0].is_some(),
            Loss::LastTwo => self.before[1].is_some(),
        }
    }

    fn take_back(&mut self, loss: Loss, all: &Rc<Tables>) {
        let kept = match loss {
            Loss::Nothing => None,
            Loss::Last => self.before[0].clone(),
            Loss::LastTwo => self.before[1].clone(),
            Loss::All => Some(all.clone()),
        };
        if let Some(kept) = kept {
            self.tables = (*kept).clone();
        }
        self.begin();
    }

    fn begin(&mut self) {
        self.start += 1;
        self.before = [None, None];
        self.flushed = Rc::new(self.tables.clone());
        self.unflushed = 0;
        self.held = None;
    }

    /// The server is killed, and starts again.
    pub(super) fn crash(&mut self, loss: Loss) {
        let flushed = self.flushed.clone();
        self.take_back(loss, &flushed);
        if !self.has(Flaw::TakesCrashForCleanEnd) {
            self.told_start = None;
        }
    }

    /// It ends, and starts again.
    pub(super) fn restart(&mut self) {
        self.begin();
    }

    /// Another server takes over.
    pub(super) fn promote(&mut self, loss: Loss) {
        let first = self.first.clone();
        self.take_back(loss, &first);
        (self.instance, self.told_start) = (self.instance + 1, None);
    }

    /// A copy of the data is put back that was made of a server that had ended.
    pub(super) fn put_back(&mut self) {
        let first = self.first.clone();
        self.take_back(Loss::All, &first);
        self.told_start = Some(self.tables.state.start);
    }

    pub(super) fn set_clock_back(&mut self) {
        self.is_set_back = true;
    }

    fn clock_token(&self, now_ms: u64) -> i64 {
        let clock_ms = CLOCK_MS + now_ms - if self.is_set_back { SET_BACK_MS } else { 0 };
        i64::try_from(clock_ms << 20).expect("the clock is not that far")
    }

    fn commit(&mut self, before: Tables, is_flushed: bool) {
        self.before = [Some(Rc::new(before)), self.before[0].take()];
        let is_flushed = match self.kind {
            DatabaseKind::Postgres => is_flushed,
            DatabaseKind::Mariadb => true,
            DatabaseKind::LazyMariadb => false,
        };
        if is_flushed {
            self.flushed = Rc::new(self.tables.clone());
        }
        self.unflushed = if is_flushed { 0 } else { (self.unflushed + 1).min(3) };
    }

    /// Whether a pooler's connection leads to the state that was greeted over it. On PostgreSQL each message asks that.
    pub(super) fn is_reached(&self, greeted: Option<u64>) -> bool {
        let is_other = |state: u64| state != self.tables.state.id || !self.is_present();
        self.kind != DatabaseKind::Postgres || self.has(Flaw::ServesUnsettled) || !greeted.is_some_and(is_other)
    }

    /// Executes what this session asks for.
    pub(super) fn execute(&mut self, session: usize, request: &Request, now_ms: u64) -> Answer {
        let before = self.tables.clone();
        let mut is_flushed = true;
        let answer = match request {
            Request::Greet { is_new } => self.greet(*is_new),
            Request::Settle(state) => self.settle(state),
            Request::Doubt(state) => self.doubt(state),
            Request::Limit { timeout_max_ms } => self.limit(*timeout_max_ms),
            Request::Resume { epoch, beat, kept } => self.resume(session, (*epoch, *beat), *kept),
            Request::Beat { epoch, beat, own, awaited } => {
                is_flushed = self.raise_ceiling(now_ms);
                self.beat(session, (*epoch, *beat), *own, *awaited)
            }
            Request::Reap(dead) => self.reap(dead),
            Request::Join { epoch, ticket } => {
                let answer = self.join(session, *epoch, *ticket, now_ms);
                is_flushed = answer.token.is_some_and(|token| token >= self.tables.state.token_ceiling);
                answer
            }
            Request::Leave(ticket) => {
                is_flushed = false;
                self.tables.places.retain(|place| place.ticket != *ticket);
                Answer::new("left")
            }
            Request::Look(ticket) if self.may_serve() => self.show(*ticket, "ok"),
            Request::Look(_) => Answer::new("refused"),
        };
        if self.tables != before {
            self.commit(before, is_flushed);
        }
        answer
    }

    /// Whether a statement that can grant a lock is served.
    fn may_serve(&self) -> bool {
        self.is_settled() || self.has(Flaw::ServesUnsettled)
    }

    fn greet(&mut self, is_new: bool) -> Answer {
        if is_new {
            match self.kind {
                DatabaseKind::Postgres => self.greet_postgres(),
                DatabaseKind::Mariadb | DatabaseKind::LazyMariadb => self.greet_mariadb(),
            }
        }
        let state = &self.tables.state;
        let answer = Answer::new(if self.is_settled() { "ok" } else { "unsettled" });
        Answer { state: Some(state.id), timeout_ms: state.wait_ms, ..answer }
    }

    fn begin_state(&mut self, wait_ms: u64) {
        self.states += 1;
        let (instance, start, id) = (self.instance, self.start, self.states);
        let state = &mut self.tables.state;
        *state = StateRow { id, instance, start, is_settled: false, wait_ms, ..state.clone() };
    }

    fn greet_postgres(&mut self) {
        let state = self.tables.state.clone();
        if state.instance == self.instance && self.is_present() && self.has_start() {
            return;
        }
        if state.instance != self.instance || !self.is_present() {
            self.begin_state(match () {
                () if state.instance != self.instance || !self.has_start() => state.timeout_max_ms,
                () if state.is_settled => brief_ms().min(state.timeout_max_ms),
                () => state.wait_ms,
            });
        }
        let state = &mut self.tables.state;
        let lacks = !state.is_settled && state.wait_ms == state.timeout_max_ms;
        if lacks && state.token_floor < state.token_ceiling && self.flaw != Some(Flaw::LeavesFloor) {
            state.token_floor = state.token_ceiling;
        }
        self.told_start = Some(self.start);
    }

    fn greet_mariadb(&mut self) {
        let state = self.tables.state.clone();
        if (state.instance, state.start) != (self.instance, self.start) {
            let flushes = self.kind == DatabaseKind::Mariadb || self.has(Flaw::TakesCrashForCleanEnd);
            self.begin_state(match () {
                () if !flushes || state.instance != self.instance => state.timeout_max_ms,
                () if state.is_settled => brief_ms().min(state.timeout_max_ms),
                () => state.wait_ms,
            });
        }
    }

    fn settle(&mut self, name: &str) -> Answer {
        let is_it = self.tables.state.id.to_string() == name || self.has(Flaw::SettlesAnyState);
        self.tables.state.is_settled |= is_it;
        Answer::new(if is_it { "ok" } else { "unsettled" })
    }

    fn doubt(&mut self, name: &str) -> Answer {
        let state = &self.tables.state;
        if state.id.to_string() == name && !state.is_settled && state.wait_ms < state.timeout_max_ms {
            self.begin_state(self.tables.state.timeout_max_ms);
        }
        Answer::new("ok")
    }

    fn limit(&mut self, timeout_max_ms: u64) -> Answer {
        if self.tables.state.timeout_max_ms < timeout_max_ms {
            self.tables.state.timeout_max_ms = timeout_max_ms;
            self.begin_state(timeout_max_ms);
        }
        Answer::new("ok")
    }

    /// Returns whether it was raised, and so is flushed.
    fn raise_ceiling(&mut self, now_ms: u64) -> bool {
        if self.kind != DatabaseKind::Postgres || !self.is_settled() || !self.has_start() {
            return false;
        }
        let ahead = self.clock_token(now_ms).max(self.tables.state.token_floor);
        let state = &mut self.tables.state;
        let span = i64::try_from(state.timeout_max_ms).expect("it is short");
        let is_raised = state.token_ceiling < ahead + (span << 19);
        if is_raised {
            state.token_ceiling = ahead + (span << 20);
        }
        is_raised
    }

    /// What is answered where nothing could be done: other transactions hold the rows, or the session is not so.
    fn refuse(&self, session: usize) -> Answer {
        Answer::new(match &self.tables.sessions[session] {
            _ if self.held == Some(session) => "busy",
            Some(_) => "stale",
            None => "gone",
        })
    }

    fn resume(&mut self, session: usize, (epoch, beat): (i64, i64), kept: Option<Ticket>) -> Answer {
        let is_held = self.held == Some(session);
        match &mut self.tables.sessions[session] {
            Some(row) if !is_held && row.epoch < epoch && row.beat < beat => (row.epoch, row.beat) = (epoch, beat),
            _ => return self.refuse(session),
        }
        self.tables.places.retain(|place| session_of(place.ticket) != session || Some(place.ticket) == kept);
        Answer { stands: kept.filter(|ticket| self.has_place(*ticket)), ..Answer::new("ok") }
    }

    fn beat(
        &mut self,
        session: usize,
        (epoch, beat): (i64, i64),
        own: Option<Ticket>,
        awaited: Option<Ticket>,
    ) -> Answer {
        let is_held = self.held == Some(session);
        match &mut self.tables.sessions[session] {
            Some(row) if !is_held && row.epoch == epoch && row.beat < beat => row.beat = beat,
            _ => return self.refuse(session),
        }
        let tells = self.may_serve() || self.has(Flaw::AbsenceProves);
        let asked = own.into_iter().chain(awaited.filter(|_| tells));
        let missing = asked.filter(|ticket| !self.has_place(*ticket)).collect();
        let owned = awaited.filter(|ticket| self.has_place(*ticket));
        let (state, timeout_ms) = (self.is_settled().then_some(self.tables.state.id), self.tables.state.timeout_max_ms);
        Answer { state, timeout_ms, missing, owned, beats: self.beats_beside(session), ..Answer::new("ok") }
    }

    fn beats_beside(&self, session: usize) -> Vec<SessionBeat> {
        let others = self.tables.sessions.iter().enumerate().filter(|(other, _)| *other != session);
        let shown = |(other, row): (usize, &Option<BeatRow>)| {
            let BeatRow { epoch, beat, timing } = row.clone()?;
            Some(SessionBeat { session: number_of(other), epoch, beat, timing })
        };
        others.filter_map(shown).collect()
    }

    fn reap(&mut self, dead: &SessionBeat) -> Answer {
        let session = index_of(dead.session);
        if self.held == Some(session) || !self.may_serve() && !self.has(Flaw::ReapsUnsettledByOldSights) {
            return Answer::new("busy");
        }
        let is_so = |row: &BeatRow| row.epoch == dead.epoch && row.beat == dead.beat || self.has(Flaw::ReapsAnyBeat);
        if !self.tables.sessions[session].as_ref().is_some_and(is_so) {
            return Answer::new("alive");
        }
        self.tables.sessions[session] = None;
        self.tables.places.retain(|place| session_of(place.ticket) != session);
        Answer::new("removed")
    }

    fn join(&mut self, session: usize, epoch: i64, ticket: Ticket, now_ms: u64) -> Answer {
        if !self.may_serve() {
            return Answer::new("refused");
        }
        let is_latest = |row: &BeatRow| row.epoch == epoch || self.has(Flaw::JoinsOfOldEpochs);
        let stands = self.tables.sessions[session].as_ref().is_some_and(is_latest);
        if !stands || self.held == Some(session) {
            return self.refuse(session);
        }
        if !self.has_place(ticket) {
            let ahead = self.clock_token(now_ms).max(self.tables.state.token_floor) + 1;
            let last = &mut self.tables.last[queue_of(ticket)];
            *last = (*last + 1).max(ahead);
            self.tables.places.push(PlaceRow { ticket, token: *last });
        }
        self.show(ticket, "ok")
    }

    fn show(&self, ticket: Ticket, word: &'static str) -> Answer {
        let in_queue = || self.tables.places.iter().filter(|place| queue_of(place.ticket) == queue_of(ticket));
        let own = in_queue().find(|place| place.ticket == ticket).map(|place| place.token);
        let mut ahead: Vec<_> = in_queue().filter(|place| Some(place.token) < own).collect();
        ahead.sort_unstable_by_key(|place| place.token);
        let ahead = ahead.into_iter().map(|place| place.ticket).collect();
        Answer { token: own, ahead: own.map(|_| ahead), ..Answer::new(word) }
    }
}

fn brief_ms() -> u64 {
    u64::try_from(BRIEF.as_millis()).expect("it is short")
}
