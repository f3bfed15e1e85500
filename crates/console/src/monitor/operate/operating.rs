//! State of all operators' requests: the token, who is logged in, and the service that orders go to.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use lockkeeper::clock::BootInstant;
use lockkeeper::{Keeper, QueueName};
use lockkeeper_monitor::Collector;
use parking_lot::Mutex;

use super::origin::{PublicUrl, RequestOrigin};
use super::request::Refused;
use super::sessions::{OperatorSessions, SESSION_LASTS, SessionKey};
use super::token::Token;
use super::under_way::{OrdersUnderWay, UnderWay};
use crate::exit::CommandFailure;
use crate::ordering::OperatorOrder;
use crate::output::say;

/// How many wrong tokens may be given in a minute: by all callers together, since addresses are cheap and those behind
/// a proxy have one. A right token waits too, or guessing would go on.
const WRONG_MAX: usize = 5;

/// How many lines about refused requests are logged in a minute: anyone who reaches the port can cause them.
const REFUSALS_LOGGED_MAX: usize = 60;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Operating {
    keeper: Keeper,
    collector: Arc<Collector>,
    token: Token,
    public: Option<PublicUrl>,
    /// The name of its cookie: another one for each monitor of a machine, since cookies know no ports.
    cookie: String,
    doors: Mutex<Doors>,
    under_way: OrdersUnderWay,
}

#[derive(Debug)]
struct Doors {
    wrong: Window,
    refusals: Window,
    /// How many refusals were not logged since the last one that was.
    unlogged: usize,
    sessions: OperatorSessions,
}

impl Operating {
    /// Carries out the orders of who has this token, on a monitor that listens on this port.
    pub(crate) fn new(
        keeper: Keeper,
        collector: Arc<Collector>,
        token: Token,
        public: Option<PublicUrl>,
        port: u16,
    ) -> Self {
        let doors = Doors {
            wrong: Window::new(WRONG_MAX, MINUTE),
            refusals: Window::new(REFUSALS_LOGGED_MAX, MINUTE),
            unlogged: 0,
            sessions: OperatorSessions::default(),
        };
        Self {
            keeper,
            collector,
            token,
            public,
            cookie: format!("lockkeeper-{port}"),
            doors: Mutex::new(doors),
            under_way: OrdersUnderWay::default(),
        }
    }

    /// Refuses what comes by a way that carries no orders, or from a page of others.
    pub(super) fn require(&self, caller: &RequestOrigin, is_page: bool) -> Result<(), Refused> {
        self.require_way(caller)?;
        caller.require_origin(self.public.as_ref(), is_page)
    }

    /// Refuses what comes by a way that carries no orders.
    pub(super) fn require_way(&self, caller: &RequestOrigin) -> Result<(), Refused> {
        caller.require_way(self.public.as_ref())
    }

    /// Compares a token, unless too many wrong ones were given.
    pub(super) fn check_token(&self, given: &str, wrong: StatusCode) -> Result<(), Refused> {
        let now = self.collector.now().boot;
        let mut doors = self.doors.lock();
        if let Some(after) = doors.wrong.wait(now) {
            return Err(Refused::too_many(after));
        }
        if self.token.is(given) {
            return Ok(());
        }
        doors.wrong.note(now);
        Err(Refused::new(wrong, "This is not the token."))
    }

    /// Logs a caller in who has given the token; returns the cookie to set.
    pub(super) fn log_in(&self, caller: &RequestOrigin) -> Result<String, CommandFailure> {
        let (id, secret) = (random_text()?, random_text()?);
        self.doors.lock().sessions.open(&id, secret, self.collector.now().boot);
        say(&format!("operating: {} has logged in", caller.name()));
        Ok(self.cookie(caller, &id, SESSION_LASTS))
    }

    /// Ends a session; returns the cookie to set.
    pub(super) fn log_out(&self, caller: &RequestOrigin, session: &SessionKey) -> String {
        self.doors.lock().sessions.close(session);
        say(&format!("operating: {} has logged out", caller.name()));
        self.cookie(caller, "", Duration::ZERO)
    }

    fn cookie(&self, caller: &RequestOrigin, id: &str, lasts: Duration) -> String {
        let public = self.public.as_ref().filter(|public| caller.is_public(Some(public)));
        let (path, secure) = match public {
            Some(public) => (public.path(), "; Secure"),
            None => ("/", ""),
        };
        let (name, seconds) = (&self.cookie, lasts.as_secs());
        format!("{name}={id}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
    }

    pub(super) fn session(&self, caller: &RequestOrigin) -> Option<SessionKey> {
        let id = caller.cookie(&self.cookie)?;
        self.doors.lock().sessions.find(id, self.collector.now().boot)
    }

    /// Returns what the forms of a session carry.
    pub(super) fn secret(&self, session: &SessionKey) -> Option<String> {
        self.doors.lock().sessions.secret(session).map(str::to_owned)
    }

    /// Returns the session of a caller that is logged in and has sent a form of it.
    pub(super) fn require_form(&self, caller: &RequestOrigin, secret: &str) -> Result<SessionKey, Refused> {
        let session = self.session(caller).ok_or_else(|| {
            Refused::new(StatusCode::UNAUTHORIZED, "You are not logged in, or not any more: log in, and order again.")
        })?;
        if !self.doors.lock().sessions.is_of(&session, secret) {
            return Err(Refused::forbidden("The form is of another session: load its page anew, and order again."));
        }
        Ok(session)
    }

    /// Begins to carry an order out. It goes on when the caller does not wait for the end, and is logged then.
    /// Fails if too many are under way, which is logged, or the monitor ends.
    pub(super) fn begin(
        &self,
        caller: &RequestOrigin,
        by: &str,
        lock: QueueName,
        order: OperatorOrder,
    ) -> Result<UnderWay, Refused> {
        let (keeper, name) = (self.keeper.clone(), said(&lock, &order, &caller.name(), by));
        let is_freeze = matches!(order, OperatorOrder::Freeze { .. });
        let carried_out = async move { order.carry_out(&keeper, &lock).await };
        let begun = self.under_way.begin(name.clone(), is_freeze, carried_out);
        begun.inspect_err(|refused| self.log_refusal(&name, refused))
    }

    /// Gives up what is under way, and takes no order any more. The keeper is to be closed after it, so that freezes
    /// that wait leave their queues.
    pub(crate) async fn stop(&self) {
        self.under_way.stop().await;
    }

    /// Logs that something was refused before it was tried; `what` names it and who asked.
    pub(super) fn log_refusal(&self, what: &str, refused: &Refused) {
        let now = self.collector.now().boot;
        let mut doors = self.doors.lock();
        if doors.refusals.wait(now).is_some() {
            doors.unlogged += 1;
            return;
        }
        doors.refusals.note(now);
        let unlogged = std::mem::take(&mut doors.unlogged);
        drop(doors);
        if unlogged > 0 {
            say(&format!("operating: {unlogged} more requests were refused and not logged"));
        }
        say(&format!("operating: {what}: refused: {}", refused.text));
    }

    /// Keeps what came of an order for the session that gave it; returns its number.
    pub(super) fn tell(&self, session: &SessionKey, text: String) -> Option<u64> {
        self.doors.lock().sessions.tell(session, text)
    }

    /// Says something else under a number.
    pub(super) fn tell_again(&self, session: &SessionKey, number: u64, text: String) {
        self.doors.lock().sessions.tell_again(session, number, text);
    }

    pub(super) fn told(&self, session: &SessionKey, number: u64) -> Option<String> {
        self.doors.lock().sessions.told(session, number).map(str::to_owned)
    }
}

/// Names an order for the log: what, of which lock, for which contender, and who gives it.
pub(super) fn said(lock: &QueueName, order: &OperatorOrder, caller: &str, by: &str) -> String {
    let seen = order.seen().map(|seen| {
        let token = seen.token.map_or_else(|| "without a token".to_owned(), |token| format!("with token {token}"));
        format!(", contender {} {token}", seen.id)
    });
    format!("{} {lock}{}, ordered by {caller} {by}", order.word(), seen.unwrap_or_default())
}

/// Returns a text that cannot be guessed: 128 random bits.
fn random_text() -> Result<String, CommandFailure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| CommandFailure::ours(format!("the system has no random numbers: {error}")))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// A sliding-window rate limit: when the last ones were, as far as they count.
#[derive(Debug)]
pub(super) struct Window {
    max: usize,
    over: Duration,
    times: VecDeque<BootInstant>,
}

impl Window {
    /// Lets `max` of them be in any time of `over`.
    pub(super) const fn new(max: usize, over: Duration) -> Self {
        Self { max, over, times: VecDeque::new() }
    }

    /// Counts an event; forgets events that are too old, or beyond the limit.
    pub(super) fn note(&mut self, now: BootInstant) {
        if self.times.len() >= self.max {
            self.times.pop_front();
        }
        self.times.push_back(now);
    }

    /// Returns after which time the next one may be; `None` if it may be now.
    pub(super) fn wait(&self, now: BootInstant) -> Option<Duration> {
        let oldest = self.times.front().filter(|_| self.times.len() >= self.max)?;
        let left = self.over.saturating_sub(now.saturating_duration_since(*oldest));
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_so_many_in_a_minute_the_next_waits_until_the_first_is_a_minute_old() {
        let minute = Duration::from_secs(60);
        let at = |seconds: u64| BootInstant::from_nanos(0).saturating_add(Duration::from_secs(1_000 + seconds));
        let mut window = Window::new(5, minute);
        for second in 0..5 {
            assert_eq!(window.wait(at(second)), None);
            window.note(at(second));
        }
        assert_eq!(window.wait(at(4)), Some(Duration::from_secs(56)));
        assert_eq!(window.wait(at(59)), Some(Duration::from_secs(1)));
        assert_eq!(window.wait(at(60)), None);
        window.note(at(60));
        assert_eq!(window.wait(at(60)), Some(Duration::from_secs(1)), "the second one of before counts still");
        assert_eq!(window.wait(at(61)), None);
    }
}
