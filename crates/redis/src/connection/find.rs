//! The search for the server that has the keys: by the list in the URL or by sentinels. A server of a cluster names it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{Effect, Failure, FailureKind, Finder, Order, Server, Socket, share, until};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, Value, cmd};

use crate::connection::answer::{answer, of_transport};
use crate::url::{Address, Config, RedisAccess, RedisCredentials};

impl Config {
    /// Begins to find the server with the keys: among those of the URL, or as its sentinels name it.
    pub(crate) fn finder(self: &Arc<Self>, clock: &Arc<dyn Clock>) -> Finder {
        let (Address::Servers(named) | Address::Sentinels { sentinels: named, .. }) = &self.address;
        let finder = Finder::new(&self.names, named.clone(), Order::Onward, clock.clone());
        let Address::Sentinels { master, .. } = &self.address else { return finder };
        let (config, master, clock) = (self.clone(), master.clone(), clock.clone());
        finder.guided_by(move |sentinel, attempt_ends| {
            let (config, master, clock) = (config.clone(), master.clone(), clock.clone());
            Box::pin(async move { ask(&sentinel, &master, &config.access, &*clock, attempt_ends).await })
        })
    }
}

/// Asks the sentinels from time to time, and returns once more of them name another master than this one: it may go on
/// taking writes for seconds, which are then lost. It never returns if the URL names no sentinels.
pub(crate) async fn until_replaced(
    config: &Config,
    clock: &Arc<dyn Clock>,
    server: &Server,
    every: Duration,
) -> Failure {
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
            let mut finder = Finder::new(&config.names, vec![sentinel.clone()], Order::Listed, clock.clone());
            let asking = |way: Server, ends| async move { ask(&way, master, &config.access, &**clock, ends).await };
            match finder.round(attempt_ends, asking).await {
                Ok(named) if named.is_reached_by(server) => same += 1,
                Ok(named) => other = Some((named, other.map_or(1, |(_, count)| count + 1))),
                // A sentinel that does not answer has no vote.
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
    access: &RedisAccess,
    clock: &dyn Clock,
    deadline: BootInstant,
) -> Result<Server, Failure> {
    let asking = async {
        let found = ask_as(sentinel, master, access, None).await;
        match (access.of_sentinels.as_ref().or(access.credentials.as_ref()), found) {
            (Some(credentials), Err(failure)) if failure.kind == FailureKind::Refused => {
                let found = ask_as(sentinel, master, access, Some(credentials)).await;
                found.map_err(|failure| match failure.kind {
                    FailureKind::Refused => failure.with_hint(SAME_CREDENTIALS),
                    _ => failure,
                })
            }
            (_, found) => found,
        }
    };
    until(clock, deadline, Effect::None, asking).await.map_err(|failure| match failure.kind {
        FailureKind::Unsupported => Failure::new(FailureKind::Settings, Effect::None, "this is no sentinel"),
        _ => failure.said_by("sentinel"),
    })
}

/// What is said of a sentinel that does not take the password.
const SAME_CREDENTIALS: &str = "; sentinels are told what the master is told, unless `sentinel_user` and \
     `sentinel_password_file` say otherwise";

async fn ask_as(
    sentinel: &Server,
    master: &str,
    #[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "it says how TLS is spoken"))]
    access: &RedisAccess,
    credentials: Option<&RedisCredentials>,
) -> Result<Server, Failure> {
    let mut info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2).set_skip_set_lib_name();
    if let Some(RedisCredentials { user, password }) = credentials {
        info = info.set_password(password);
        if let Some(user) = user {
            info = info.set_username(user);
        }
    }
    let socket = Socket::connect(sentinel, "redis+sentinel").await?;
    #[cfg(feature = "tls")]
    let socket = match &access.tls {
        Some(tls) => socket.secure(tls, sentinel).await?,
        None => socket,
    };
    let meter = socket.meter();
    let unanswered = |error| meter.judge(of_transport(error, Effect::None));
    let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let begun = MultiplexedConnection::new_with_config(&info, socket, config).await;
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
            let named = redis::from_redis_value(value).map(|(name, port): (String, u16)| Server::new(name, port));
            named.map_err(|_| Failure::unexpected())
        }
    }
}
