//! Tests of the task that keeps a session: outages, refusals, ends with a runtime.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::{SystemClock, TestClock};
use tokio::sync::watch;

use super::*;
use crate::{Beginning, ClientTesting, Names, Order, SessionTiming};

const HOUR: Duration = Duration::from_secs(3_600);

/// A connection to a server that answers nothing.
struct Silent(Server);

impl Link for Silent {
    fn is_over(&self) -> bool {
        false
    }

    fn shut(&self) {}

    fn server(&self) -> &Server {
        &self.0
    }

    fn number(&self) -> u64 {
        1
    }
}

/// A session whose end this server alone takes, and notes who was asked.
struct Session {
    life: Arc<Life<Silent>>,
    asked: Arc<Mutex<Vec<String>>>,
    taken_by: &'static str,
    /// What its connection answers to its end.
    answer: Result<(), Failure>,
}

impl Keeping for Session {
    type Link = Silent;
    type Taken = Arc<Silent>;

    fn life(&self) -> &Life<Silent> {
        &self.life
    }

    fn link(taken: &Arc<Silent>) -> Arc<Silent> {
        taken.clone()
    }

    async fn serve(&mut self, link: Arc<Silent>) -> Failure {
        self.life.attach(link);
        std::future::pending().await
    }

    fn patience(&self) -> Duration {
        Duration::MAX
    }

    async fn take_over(&self, server: Server, _number: u64, _ends: BootInstant) -> Result<Arc<Silent>, Failure> {
        Ok(Arc::new(Silent(server)))
    }

    async fn end(&mut self, _link: &Silent) -> Result<(), Failure> {
        self.answer.clone()
    }

    async fn end_at(&self, server: Server, _ends: BootInstant) -> Result<(), Failure> {
        self.asked.lock().push(server.name.clone());
        match server.name == self.taken_by {
            true => Ok(()),
            false => std::future::pending().await,
        }
    }
}

#[derive(Clone, Copy)]
struct Timing(Duration);

impl SessionTiming for Timing {
    const PATIENCE_DIVISOR: u32 = 5;

    fn timeout(self) -> Duration {
        self.0
    }

    fn worth_granting(self) -> Duration {
        Duration::ZERO
    }

    fn notice(self) -> Duration {
        Duration::ZERO
    }
}

pub(crate) fn life<L: Link>(clock: Arc<dyn Clock>, runtime: Handle, timeout: Duration) -> Arc<Life<L>> {
    let beginning = Beginning {
        session: "one".to_owned(),
        testing: ClientTesting::default(),
        timing: Timing(timeout),
        safe_until: clock.now().saturating_add(timeout),
        operation_timeout: timeout,
    };
    Arc::new(Life::new(clock, runtime, beginning))
}

/// A runtime with a session, which is connected to the first of these servers.
struct Place {
    runtime: tokio::runtime::Runtime,
    life: Arc<Life<Silent>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Place {
    fn new(servers: &[&str], taken_by: &'static str) -> Self {
        Self::answering(servers, taken_by, Ok(()))
    }

    fn answering(servers: &[&str], taken_by: &'static str, answer: Result<(), Failure>) -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let life = life(Arc::new(SystemClock), runtime.handle().clone(), HOUR);
        let servers: Vec<_> = servers.iter().map(|name| Server::new(*name, 1)).collect();
        let link = Arc::new(Silent(servers[0].clone()));
        let finder = Finder::new(&Names::unresolved(), servers, Order::Listed, life.clock.clone());
        let asked = Arc::<Mutex<_>>::default();
        let session = Session { life: life.clone(), asked: asked.clone(), taken_by, answer };
        drop(runtime.spawn(keep(session, finder, link)));
        Self { runtime, life, asked }
    }

    /// Runs its tasks as far as they come.
    fn run(&self) {
        self.runtime.block_on(async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// Ends the runtime; returns which servers were asked to end the session, and how it ended.
    fn end(self) -> (Vec<String>, Ending) {
        drop(self.runtime);
        let ending = self.life.ended();
        let ending = Builder::new_current_thread().build().expect("a runtime").block_on(ending);
        (self.asked.lock().clone(), ending)
    }
}

#[test]
fn the_service_is_told_of_the_end_of_a_runtime_before_that_is_over() {
    for is_attached in [false, true] {
        let place = Place::new(&["h1"], "h1");
        if is_attached {
            place.run();
        }
        let life = place.life.clone();
        let (asked, ending) = place.end();
        assert_eq!((asked, life.bond().liveness()), (vec!["h1".to_owned()], Liveness::Lost(LossReason::Closed)));
        assert!(matches!(ending, Ending::Certain), "{ending:?}");
    }
}

#[test]
fn where_the_connections_server_does_not_answer_another_is_told() {
    let place = Place::new(&["h2", "h3"], "h3");
    place.run();
    let (asked, ending) = place.end();
    assert_eq!(asked, ["h2", "h2", "h3"]);
    assert!(matches!(ending, Ending::Certain), "{ending:?}");
}

#[test]
fn of_many_sessions_one_alone_waits_for_a_server_that_does_not_answer() {
    let places: Vec<_> = (0..100).map(|_| Place::new(&["h4"], "none")).collect();
    places.iter().for_each(Place::run);
    let begun = SystemClock.now();
    let ended: Vec<_> = places.into_iter().map(Place::end).collect();
    assert!(ended.iter().all(|(_, ending)| matches!(ending, Ending::Untold(_))));
    let tried = ended.iter().filter(|(asked, _)| !asked.is_empty()).count();
    let took = SystemClock.now().saturating_duration_since(begun);
    // On a machine that keeps up it is one; on another one later ends are tried again.
    assert!(Duration::from_millis(250) * u32::try_from(tried).expect("100 at most") <= took, "{tried} in {took:?}");
    assert!((1..50).contains(&tried), "{tried}");
}

#[test]
fn a_session_that_is_over_is_not_ended_once_more_with_the_runtime() {
    let closed = Place::new(&["h5"], "h5");
    closed.run();
    closed.life.bond().lose(LossReason::Closed);
    closed.run();
    let expired = Place::new(&["h5"], "h5");
    expired.run();
    expired.life.expire();
    for place in [closed, expired] {
        let (asked, ending) = place.end();
        assert!(asked.is_empty() && matches!(ending, Ending::Certain), "{asked:?}, {ending:?}");
    }
}

#[test]
fn the_server_that_took_the_place_of_a_demoted_one_is_told_before_the_caller_hears_how_the_session_ended() {
    let demoted = Failure::new(FailureKind::ReadOnly, Effect::None, "a replica");
    let place = Place::answering(&["h6"], "h6", Err(demoted));
    place.run();
    place.life.bond().lose(LossReason::Closed);
    let ending = place.runtime.block_on(place.life.ended());
    assert_eq!(*place.asked.lock(), ["h6"]);
    assert!(matches!(ending, Ending::Certain), "{ending:?}");
}

/// A session whose connections end at once in this way, and whose servers are away until this moment.
struct Away {
    life: Arc<Life<Silent>>,
    failure: Failure,
    back_at: BootInstant,
    used: Arc<AtomicU64>,
    ended: watch::Sender<u32>,
}

/// How many connections such a session has used, and how often its end was told.
struct Seen {
    used: Arc<AtomicU64>,
    ended: watch::Receiver<u32>,
}

fn begin(life: &Arc<Life<Silent>>, failure: Failure, back_at: BootInstant) -> Seen {
    let (used, ended) = (Arc::<AtomicU64>::default(), watch::Sender::new(0));
    let (server, seen) = (Server::new("h7", 1), Seen { used: used.clone(), ended: ended.subscribe() });
    let finder = Finder::new(&Names::unresolved(), vec![server.clone()], Order::Listed, life.clock.clone());
    let away = Away { life: life.clone(), failure, back_at, used, ended };
    drop(tokio::spawn(keep(away, finder, Arc::new(Silent(server)))));
    seen
}

impl Away {
    fn reach(&self) -> Result<(), Failure> {
        if self.life.clock.now() < self.back_at { Err(Failure::broken(Effect::None)) } else { Ok(()) }
    }
}

impl Keeping for Away {
    type Link = Silent;
    type Taken = Arc<Silent>;

    fn life(&self) -> &Life<Silent> {
        &self.life
    }

    fn link(taken: &Arc<Silent>) -> Arc<Silent> {
        taken.clone()
    }

    async fn serve(&mut self, link: Arc<Silent>) -> Failure {
        self.life.attach(link);
        self.used.fetch_add(1, Ordering::Relaxed);
        self.failure.clone()
    }

    fn patience(&self) -> Duration {
        HOUR
    }

    async fn take_over(&self, server: Server, _number: u64, _ends: BootInstant) -> Result<Arc<Silent>, Failure> {
        self.reach().map(|()| Arc::new(Silent(server)))
    }

    async fn end(&mut self, _link: &Silent) -> Result<(), Failure> {
        self.reach()
    }

    async fn end_at(&self, _server: Server, _ends: BootInstant) -> Result<(), Failure> {
        self.reach()?;
        self.ended.send_modify(|count| *count += 1);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_lapsed_while_its_service_was_away_is_ended_there_half_a_second_after_its_return() {
    let (clock, second) = (Arc::new(TestClock::new()), Duration::from_secs(1));
    let back_at = clock.now().saturating_add(60 * second);
    let life = life(clock.clone(), Handle::current(), 4 * second);
    let mut told = begin(&life, Failure::broken(Effect::None), back_at).ended;
    assert_eq!(life.bond().lost().await, LossReason::Lapsed);
    assert!(clock.now() < back_at);
    told.changed().await.expect("it is ended");
    assert!(clock.now().saturating_duration_since(back_at) <= second / 2);
    assert!(told.changed().await.is_err(), "once");
}

/// A session whose only connection has ended, and whose server answers nothing; notes how long each round might take.
struct Late {
    life: Arc<Life<Silent>>,
    rounds: Arc<Mutex<Vec<Duration>>>,
}

impl Late {
    async fn wait(&self, ends: BootInstant) -> Failure {
        self.rounds.lock().push(ends.saturating_duration_since(self.life.clock.now()));
        self.life.clock.sleep_until(ends).await;
        Failure::late(Effect::None)
    }
}

impl Keeping for Late {
    type Link = Silent;
    type Taken = Arc<Silent>;

    fn life(&self) -> &Life<Silent> {
        &self.life
    }

    fn link(taken: &Arc<Silent>) -> Arc<Silent> {
        taken.clone()
    }

    async fn serve(&mut self, _link: Arc<Silent>) -> Failure {
        Failure::broken(Effect::None)
    }

    fn patience(&self) -> Duration {
        HOUR / 16
    }

    async fn take_over(&self, _server: Server, _number: u64, ends: BootInstant) -> Result<Arc<Silent>, Failure> {
        Err(self.wait(ends).await)
    }

    async fn end(&mut self, _link: &Silent) -> Result<(), Failure> {
        Err(Failure::broken(Effect::None))
    }

    async fn end_at(&self, _server: Server, ends: BootInstant) -> Result<(), Failure> {
        Err(self.wait(ends).await)
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_answers_too_late_for_one_round_is_given_twice_the_time_up_to_half_the_timeout() {
    let clock = Arc::new(TestClock::new());
    let life = life(clock.clone(), Handle::current(), HOUR);
    let (rounds, server) = (Arc::<Mutex<Vec<_>>>::default(), Server::new("h7", 1));
    let finder = Finder::new(&Names::unresolved(), vec![server.clone()], Order::Listed, life.clock.clone());
    let late = Late { life: life.clone(), rounds: rounds.clone() };
    drop(tokio::spawn(keep(late, finder, Arc::new(Silent(server)))));
    life.bond().lost().await;
    let lasted: Vec<_> = rounds.lock().iter().map(|round| HOUR.div_duration_f64(*round).round()).collect();
    assert!(lasted.starts_with(&[16.0, 8.0, 4.0, 2.0]), "{lasted:?}");
    tokio::time::sleep(2 * HOUR).await;
    let longest = rounds.lock().iter().copied().max();
    assert_eq!(longest, Some(HOUR / PATIENCE_MAX_DIVISOR), "also for the end of the session that has lapsed");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_refuses_each_connection_is_not_asked_in_a_busy_loop() {
    let refusal = Failure::new(FailureKind::Refused, Effect::None, "the user lacks the right to it");
    let clock = Arc::new(TestClock::new());
    let life = life(clock.clone(), Handle::current(), HOUR);
    let used = begin(&life, refusal, clock.now()).used;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let count = used.load(Ordering::Relaxed);
    assert!((60..=150).contains(&count), "{count}");
    assert!(life.trouble().is_some_and(|trouble| trouble.to_string().contains("lacks the right")));
}

#[tokio::test]
async fn callers_on_another_runtime_are_told_when_that_of_their_session_ends() {
    let place = Place::new(&["h6"], "h6");
    let life = place.life.clone();
    let waiting = life.look::<()>(Arc::new(|_| Box::pin(std::future::pending())));
    // A runtime blocks while it ends.
    tokio::task::spawn_blocking(move || drop(place)).await.expect("no panic");
    let failure = soon("the end of the wait", waiting).await.expect_err("no answer");
    let error = life.fail(failure, Operation::Join, true);
    assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Closed));
    assert!(error.to_string().contains("the runtime that kept the session has ended"), "{error}");
    assert!(life.check(Operation::Join).unwrap_err().to_string().contains("runtime"));
}
