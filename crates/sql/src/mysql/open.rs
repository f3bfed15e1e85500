//! A new connection: it is opened and greeted, and our schema is made if it is missing.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_session::{Effect, Failure, FailureKind};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use tokio::sync::mpsc;

use crate::engine::{ATTEMPTS_MAX, Connected, Intent, unmade};
use crate::mysql::access::{SILENCE_MIN, access, begin};
use crate::mysql::greeting::{self, MysqlFacts, MysqlSchema};
use crate::mysql::wire::{MysqlWire, WireParts};
use crate::mysql::{MODE, grants, refusal, set_up};
use crate::schema::Schema;
use crate::url::Config;

/// How long a statement of ours waits for a row at most, in seconds; the server counts whole ones.
const LOCK_WAIT_MAX_S: u64 = 2;

/// What our statements rely on, and a server or a user may have otherwise by default: that each is a transaction by
/// itself, and begins no other; that it may write, without a key in its condition; that no row is left out and keys
/// are checked; and how it is read. Each server reads the comment that is meant for it.
const RELIED_ON: &str = "SET NAMES utf8mb4, SESSION autocommit = 1, completion_type = 0, sql_safe_updates = 0, \
     sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_auto_is_null = 0, foreign_key_checks = 1, \
     unique_checks = 1, \
     sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION' \
     /*M! , tx_read_only = 0 */ /*!80000 , transaction_read_only = 0, max_execution_time = 0 */";

/// What ends the limits that each statement has by default, or that [`settings`] has set. Only MariaDB has one for all
/// statements.
const UNLIMITED: &str =
    ", innodb_lock_wait_timeout = DEFAULT, lock_wait_timeout = DEFAULT /*M! , max_statement_time = 0 */";

/// The statement that does both.
fn unlimited() -> String {
    format!("{RELIED_ON}{UNLIMITED}")
}

/// How long the making of our schema waits for another that makes it, in seconds.
const SET_UP_MAX_S: u64 = 60;

/// Connects, and makes sure that locks can be had.
pub(crate) async fn connect(
    config: &Arc<Config>,
    server: &lockkeeper_session::Server,
    clock: &Arc<dyn Clock>,
    intent: Intent,
) -> Result<Connected, Failure> {
    let access = access(config, server)?;
    let mut connection = begin(&access).await?;
    let timeout = config.session_timeout();
    let settings_of_calls = settings(timeout, timeout / 6);
    let Greeted { server: greeted, found, version } = greet(config, &mut connection, &settings_of_calls).await?;
    if intent == Intent::SetUp || found.check(&config.schema)? != Schema::Ready || version.is_none() {
        patiently(&mut connection, &unlimited(), 1).await?;
        if ready_schema(config, &mut connection, &greeted.user, intent).await? == Schema::Missing {
            return Ok(unmade(format!("the database `{}`", config.schema), greeted.greeting(config)));
        }
        connection.query_drop(settings_of_calls).await.map_err(refusal::of_greeting)?;
    }
    let greeting = greeted.greeting(config);
    let parts = WireParts {
        schema: config.schema.clone(),
        clock: clock.clone(),
        access,
        // A wait for a named lock has an end by itself.
        lock_wait_settings: settings(timeout, Duration::ZERO),
        grants: grants(&config.schema, &greeted.user),
        wake_method: greeting.wake_method,
    };
    // Nothing is told by the server: it is only known to have ended.
    let (_, hints) = mpsc::channel(1);
    Ok(Connected { wire: Arc::new(MysqlWire::new(parts, connection)), greeting, hints })
}

/// What is known of a server and our schema there.
struct Greeted {
    server: MysqlFacts,
    found: MysqlSchema,
    /// The version of the schema; none while it is being made.
    version: Option<i64>,
}

/// Asks what a server is and has, and gives the connection its settings, all in one message.
async fn greet(config: &Config, connection: &mut Conn, settings: &str) -> Result<Greeted, Failure> {
    let [variables, who, started] = MysqlFacts::QUESTIONS;
    let [procedures, strange] = MysqlSchema::questions(&config.schema);
    let unlimited = unlimited();
    let questions = [&unlimited, variables, who, started, &procedures, &strange, settings];
    // That comes last, since it is refused where there is no schema.
    let message = format!("{}; {}", questions.join("; "), call_version(&config.schema));
    let mut answers = match patiently(connection, &message, questions.len()).await {
        Ok(answers) => answers.into_iter(),
        Err(failure) if failure.kind == FailureKind::Broken => return Err(failure),
        Err(_) => return greet_in_steps(config, connection, settings).await,
    };
    let mut next = || answers.next().unwrap_or_default();
    let [_, variables, who, started, procedures, strange, _, version] = std::array::from_fn(|_| next());
    let server = MysqlFacts::read(connection, [variables, who, started]).await?;
    server.check(config)?;
    let version = greeting::first::<Option<i64>>(version)?.flatten();
    Ok(Greeted { server, found: MysqlSchema::read([procedures, strange])?, version })
}

/// The same, one after the other: a proxy may refuse several statements in one message. A look-alike that does not know
/// some of them is refused by its name.
async fn greet_in_steps(config: &Config, connection: &mut Conn, settings: &str) -> Result<Greeted, Failure> {
    let lifted = patiently(connection, &unlimited(), 1).await;
    let [variables, who, _] = MysqlFacts::QUESTIONS;
    let variables = connection.query(variables).await.map_err(refusal::of_greeting)?;
    let who = connection.query(who).await.map_err(refusal::of_greeting)?;
    let server = MysqlFacts::read(connection, [variables, who, Vec::new()]).await?;
    server.check(config)?;
    lifted?;
    let found = MysqlSchema::ask(connection, config).await?;
    let version = version(config, connection).await;
    connection.query_drop(settings).await.map_err(refusal::of_greeting)?;
    Ok(Greeted { server, found, version })
}

/// Sends statements in one message, and returns the rows that each is answered; none of those behind a refusal, which
/// is told only if it is one of the first `needed`. They are sent again if a limit ended them that a server or a user
/// has by default: the first is to lift it, and is limited itself.
async fn patiently(connection: &mut Conn, statements: &str, needed: usize) -> Result<Vec<Vec<Row>>, Failure> {
    let mut left = ATTEMPTS_MAX;
    loop {
        let mut answers = Vec::new();
        let refused = read_answers(connection, statements, &mut answers).await.map_err(refusal::of_greeting);
        match refused {
            Err(failure) if failure.kind == FailureKind::Broken || answers.len() < needed => {
                if failure.kind != FailureKind::Busy || left == 0 {
                    return Err(failure);
                }
                left -= 1;
            }
            Ok(()) if answers.len() < needed => return Err(Failure::unexpected()),
            _ => return Ok(answers),
        }
    }
}

async fn read_answers(
    connection: &mut Conn,
    statements: &str,
    answers: &mut Vec<Vec<Row>>,
) -> Result<(), mysql_async::Error> {
    let mut result = connection.query_iter(statements).await?;
    // One without rows has no columns either, which looks like the end if it is the last.
    loop {
        answers.push(result.collect().await?);
        if result.columns().is_none() {
            // Errors of later statements surface here.
            return result.drop_result().await;
        }
    }
}

/// The settings of a connection: what a server or a user has by default may do harm. A server that has lost its client
/// lets go of it. Only MariaDB has the limit for all statements, and reads the comment.
fn settings(timeout: Duration, limit: Duration) -> String {
    let silence_s = (timeout * 2).max(SILENCE_MIN).as_secs();
    let lock_s = LOCK_WAIT_MAX_S.min((timeout / 6).as_secs()).max(1);
    format!(
        "{RELIED_ON}, innodb_lock_wait_timeout = {lock_s}, lock_wait_timeout = {lock_s}, \
         wait_timeout = {silence_s} /*M! , max_statement_time = {} */",
        limit.as_secs_f64()
    )
}

/// Makes sure that our schema is there; makes it if that is meant. It is missing still only to a look.
async fn ready_schema(config: &Config, connection: &mut Conn, user: &str, intent: Intent) -> Result<Schema, Failure> {
    let make = async |connection: &mut Conn| set_up_schema(config, connection, intent).await.map(|()| Schema::Ready);
    if intent == Intent::SetUp {
        return make(connection).await;
    }
    let schema = &config.schema;
    match MysqlSchema::ask(connection, config).await?.check(schema)? {
        Schema::Missing if config.sets_up => {
            let made = match intent {
                Intent::Look => try_rights(config, connection).await.map(|()| Schema::Missing),
                _ => make(connection).await,
            };
            made.map_err(|failure| match failure.kind {
                FailureKind::Refused => greeting::missing(schema, user, failure.kind),
                _ => failure,
            })
        }
        Schema::Missing => Err(greeting::missing(schema, user, FailureKind::Settings)),
        // Its version is written last.
        Schema::Ready | Schema::Incomplete => {
            let version = version(config, connection).await;
            // Another client may have finished its making since we looked.
            if version.is_some() && MysqlSchema::ask(connection, config).await?.check(schema)? == Schema::Ready {
                return Ok(Schema::Ready);
            }
            let failure = greeting::incomplete(schema, version, user);
            if version.is_some() || !config.sets_up {
                return Err(failure);
            }
            // Its making was broken off, or goes on.
            if intent == Intent::Look {
                return Ok(Schema::Missing);
            }
            let made = make(connection).await;
            made.map_err(|trouble| if trouble.is_passing() { trouble } else { failure })
        }
    }
}

/// Refuses a user who could not make our schema: by a statement that makes nothing, as there is no such table.
async fn try_rights(config: &Config, connection: &mut Conn) -> Result<(), Failure> {
    let schema = &config.schema;
    let trial = connection.query_drop(format!("CREATE TABLE {schema}.trial LIKE {schema}.nothing")).await;
    match trial.map_err(refusal::of_greeting) {
        Err(failure) if failure.kind == FailureKind::Refused || failure.is_passing() => Err(failure),
        _ => Ok(()),
    }
}

/// Makes our schema, or brings it up to date, while no other client does. Nothing of it is one transaction here: what
/// is broken off goes on with the next attempt.
async fn set_up_schema(config: &Config, connection: &mut Conn, intent: Intent) -> Result<(), Failure> {
    let schema = &config.schema;
    let lock = format!("'lk setup {schema}'");
    let locking = format!("SELECT GET_LOCK({lock}, {SET_UP_MAX_S})");
    let locked: Option<Option<i64>> = connection.query_first(locking).await.map_err(refusal::of_greeting)?;
    if locked.flatten() != Some(1) {
        let message = format!("the database `{schema}` is being made by another client, for too long");
        return Err(Failure::new(FailureKind::Busy, Effect::None, message));
    }
    let outcome = make(config, connection, intent).await;
    let _ = connection.query_drop(format!("DO RELEASE_LOCK({lock})")).await;
    outcome
}

async fn make(config: &Config, connection: &mut Conn, intent: Intent) -> Result<(), Failure> {
    let schema = &config.schema;
    let is_made = intent == Intent::Serve
        && MysqlSchema::ask(connection, config).await?.check(schema)? == Schema::Ready
        && version(config, connection).await.is_some();
    if is_made {
        return Ok(());
    }
    let failed = |error| {
        let failure = refusal::of_greeting(error);
        let hint = if failure.kind == FailureKind::Refused { "; an administrator can" } else { "" };
        let message = format!("the database `{schema}` could not be made: {failure}");
        Failure::new(failure.kind, Effect::None, message).with_hint(hint)
    };
    connection.query_drop(MODE).await.map_err(failed)?;
    for statement in set_up(schema) {
        connection.query_drop(statement).await.map_err(failed)?;
    }
    Ok(())
}

/// Asks which version a schema has; `None` if its making was not finished.
async fn version(config: &Config, connection: &mut Conn) -> Option<i64> {
    connection.query_first(call_version(&config.schema)).await.ok().flatten()
}

fn call_version(schema: &str) -> String {
    format!("CALL {schema}.schema_version()")
}

/// A greeting at once and one in steps.
#[cfg(test)]
mod tests {
    use lockkeeper_conformance::soon;
    use lockkeeper_core::clock::SystemClock;
    use lockkeeper_faults::mariadb::{Server, availability};

    use super::*;
    use crate::schema::VERSION;

    /// What a connection's settings are, as far as the greeting changes them.
    async fn settings_of(connection: &mut Conn) -> (u64, u64, f64) {
        let asked = "SELECT @@SESSION.lock_wait_timeout, @@SESSION.wait_timeout, @@SESSION.max_statement_time";
        connection.query_first(asked).await.expect("an answer").expect("a row")
    }

    #[tokio::test]
    async fn a_greeting_in_one_message_and_one_in_steps_find_the_same() {
        if !availability().or_skip("mysql::open::tests::a_greeting_in_one_message_and_one_in_steps_find_the_same") {
            return;
        }
        let server = Server::standalone().await.expect("a server");
        let config = Arc::new(Config::from_url(&server.url("").parse().expect("a URL")).expect("a good URL"));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let connecting = connect(&config, &config.servers[0], &clock, Intent::Serve);
        drop(soon("the schema", connecting).await.expect("it is made"));
        let access = access(&config, &config.servers[0]).expect("a way");
        let settings = "SET SESSION lock_wait_timeout = 7, wait_timeout = 77 /*M! , max_statement_time = 1.5 */";
        let (mut first, mut second) =
            (begin(&access).await.expect("it is open"), begin(&access).await.expect("so too"));
        let at_once = greet(&config, &mut first, settings).await.expect("a greeting");
        let in_steps = greet_in_steps(&config, &mut second, settings).await.expect("a greeting");
        assert_eq!(at_once.server.greeting(&config), in_steps.server.greeting(&config));
        assert_eq!(at_once.server.user, in_steps.server.user);
        for greeted in [&at_once, &in_steps] {
            assert_eq!(greeted.found.check(&config.schema).expect("it is ours"), Schema::Ready);
            assert_eq!(greeted.version, Some(VERSION));
        }
        for connection in [&mut first, &mut second] {
            assert_eq!(settings_of(connection).await, (7, 77, 1.5));
        }
    }
}
