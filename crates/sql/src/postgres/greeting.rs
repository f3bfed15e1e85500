//! The greeting of a server, and whether locks can be had there. The judgement is pure.

use lockkeeper_session::{Effect, Failure, FailureKind};

use crate::engine::{ServerGreeting, WakeMethod};
use crate::postgres::call::{self, limits, patiently};
use crate::postgres::pool::{PostgresPool, TextRow};
use crate::postgres::{functions, grants, quoted};
use crate::schema::{Schema, look_alike, of_another, only_reads, unsupported};
use crate::url::Config;

/// The oldest release that has all that our functions use, as `server_version_num` has it.
const RELEASE_MIN: i32 = 140_000;

/// Asked of a server that refuses what only PostgreSQL has.
const WHO: &str = "SELECT pg_backend_pid(), version()";

/// What is asked first. It reads the catalogs only, as each role may.
const WHAT: &str = "
SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', current_setting('server_encoding'),
  current_setting('server_version_num')::int,
  CASE WHEN NOT s.is_aurora THEN (SELECT c.system_identifier::text FROM pg_control_system() c) ELSE '' END,
  CASE WHEN NOT s.is_aurora AND NOT pg_is_in_recovery() THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,
  current_user::text, current_database()::text, has_database_privilege(current_database(), 'CREATE'),
  s.oid IS NOT NULL, coalesce(has_schema_privilege(s.oid, 'USAGE'), false),
  (SELECT count(*) FROM pg_proc p WHERE p.pronamespace = s.oid),
  (SELECT count(DISTINCT p.proname) FROM pg_proc p WHERE p.pronamespace = s.oid AND p.proname = ANY (s.functions)),
  (SELECT count(DISTINCT p.proname) FROM pg_proc p WHERE p.pronamespace = s.oid AND p.proname = ANY (s.functions)
    AND has_function_privilege(p.oid, 'EXECUTE')), s.is_aurora, pg_backend_pid(), version(), :settings
FROM (SELECT (SELECT n.oid FROM pg_namespace n WHERE n.nspname = :schema) AS oid,
  CAST(:functions AS name[]) AS functions,
  EXISTS (SELECT FROM pg_proc p WHERE p.proname = 'aurora_version') AS is_aurora) s";

#[derive(Clone, Debug)]
pub(super) struct ServerProcess {
    process: i32,
    version: String,
}

impl ServerProcess {
    async fn ask(pool: &dyn PostgresPool, config: &Config) -> Result<Self, Failure> {
        let answer = patiently(pool, config, WHO).await?;
        let row = call::only_row(&answer)?;
        Ok(Self { process: call::value(row, 0)?, version: call::value(row, 1)? })
    }

    /// Whether another program stands between: then the process that it named is not the one that answers.
    pub(super) fn is_behind_pooler(&self, named: Option<i32>) -> bool {
        named != Some(self.process)
    }

    /// Refuses what speaks PostgreSQL's language, and does not lock rows as PostgreSQL does or was not tried.
    fn check(&self, config: &Config) -> Result<(), Failure> {
        const OTHERS: [(&str, &str); 9] = [
            ("CockroachDB", "CockroachDB"),
            ("-YB-", "YugabyteDB"),
            ("Yugabyte", "YugabyteDB"),
            ("Greenplum", "Greenplum"),
            ("Redshift", "Redshift"),
            ("Materialize", "Materialize"),
            ("CrateDB", "CrateDB"),
            ("QuestDB", "QuestDB"),
            ("RisingWave", "RisingWave"),
        ];
        let found = OTHERS.iter().find(|(mark, _)| self.version.contains(mark));
        let name = match found {
            _ if config.is_unverified => return Ok(()),
            Some((_, name)) => (*name).to_owned(),
            None if self.version.starts_with("PostgreSQL ") => return Ok(()),
            None => self.version.chars().take(60).collect(),
        };
        Err(look_alike(&name, "PostgreSQL"))
    }
}

/// What a server says of itself and of our schema.
#[derive(Clone, Debug)]
pub(super) struct PostgresFacts {
    pub(super) who: ServerProcess,
    is_in_recovery: bool,
    is_read_only: bool,
    encoding: String,
    release: i32,
    system: String,
    timeline: Option<String>,
    pub(super) role: String,
    database: String,
    may_create: bool,
    has_schema: bool,
    may_use: bool,
    functions: i64,
    known_functions: i64,
    executable_functions: i64,
    is_aurora: bool,
}

impl PostgresFacts {
    /// Asks all at once, and gives the connection these settings if the process that answers is the one that was named.
    /// A pooled connection would leak them to other clients.
    pub(super) async fn greet(
        pool: &dyn PostgresPool,
        config: &Config,
        named: Option<i32>,
        settings: &[(&str, String)],
    ) -> Result<Self, Failure> {
        let setting = |(name, value): &(&str, String)| format!("set_config('{name}', '{value}', false)");
        let settings = settings.iter().map(setting).collect::<Vec<_>>().join(" || ");
        let settings = named.map(|named| format!("CASE WHEN pg_backend_pid() = {named} THEN {settings} END"));
        match Self::ask_and(pool, config, settings.as_deref().unwrap_or("NULL")).await {
            Ok(found) => found.who.check(config).map(|()| found),
            Err(failure) if matches!(failure.kind, FailureKind::Broken | FailureKind::Unavailable) => Err(failure),
            Err(failure) => {
                // What is not PostgreSQL is refused by its name, and not for what it does not know.
                ServerProcess::ask(pool, config).await?.check(config)?;
                Err(failure)
            }
        }
    }

    async fn ask_and(pool: &dyn PostgresPool, config: &Config, settings: &str) -> Result<Self, Failure> {
        // One message: behind a pooler the limits are those of its transaction alone.
        let text = format!("{}; {}", limits(config.session_timeout()), Self::question(config, settings));
        Self::read(&patiently(pool, config, &text).await?)
    }

    fn question(config: &Config, settings: &str) -> String {
        let functions: Vec<_> = functions().map(|function| format!("{function}_v1")).collect();
        // Plain identifiers.
        WHAT.replace(":schema", &format!("'{}'", config.schema))
            .replace(":functions", &format!("'{{{}}}'", functions.join(",")))
            .replace(":settings", settings)
    }

    fn read(answer: &[TextRow]) -> Result<Self, Failure> {
        let row = call::only_row(answer)?;
        Ok(Self {
            who: ServerProcess { process: call::value(row, 15)?, version: call::value(row, 16)? },
            is_in_recovery: call::flag(row, 0)?,
            is_read_only: call::flag(row, 1)?,
            encoding: call::value(row, 2)?,
            release: call::value(row, 3)?,
            system: call::value(row, 4)?,
            timeline: call::optional(row, 5)?,
            role: call::value(row, 6)?,
            database: call::value(row, 7)?,
            may_create: call::flag(row, 8)?,
            has_schema: call::flag(row, 9)?,
            may_use: call::flag(row, 10)?,
            functions: call::value(row, 11)?,
            known_functions: call::value(row, 12)?,
            executable_functions: call::value(row, 13)?,
            is_aurora: call::flag(row, 14)?,
        })
    }

    /// Refuses a server that can serve no locks.
    pub(super) fn check_server(&self, config: &Config) -> Result<(), Failure> {
        if self.is_aurora && !config.is_unverified {
            return Err(look_alike("Aurora", "PostgreSQL"));
        }
        if self.release < RELEASE_MIN {
            let (major, least) = (self.release / 10_000, RELEASE_MIN / 10_000);
            return Err(unsupported(format!("this is PostgreSQL {major}, and locks need PostgreSQL {least} or later")));
        }
        if self.is_in_recovery {
            return Err(only_reads("the server is a standby, which only reads"));
        }
        if self.is_read_only {
            return Err(only_reads("transactions only read here (`default_transaction_read_only`)"));
        }
        if self.encoding != "UTF8" {
            let Self { database, encoding, .. } = self;
            return Err(unsupported(format!(
                "the database `{database}` has the encoding {encoding}, and locks need one with UTF8"
            )));
        }
        Ok(())
    }

    /// Judges our schema; refuses one that this role may not use.
    pub(super) fn check_schema(&self, schema: &str) -> Result<Schema, Failure> {
        if !self.has_schema {
            return Ok(Schema::Missing);
        }
        if self.known_functions == 0 && self.functions > 0 {
            return Err(of_another(&format!("the schema `{schema}` of the database `{}`", self.database)));
        }
        if self.known_functions == 0 {
            return Ok(Schema::Missing);
        }
        if !self.may_use || self.executable_functions < self.known_functions {
            return Err(self.no_rights(schema));
        }
        let is_complete = usize::try_from(self.known_functions).is_ok_and(|known| known >= functions().count());
        Ok(if is_complete { Schema::Ready } else { Schema::Incomplete })
    }

    fn no_rights(&self, schema: &str) -> Failure {
        let (role, grants) = (&self.role, grants(schema, &self.role));
        let message = format!("the role `{role}` may not use the schema `{schema}`: {grants}");
        Failure::new(FailureKind::Refused, Effect::None, message)
    }

    /// Refuses to make our schema if that is not asked for, or this role may not.
    pub(super) fn check_set_up(&self, config: &Config) -> Result<(), Failure> {
        let (schema, database, role) = (&config.schema, &self.database, &self.role);
        let missing = format!("the database `{database}` has no schema `{schema}` with our tables");
        if !config.sets_up {
            let message = format!("{missing}: `lockkeeper setup` makes it");
            return Err(Failure::new(FailureKind::Settings, Effect::None, message));
        }
        if !self.has_schema && !self.may_create {
            let message = format!(
                "{missing}: `lockkeeper setup` makes it as an administrator, or this role may, after: GRANT CREATE ON \
                 DATABASE {} TO {};",
                quoted(database),
                quoted(role)
            );
            return Err(Failure::new(FailureKind::Refused, Effect::None, message));
        }
        Ok(())
    }

    /// The settings of a session.
    pub(super) fn greeting(&self, wakes: bool) -> ServerGreeting {
        let timeline = self.timeline.as_deref().unwrap_or_default();
        let wake_method = if wakes { WakeMethod::Notified } else { WakeMethod::Polled };
        ServerGreeting { instance: format!("{}/{timeline}", self.system), wake_method }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> PostgresFacts {
        let functions = i64::try_from(functions().count()).unwrap();
        PostgresFacts {
            who: who("PostgreSQL 15"),
            is_in_recovery: false,
            is_read_only: false,
            encoding: "UTF8".to_owned(),
            release: 150_018,
            system: "77".to_owned(),
            timeline: Some("00000002".to_owned()),
            role: "app".to_owned(),
            database: "db".to_owned(),
            may_create: true,
            has_schema: true,
            may_use: true,
            functions: functions + 4,
            known_functions: functions,
            executable_functions: functions,
            is_aurora: false,
        }
    }

    fn config(settings: &str) -> Config {
        Config::from_url(&format!("postgres://h1{settings}").parse().unwrap()).unwrap()
    }

    fn who(version: &str) -> ServerProcess {
        ServerProcess { process: 7, version: version.to_owned() }
    }

    #[test]
    fn look_alikes_are_refused_by_their_name_unless_the_url_says_that_they_are_not_verified() {
        let [verified, unverified] = ["", "?server=unverified"].map(config);
        who("PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu")
            .check(&verified)
            .expect("it is PostgreSQL");
        for (version, name) in [
            ("CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu)", "CockroachDB"),
            ("PostgreSQL 11.2-YB-2.18.0.0-b0 on x86_64-pc-linux-gnu", "YugabyteDB"),
            ("PostgreSQL 12.12 (Greenplum Database 7.0.0)", "Greenplum"),
            ("Some DB 1.0", "Some DB 1.0"),
        ] {
            who(version).check(&unverified).expect("it is tried instead");
            let failure = who(version).check(&verified).expect_err(version);
            assert_eq!(failure.kind, FailureKind::Unsupported, "{version}");
            assert!(failure.to_string().contains(name), "{failure}");
        }
    }

    #[test]
    fn a_pooler_is_known_by_the_process_that_it_names() {
        let who = who("PostgreSQL 15");
        assert_eq!([Some(7), Some(8), None].map(|named| who.is_behind_pooler(named)), [false, true, true]);
    }

    #[test]
    fn a_server_that_cannot_serve_locks_is_refused() {
        let verified = config("");
        found().check_server(&verified).expect("it can");
        for (found, kind) in [
            (PostgresFacts { is_in_recovery: true, timeline: None, ..found() }, FailureKind::ReadOnly),
            (PostgresFacts { is_read_only: true, ..found() }, FailureKind::ReadOnly),
            (PostgresFacts { encoding: "LATIN1".to_owned(), ..found() }, FailureKind::Unsupported),
            (PostgresFacts { release: 130_011, ..found() }, FailureKind::Unsupported),
            (PostgresFacts { is_aurora: true, ..found() }, FailureKind::Unsupported),
        ] {
            assert_eq!(found.check_server(&verified).expect_err("it cannot").kind, kind, "{found:?}");
        }
    }

    #[test]
    fn a_schema_is_judged_by_its_functions() {
        let kind = |found: PostgresFacts| found.check_schema("lk").map_err(|failure| failure.kind);
        assert_eq!(kind(found()), Ok(Schema::Ready));
        assert_eq!(kind(PostgresFacts { has_schema: false, ..found() }), Ok(Schema::Missing));
        assert_eq!(kind(PostgresFacts { functions: 0, known_functions: 0, ..found() }), Ok(Schema::Missing));
        assert_eq!(
            kind(PostgresFacts { known_functions: 3, executable_functions: 3, ..found() }),
            Ok(Schema::Incomplete)
        );
        assert_eq!(kind(PostgresFacts { known_functions: 0, ..found() }), Err(FailureKind::Settings));
        for without_rights in
            [PostgresFacts { may_use: false, ..found() }, PostgresFacts { executable_functions: 3, ..found() }]
        {
            let failure = without_rights.check_schema("lk").expect_err("it has no rights");
            assert_eq!(failure.kind, FailureKind::Refused);
            assert!(failure.to_string().contains(r#"GRANT USAGE ON SCHEMA lk TO "app"; GRANT EXECUTE"#), "{failure}");
        }
    }

    #[test]
    fn an_instance_changes_with_the_timeline() {
        let instance = |found: PostgresFacts| found.greeting(true).instance;
        assert_eq!(instance(found()), "77/00000002");
        assert_eq!(instance(PostgresFacts { timeline: Some("00000003".to_owned()), ..found() }), "77/00000003");
    }
}
