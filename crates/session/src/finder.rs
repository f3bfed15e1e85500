//! Finds the server that serves: round by round over the ways to the servers of a URL, each with its share of the time.
//!
//! What a server is asked, and whether it is the one that is looked for, the backend knows.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{BootInstant, Clock};
use tokio::sync::OwnedSemaphorePermit;

use crate::lookup::{Lookup, Lookups, Names};
use crate::turns::{AT_ONCE_MAX, Errand, turn};
use crate::{Effect, Failure, FailureKind, Order, Server, Ways, contained, share};

/// How often in one round a server may send us to another one: the first knows the right one, unless what is asked for
/// moves meanwhile.
const MOVES_MAX: usize = 3;

/// Says which way to a server is tried next. A round tries each once, and those to which servers send us.
pub struct Finder {
    names: Names,
    ways: Ways,
    clock: Arc<dyn Clock>,
    /// The names of this round whose addresses are not known yet.
    lookups: Lookups,
    moves_left: usize,
    /// The failure if the round ends without success.
    trouble: Option<Failure>,
    /// What asks each of the servers, if these only know the one that serves.
    guide: Option<Guide>,
}

/// Asks a server which one serves, until this moment.
type Guide = Arc<dyn Fn(Server, BootInstant) -> BoxFuture<Result<Server, Failure>> + Send + Sync>;

impl Finder {
    /// Begins with these servers.
    #[must_use]
    pub fn new(names: &Names, servers: Vec<Server>, order: Order, clock: Arc<dyn Clock>) -> Self {
        let ways = Ways::new(servers, order, 0, names.history.clone());
        let names = names.clone();
        Self { names, ways, clock, lookups: Lookups::default(), moves_left: 0, trouble: None, guide: None }
    }

    /// How many servers a URL has named.
    pub(crate) fn servers(&self) -> usize {
        self.ways.servers().len()
    }

    /// Asks each of the servers for the one that serves, and tries that.
    #[must_use]
    pub fn guided_by(
        self,
        guide: impl Fn(Server, BootInstant) -> BoxFuture<Result<Server, Failure>> + Send + Sync + 'static,
    ) -> Self {
        Self { guide: Some(Arc::new(guide)), ..self }
    }

    /// Tries each way once, until an attempt succeeds. It is told the way, and when it must have ended: each of those
    /// that are left has as much time, since a server that is cut off gives no answer at all.
    ///
    /// # Errors
    ///
    /// Why the round found nothing: of all failures one that does not pass by itself, if there is one, since that is
    /// what a user has to know. That a session is gone ends the round at once.
    #[expect(clippy::future_not_send, reason = "it is for attempts that are")]
    pub async fn round<T, A>(
        &mut self,
        deadline: BootInstant,
        attempt: impl Fn(Server, BootInstant) -> A,
    ) -> Result<T, Failure>
    where
        A: Future<Output = Result<T, Failure>>,
    {
        let Some(guide) = self.guide.clone() else {
            return self.try_each(deadline, attempt).await;
        };
        let (names, clock, guide, attempt) = (self.names.clone(), self.clock.clone(), &guide, &attempt);
        let (names, clock) = (&names, &clock);
        let guided = |way: Server, attempt_ends| async move {
            let named = guide(way, attempt_ends).await?;
            Self::new(names, vec![named], Order::Listed, clock.clone()).try_each(attempt_ends, attempt).await
        };
        self.try_each(deadline, guided).await
    }

    /// Waits for a turn to open a session among those that this process opens on the same servers: where a service that
    /// comes back has much to do for each. It lasts until what this returns is dropped.
    ///
    /// # Errors
    ///
    /// There was no turn before the deadline.
    pub async fn turn(&self, deadline: BootInstant) -> Result<OwnedSemaphorePermit, Failure> {
        tokio::select! {
            biased;
            turn = turn(Errand::Open, self.ways.servers()) => Ok(turn),
            () = self.clock.sleep_until(deadline) => {
                let message = format!("{AT_ONCE_MAX} others of this process were opened until the deadline");
                Err(Failure::new(FailureKind::Deadline, Effect::None, message))
            }
        }
    }

    /// Waits for a turn to end a session, as for one to open it.
    pub(crate) async fn turn_to_end(&self) -> OwnedSemaphorePermit {
        turn(Errand::End, self.ways.servers()).await
    }

    async fn try_each<T, A>(
        &mut self,
        deadline: BootInstant,
        attempt: impl Fn(Server, BootInstant) -> A,
    ) -> Result<T, Failure>
    where
        A: Future<Output = Result<T, Failure>>,
    {
        self.begin_round(deadline).await;
        loop {
            let Some(way) = self.ways.next() else {
                match self.lookups.next().await {
                    Some(lookup) => {
                        let ways = self.ways_of([lookup]);
                        self.ways.join_round(ways);
                    }
                    None => return Err(self.trouble.take().unwrap_or_else(|| Failure::broken(Effect::None))),
                }
                continue;
            };
            let attempt_ends = share(self.clock.now(), deadline, 1 + self.ways.left() + self.lookups.len());
            match contained(attempt(way.clone(), attempt_ends)).await {
                Ok(found) => {
                    self.ways.arrived(&way);
                    return Ok(found);
                }
                Err(failure) if failure.kind == FailureKind::SessionGone => return Err(failure),
                Err(failure) => {
                    self.follow(&way, failure.moved_to(), attempt_ends).await;
                    self.note(failure.at(&way));
                }
            }
        }
    }

    async fn begin_round(&mut self, deadline: BootInstant) {
        (self.moves_left, self.trouble) = (MOVES_MAX, None);
        let (now, servers) = (self.clock.now(), self.ways.servers());
        let limit = share(now, deadline, servers.len()).saturating_duration_since(now);
        self.lookups = Lookups::begin(|server| self.names.resolve(server), &self.clock, servers, limit);
        let first = self.lookups.first(&self.clock).await;
        let ways = self.ways_of(first);
        self.ways.begin_round(ways);
    }

    /// Returns the ways that lookups have found, and notes why others found none.
    fn ways_of(&mut self, lookups: impl IntoIterator<Item = Lookup>) -> Vec<Server> {
        let mut ways = Vec::new();
        for Lookup { server, resolved, .. } in lookups {
            match resolved {
                Ok(addresses) => ways.extend(addresses),
                Err(error) => self.note(Failure::unreachable("cannot be reached", error).at(&server)),
            }
        }
        ways
    }

    /// Has the ways tried next to where a server has sent us. Without a name that is on the same host.
    async fn follow(&mut self, way: &Server, moved_to: Option<&Server>, deadline: BootInstant) {
        let Some(moved_to) = moved_to.filter(|_| self.moves_left > 0) else {
            return;
        };
        self.moves_left -= 1;
        let ways = if moved_to.name.is_empty() {
            let named = Server::new(&way.name, moved_to.port);
            vec![way.address.map_or_else(|| named.clone(), |address| named.at(address))]
        } else {
            let limit = deadline.saturating_duration_since(self.clock.now());
            let resolved = self.names.ways_to(moved_to, &self.clock, limit).await;
            self.ways_of([Lookup { at: 0, server: moved_to.clone(), resolved }])
        };
        self.ways.detour(ways);
    }

    /// Takes a failure for the one that the round reports, unless one is known that tells more.
    fn note(&mut self, failure: Failure) {
        if self.trouble.as_ref().is_none_or(Failure::is_passing) {
            self.trouble = Some(failure);
        }
    }
}

impl fmt::Debug for Finder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Finder").field("ways", &self.ways).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use std::time::Duration;

    use lockkeeper_conformance::soon;
    use lockkeeper_core::clock::{SystemClock, TestClock};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::Socket;

    fn finder(names: &Names, named: &[&str], clock: Arc<dyn Clock>) -> Finder {
        let servers = named.iter().map(|name| Server::new(*name, 1)).collect();
        Finder::new(names, servers, Order::Listed, clock)
    }

    /// Plays a round in which each server fails as this says; returns those that were tried, and the failure.
    async fn played(named: &[&str], fail: fn(&Server) -> Failure) -> (Vec<String>, Failure) {
        let (clock, tried) = (Arc::new(TestClock::new()), Mutex::new(Vec::new()));
        let deadline = clock.now().saturating_add(Duration::from_secs(1));
        let mut finder = finder(&Names::unresolved(), named, clock);
        let round = finder.round(deadline, |server, _| {
            tried.lock().unwrap().push(server.to_string());
            std::future::ready(Err::<(), _>(fail(&server)))
        });
        let told = round.await.expect_err("each fails");
        (tried.into_inner().unwrap(), told)
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_pass_by_itself_is_what_is_told_of_a_round() {
        let (tried, told) = played(&["h1", "h2", "h3"], |server| match server.name.as_str() {
            "h2" => Failure::new(FailureKind::Refused, Effect::None, "the password is wrong"),
            _ => Failure::broken(Effect::None),
        })
        .await;
        assert_eq!(tried, ["h1:1", "h2:1", "h3:1"]);
        assert_eq!(told.to_string(), "h2:1: the password is wrong");
    }

    #[tokio::test(start_paused = true)]
    async fn where_a_server_sends_us_is_tried_next_and_not_for_ever() {
        let (tried, _) = played(&["h1", "h2"], |server| {
            let moved_to = match server.name.as_str() {
                "h1" => Server::new("h9", 7),
                _ => Server::new("", server.port + 1),
            };
            Failure::moved("it lies elsewhere", Some(moved_to))
        })
        .await;
        assert_eq!(tried, ["h1:1", "h9:7", "h9:8", "h9:9", "h2:1"]);
    }

    /// Asks the first server that answers for a byte.
    async fn ask(finder: &mut Finder, within: Duration) -> Result<SocketAddr, Failure> {
        let deadline = SystemClock.now().saturating_add(within);
        let round = finder.round(deadline, |way, attempt_ends| async move {
            let asking = async {
                let mut socket = Socket::connect(&way, "redis").await?;
                socket.read_u8().await.map_err(|error| Failure::of_io(&error))
            };
            tokio::select! {
                answer = asking => answer.map(|_| way.address.unwrap()),
                () = SystemClock.sleep_until(attempt_ends) => Err(Failure::late(Effect::None)),
            }
        });
        soon("the round", round).await
    }

    #[tokio::test]
    async fn of_a_name_with_two_addresses_the_one_that_answers_is_found_and_tried_first_from_then_on() {
        for is_silent in [false, true] {
            let (silent, answers) = (TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await);
            let (silent, answers) = (silent.unwrap(), answers.unwrap());
            let addresses = [&silent, &answers].map(|listener| listener.local_addr().unwrap());
            // Without it that address refuses.
            let silent = is_silent.then_some(silent);
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = answers.accept().await {
                    let _ = stream.write_all(b"!").await;
                }
            });
            let (names, servers) = (Names::at(addresses.to_vec()), vec![Server::new("h1", 1)]);
            let finder = || Finder::new(&names, servers.clone(), Order::Listed, Arc::new(SystemClock));
            let found = ask(&mut finder(), Duration::from_secs(2)).await.unwrap();
            assert_eq!(found, addresses[1], "{is_silent}");
            // The next session would wait for half of a minute.
            let mut later = finder();
            let again = tokio::time::timeout(Duration::from_secs(20), ask(&mut later, Duration::from_secs(60)));
            again.await.expect("it begins there").unwrap();
            drop(silent);
        }
    }

    #[tokio::test]
    async fn a_name_without_an_address_and_one_that_is_not_resolved_in_time_are_told_with_the_server() {
        let names = Names::resolved_by(|server| match server.name.as_str() {
            "slow" => Box::pin(std::future::pending()),
            _ => Box::pin(std::future::ready(Err(std::io::ErrorKind::NotFound.into()))),
        });
        for name in ["none", "slow"] {
            let mut finder = finder(&names, &[name], Arc::new(SystemClock));
            let told = ask(&mut finder, Duration::from_millis(10)).await.expect_err("there is no way");
            assert_eq!(told.to_string(), format!("{name}:1: cannot be reached"));
        }
    }
}
