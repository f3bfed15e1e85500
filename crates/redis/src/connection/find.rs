//! Finds the server that has the keys: by the list in the URL, by sentinels, or by what a server of a cluster says.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{Effect, Failure, FailureKind, Server, share};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, Value, cmd};

use crate::connection::answer::answer;
use crate::connection::failure::of_transport;
use crate::connection::open::socket;
use crate::url::{Access, Address, Config, Credentials};

/// How often in one round a cluster may name another of its servers: the first one knows the right one, unless the keys
/// move meanwhile.
const MOVES_MAX: usize = 3;

/// Says which server is tried next. A round tries each that the URL names once, and those that they name.
pub(crate) struct Finder {
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
    /// Which of the URL's servers is next.
    next: usize,
    /// How many of them are left in this round.
    left: usize,
    /// Where a server of the cluster has sent us.
    moved_to: Option<Server>,
    moves_left: usize,
    /// The server that was tried last.
    last: Option<Server>,
    /// What is told if the round ends without success.
    trouble: Option<Failure>,
}

impl Finder {
    /// Begins with the first of the URL's servers, as all clients do: if two of them are masters, against the rules,
    /// all still meet at one.
    pub(crate) fn new(config: Arc<Config>, clock: Arc<dyn Clock>) -> Self {
        let mut finder =
            Self { config, clock, next: 0, left: 0, moved_to: None, moves_left: 0, last: None, trouble: None };
        finder.begin_round();
        finder
    }

    /// Begins a round.
    pub(crate) fn begin_round(&mut self) {
        self.left = self.named().len();
        self.moves_left = MOVES_MAX;
        self.trouble = None;
    }

    /// Returns the server that is tried next, and until when; `None` if the round is over. How it went is to be
    /// [noted](Self::note) if it failed.
    pub(crate) async fn next(&mut self, deadline: BootInstant) -> Option<(Server, BootInstant)> {
        loop {
            if let Some(server) = self.moved_to.take() {
                let attempt_ends = share(self.clock.now(), deadline, self.left + 1);
                self.last = Some(server.clone());
                return Some((server, attempt_ends));
            }
            if self.left == 0 {
                return None;
            }
            let attempt_ends = share(self.clock.now(), deadline, self.left);
            self.left -= 1;
            let named = self.named();
            let named = named[self.next % named.len()].clone();
            self.next = self.next.wrapping_add(1);
            let found = match &self.config.address {
                Address::Servers(_) => Ok(named),
                Address::Sentinels { master, .. } => {
                    let asking = ask(&named, master, &self.config.access, &*self.clock, attempt_ends);
                    asking.await.map_err(|failure| failure.at(&named))
                }
            };
            match found {
                Ok(server) => {
                    self.last = Some(server.clone());
                    return Some((server, attempt_ends));
                }
                Err(failure) => self.judge(failure),
            }
        }
    }

    /// Notes why the server that was tried last is of no use.
    pub(crate) fn note(&mut self, failure: Failure) {
        if let (Some(moved_to), Some(last)) = (failure.moved_to(), &self.last)
            && self.moves_left > 0
        {
            self.moves_left -= 1;
            let name = if moved_to.name.is_empty() { &last.name } else { &moved_to.name };
            self.moved_to = Some(Server { name: name.clone(), port: moved_to.port });
        }
        let failure = match &self.last {
            Some(last) => failure.at(last),
            None => failure,
        };
        self.judge(failure);
    }

    /// Takes a failure for what is told of the round, unless one is known that tells more.
    fn judge(&mut self, failure: Failure) {
        // What does not pass by itself is what a user has to know.
        let is_worse = self.trouble.as_ref().is_none_or(|trouble| trouble.is_passing());
        if is_worse {
            self.trouble = Some(failure);
        }
    }

    /// Returns why the round found nothing.
    pub(crate) fn trouble(&self) -> Failure {
        self.trouble.clone().unwrap_or_else(|| Failure::broken(Effect::None))
    }

    fn named(&self) -> &[Server] {
        match &self.config.address {
            Address::Servers(servers) => servers,
            Address::Sentinels { sentinels, .. } => sentinels,
        }
    }
}

/// Asks the sentinels from time to time, and returns once more of them name another master than this one: it may go on
/// taking writes for seconds, which are then lost. It never returns if the URL names no sentinels.
pub(crate) async fn until_replaced(config: &Config, clock: &dyn Clock, server: &Server, every: Duration) -> Failure {
    let Address::Sentinels { sentinels, master } = &config.address else {
        return std::future::pending().await;
    };
    loop {
        let next = clock.now().saturating_add(every);
        clock.sleep_until(next).await;
        let (mut same, mut other) = (0, None);
        let deadline = next.saturating_add(every);
        for (position, sentinel) in sentinels.iter().enumerate() {
            let attempt_ends = share(clock.now(), deadline, sentinels.len() - position);
            match ask(sentinel, master, &config.access, clock, attempt_ends).await {
                Ok(named) if named == *server => same += 1,
                Ok(named) => other = Some((named, other.map_or(1, |(_, count)| count + 1))),
                // One that does not answer has no say.
                Err(_) => {}
            }
        }
        if let Some((named, count)) = other
            && count > same
        {
            let message = format!("{count} of {} sentinels name another master, {named}", sentinels.len());
            return Failure::new(FailureKind::ReadOnly, Effect::None, message).at(server);
        }
    }
}

/// Asks one sentinel for the master. It is told who we are only if it asks.
async fn ask(
    sentinel: &Server,
    master: &str,
    access: &Access,
    clock: &dyn Clock,
    deadline: BootInstant,
) -> Result<Server, Failure> {
    let asking = async {
        let found = ask_as(sentinel, master, None).await;
        match (&access.credentials, found) {
            (Some(credentials), Err(failure)) if failure.kind == FailureKind::Refused => {
                ask_as(sentinel, master, Some(credentials)).await
            }
            (_, found) => found,
        }
    };
    tokio::select! {
        biased;
        found = asking => found,
        () = clock.sleep_until(deadline) => Err(Failure::late(Effect::None)),
    }
    .map_err(|failure| match failure.kind {
        FailureKind::Unsupported => Failure::new(FailureKind::Settings, Effect::None, "this is no sentinel"),
        _ => failure.said_by("sentinel"),
    })
}

async fn ask_as(sentinel: &Server, master: &str, credentials: Option<&Credentials>) -> Result<Server, Failure> {
    let mut info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2).set_skip_set_lib_name();
    if let Some(Credentials { user, password }) = credentials {
        info = info.set_password(password);
        if let Some(user) = user {
            info = info.set_username(user);
        }
    }
    let unanswered = |error| of_transport(error, Effect::None);
    let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let begun = MultiplexedConnection::new_with_config(&info, socket(sentinel).await?, config).await;
    let (mut connection, driver) = begun.map_err(unanswered)?;
    let mut question = cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    let mut asking = pin!(connection.send_packed_command(&question));
    let answered = tokio::select! {
        biased;
        answered = &mut asking => answered,
        // It has told why it ended.
        () = driver => asking.await,
    };
    match answer(answered.map_err(unanswered)?, "SENTINEL")? {
        Value::Nil => {
            let message = format!("knows no master `{master}`");
            Err(Failure::new(FailureKind::Settings, Effect::None, message))
        }
        value => {
            redis::from_redis_value(value).map(|(name, port)| Server { name, port }).map_err(|_| Failure::unexpected())
        }
    }
}
