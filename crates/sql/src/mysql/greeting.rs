//! The greeting of a server, and whether locks can be had there. The judgement is pure.

use std::collections::BTreeMap;

use lockkeeper_session::{Effect, Failure, FailureKind};
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, Row, from_row_opt};

use crate::engine::{ServerGreeting, WakeMethod};
use crate::mysql::{grants, refusal};
use crate::schema::{self, FUNCTIONS, Schema, look_alike, of_another, only_reads, unsupported};
use crate::url::Config;

/// The oldest release of MariaDB that has all that our procedures use: `SKIP LOCKED` came with it.
const MARIADB_MIN: (u32, u32) = (10, 6);

/// The oldest release of MySQL likewise.
const MYSQL_MIN: (u32, u32) = (8, 0);

/// What speaks MySQL's language, and does not lock rows as MySQL does or was not tried: what its version or the comment
/// on it says, in small letters.
const OTHERS: [(&str, &str); 11] = [
    ("tidb", "TiDB"),
    ("vitess", "Vitess"),
    ("planetscale", "Vitess"),
    ("oceanbase", "OceanBase"),
    ("singlestore", "SingleStore"),
    ("memsql", "SingleStore"),
    ("clustrix", "Xpand"),
    ("xpand", "Xpand"),
    ("doris", "Doris"),
    ("starrocks", "StarRocks"),
    ("dolt", "Dolt"),
];

/// The variables that are read. Each server has only some of them.
const VARIABLES: &str = "SHOW VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'read_only', \
     'innodb_read_only', 'wsrep_on', 'log_bin', 'binlog_format', 'server_uuid', 'server_id', 'hostname', 'port', \
     'group_replication_single_primary_mode', 'group_replication_group_name', 'max_statement_time', \
     'lower_case_table_names', 'aurora_version')";

/// The number of the thread that answers, and the user that we are.
const WHO: &str = "SELECT CONNECTION_ID(), CURRENT_USER()";

/// When the server started, by its own clock: both numbers are those of one moment, so that it is the same each time,
/// and also after the clock was set. MariaDB alone reads the comment; MySQL is asked alone.
const STARTED_MARIADB: &str = "SELECT COALESCE(NULL /*M! , (SELECT CAST(UNIX_TIMESTAMP() - VARIABLE_VALUE AS SIGNED) \
     FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'UPTIME') */)";
const STARTED_MYSQL: &str = "SELECT CAST(UNIX_TIMESTAMP() - VARIABLE_VALUE AS SIGNED) \
     FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime'";

/// What a server says of itself.
#[derive(Clone, Debug)]
pub(super) struct MysqlFacts {
    variables: BTreeMap<String, String>,
    /// The number of the connection's thread, as the handshake said.
    named_thread: u64,
    /// The same as the server that answers says.
    thread: u64,
    /// As `app@%`.
    pub(super) user: String,
    started: Option<i64>,
}

impl MysqlFacts {
    /// What is asked of every server.
    pub(super) const QUESTIONS: [&str; 3] = [VARIABLES, WHO, STARTED_MARIADB];

    /// Reads the answers to [`QUESTIONS`](Self::QUESTIONS). When it started is asked again if that is not told.
    pub(super) async fn read(connection: &mut Conn, answers: [Vec<Row>; 3]) -> Result<Self, Failure> {
        let [variables, who, started] = answers;
        let (thread, user) = first::<(u64, String)>(who)?.ok_or_else(Failure::unexpected)?;
        let variables = variables.into_iter().map(read::<(String, String)>);
        let variables = variables.map(|variable| variable.map(|(name, value)| (name.to_lowercase(), value)));
        let named_thread = u64::from(connection.id());
        let started = first::<Option<i64>>(started)?.flatten();
        let mut this = Self { variables: variables.collect::<Result<_, _>>()?, named_thread, thread, user, started };
        if this.started.is_none() {
            let started = if this.is_mariadb() { STARTED_MARIADB } else { STARTED_MYSQL };
            this.started = connection.query_first(started).await.map_err(refusal::of_greeting)?;
        }
        Ok(this)
    }

    fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("", String::as_str)
    }

    fn is_on(&self, name: &str) -> bool {
        matches!(self.variable(name).to_uppercase().as_str(), "ON" | "1" | "YES" | "TRUE")
    }

    pub(super) fn is_mariadb(&self) -> bool {
        self.variable("version").contains("MariaDB")
    }

    /// Refuses a server that can serve no locks.
    pub(super) fn check(&self, config: &Config) -> Result<(), Failure> {
        const KIND: &str = "MariaDB or MySQL";
        let version = self.variable("version");
        let words = format!("{version} {}", self.variable("version_comment")).to_lowercase();
        let other = OTHERS.iter().find(|(mark, _)| words.contains(mark)).map(|(_, name)| *name);
        let aurora = (!self.variable("aurora_version").is_empty()).then_some("Aurora");
        if let Some(name) = other.or(aurora).filter(|_| !config.is_unverified) {
            return Err(look_alike(name, KIND));
        }
        let (name, least) = if self.is_mariadb() { ("MariaDB", MARIADB_MIN) } else { ("MySQL", MYSQL_MIN) };
        if release(version).is_none_or(|release| release < least) {
            let (major, minor) = least;
            return Err(unsupported(format!(
                "this is {name} {version}, and locks need {name} {major}.{minor} or later"
            )));
        }
        if self.is_on("wsrep_on") && !config.is_only_node {
            return Err(unsupported(
                "this is a node of Galera, whose nodes grant one lock at once; where one node alone serves all clients \
                 of locks, the URL says `galera=one-node`",
            ));
        }
        let in_group = !self.variable("group_replication_group_name").is_empty();
        if in_group && !self.is_on("group_replication_single_primary_mode") {
            return Err(unsupported("this is a group with several primaries, which grant one lock at once"));
        }
        if self.is_on("log_bin") && self.variable("binlog_format").eq_ignore_ascii_case("STATEMENT") {
            return Err(unsupported("the server logs statements (`binlog_format`), and locks need ROW or MIXED"));
        }
        if self.is_on("read_only") || self.is_on("innodb_read_only") {
            return Err(only_reads("the server only reads (`read_only`)"));
        }
        Ok(())
    }

    /// The settings of a session.
    pub(super) fn greeting(&self, config: &Config) -> ServerGreeting {
        let server = match self.variable("server_uuid") {
            "" => ["server_id", "hostname", "port"].map(|name| self.variable(name)).join("/"),
            uuid => uuid.to_owned(),
        };
        let started = self.started.map(|started| format!("@{started}")).unwrap_or_default();
        // Behind a proxy the connection may be that of others too; a node of Galera has no named locks for the others.
        let is_direct = self.thread == self.named_thread;
        let has_named_locks = is_direct && !config.only_looks && !self.is_on("wsrep_on");
        let wake_method = if has_named_locks { WakeMethod::NamedLocks } else { WakeMethod::Polled };
        ServerGreeting { instance: format!("{server}{started}"), wake_method }
    }
}

fn read<T: FromRow>(row: Row) -> Result<T, Failure> {
    from_row_opt(row).map_err(|_| Failure::unexpected())
}

pub(super) fn first<T: FromRow>(answer: Vec<Row>) -> Result<Option<T>, Failure> {
    answer.into_iter().next().map(read).transpose()
}

/// `10.11` of `10.11.19-MariaDB-0+deb12u1`, also behind the prefix for old replicas.
fn release(version: &str) -> Option<(u32, u32)> {
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut numbers = version.split(['.', '-']).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// What a server says of our schema.
#[derive(Clone, Debug)]
pub(super) struct MysqlSchema {
    /// The procedures that this user may call, without their schema.
    procedures: Vec<String>,
    /// How many tables of the schema it may see that are not ours.
    strange_tables: i64,
}

impl MysqlSchema {
    /// What is asked about our schema.
    pub(super) fn questions(schema: &str) -> [String; 2] {
        [
            format!("SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = '{schema}'"),
            format!(
                "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME NOT IN \
                 ('meta', 'state', 'session', 'queue', 'contender', 'value', 'watch', 'broken', 'number')"
            ),
        ]
    }

    /// Reads the answers to [`questions`](Self::questions).
    pub(super) fn read([procedures, strange_tables]: [Vec<Row>; 2]) -> Result<Self, Failure> {
        let procedures = procedures.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { procedures, strange_tables: first(strange_tables)?.unwrap_or_default() })
    }

    pub(super) async fn ask(connection: &mut Conn, config: &Config) -> Result<Self, Failure> {
        let [procedures, strange] = Self::questions(&config.schema);
        let procedures = connection.query(procedures).await.map_err(refusal::of_greeting)?;
        let strange_tables = connection.query(strange).await.map_err(refusal::of_greeting)?;
        Self::read([procedures, strange_tables])
    }

    /// Judges our schema.
    pub(super) fn check(&self, schema: &str) -> Result<Schema, Failure> {
        let is_known = |procedure: &&str| self.procedures.contains(&format!("{procedure}_v1"));
        let known = FUNCTIONS.iter().filter(|procedure| is_known(procedure)).count();
        if known == FUNCTIONS.len() {
            return Ok(Schema::Ready);
        }
        if known > 0 || self.procedures.iter().any(|procedure| procedure == "schema_version") {
            return Ok(Schema::Incomplete);
        }
        if !self.procedures.is_empty() || self.strange_tables > 0 {
            return Err(of_another(&format!("the database `{schema}`")));
        }
        Ok(Schema::Missing)
    }
}

/// Says that there is no schema, or that this user may not use it: the server tells such a user no more.
pub(super) fn missing(schema: &str, user: &str, kind: FailureKind) -> Failure {
    let message = format!(
        "there is no database `{schema}` with our procedures, which `lockkeeper setup` makes, or the user `{user}` may \
         not use it: {}",
        grants(schema, user)
    );
    Failure::new(kind, Effect::None, message)
}

/// Says that the schema, whose version is this, lacks procedures, or hides them from this user.
pub(super) fn incomplete(schema: &str, version: Option<i64>, user: &str) -> Failure {
    let hidden = format!("an administrator runs `lockkeeper setup`, and gives it: {}", grants(schema, user));
    schema::incomplete(&format!("the database `{schema}`"), version, Some(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(changes: &[(&str, &str)]) -> MysqlFacts {
        let mut variables: BTreeMap<_, _> = [
            ("version", "10.11.19-MariaDB-0+deb12u1-log"),
            ("version_comment", "Debian 12"),
            ("read_only", "OFF"),
            ("wsrep_on", "OFF"),
            ("log_bin", "ON"),
            ("binlog_format", "MIXED"),
            ("server_id", "1"),
            ("hostname", "h1"),
            ("port", "3306"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("sync_binlog", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        for (name, value) in changes {
            variables.insert((*name).to_owned(), (*value).to_owned());
        }
        MysqlFacts { variables, named_thread: 7, thread: 7, user: "app@%".to_owned(), started: None }
    }

    fn config(url: &str) -> Config {
        Config::from_url(&url.parse().unwrap()).unwrap()
    }

    #[test]
    fn servers_that_cannot_serve_locks_are_refused_by_name() {
        let h1 = config("mariadb://h1");
        for (changes, says) in [
            (&[("version", "8.0.11-TiDB-v7.5.0")][..], "TiDB"),
            (&[("version", "8.0.30-Vitess")], "Vitess"),
            (&[("version", "8.0.32"), ("aurora_version", "3.05.2")], "Aurora"),
            (&[("version", "5.7.44")], "MySQL 5.7.44"),
            (&[("version", "10.5.29-MariaDB")], "10.6 or later"),
            (&[("version", "strange")], "strange"),
            (&[("wsrep_on", "ON")], "galera=one-node"),
            (&[("group_replication_group_name", "g"), ("group_replication_single_primary_mode", "OFF")], "primaries"),
            (&[("binlog_format", "STATEMENT")], "binlog_format"),
            (&[("read_only", "ON")], "read_only"),
        ] {
            let failure = server(changes).check(&h1).expect_err(says);
            assert!(failure.to_string().contains(says), "{failure}");
        }
        for changes in [
            &[][..],
            &[("version", "5.5.5-10.11.19-MariaDB")],
            &[("version", "8.4.2")],
            &[("log_bin", "OFF"), ("binlog_format", "STATEMENT")],
            &[("group_replication_group_name", "g"), ("group_replication_single_primary_mode", "ON")],
        ] {
            server(changes).check(&h1).unwrap_or_else(|failure| panic!("{changes:?}: {failure}"));
        }
        server(&[("wsrep_on", "ON")]).check(&config("mariadb://h1?galera=one-node")).expect("it is said to be alone");
    }

    #[test]
    fn a_proxy_and_another_start_are_noticed() {
        let h1 = config("mariadb://h1");
        let greeting = server(&[]).greeting(&h1);
        assert_eq!((greeting.instance.as_str(), greeting.wake_method), ("1/h1/3306", WakeMethod::NamedLocks));
        let proxied = MysqlFacts { thread: 8, ..server(&[]) };
        assert_eq!(proxied.greeting(&h1).wake_method, WakeMethod::Polled);
        assert_eq!(server(&[]).greeting(&config("mysql://h1?wake=look")).wake_method, WakeMethod::Polled);
        let started = MysqlFacts { started: Some(5), ..server(&[("server_uuid", "u")]) };
        assert_eq!(started.greeting(&h1).instance, "u@5");
    }
}
