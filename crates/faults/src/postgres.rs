//! Real PostgreSQL, Debian's: one server alone, or with an asynchronous standby.
//!
//! - [`Setup`]: what a server is started with.
//! - [`Server`]: kill, stop, restart, pause, promote, move its clock.
//! - [`Server::ask`]: sends it SQL as a superuser would, past every client under test.
//!
//! Servers listen on loopback, keep their data in a temporary folder, and die with the test. PostgreSQL refuses to run
//! as root; there it runs as the user `nobody`.

pub use crate::sql::Row;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

use crate::authority::CertificateFiles;
use crate::daemon::{self, Daemon, Ground, SERVING_WITHIN};
use crate::process::{self, Process};
use crate::server::{self, Kind};
use crate::sql::{self, Sql, Superuser};
use crate::{Availability, Error, Result, scratch, target, wait};

/// What a server is started with.
pub type Setup = sql::Setup<Own>;

/// One PostgreSQL server; dropping it kills it and removes its data.
pub type Server = server::Server<Setup>;

/// The path of a program of PostgreSQL, as `pgbench`: they are not in `PATH`.
pub fn program(name: &str) -> Result<PathBuf> {
    find(name)
}

/// Whether servers can be started here.
pub fn availability() -> Availability {
    process::availability().and(server_availability)
}

/// Whether a server's [clock can be moved](Server::move_clock) here.
pub fn clock_availability() -> Availability {
    daemon::clock_availability()
}

/// Whether a server can have a [file system for itself](Setup::room_bytes) here.
pub fn disk_availability() -> Availability {
    scratch::room_availability()
}

/// What PostgreSQL has alone: nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own;

/// How the first data are made: by a superuser who needs no password; in Unicode, and sorted by bytes.
const INITDB: [&str; 5] = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"];

impl Kind for Setup {
    type Operator = Superuser;

    fn availability(&self) -> Availability {
        server_availability()
    }

    fn ground(&self) -> Ground {
        self.ground.clone()
    }

    fn operator(&self, daemon: &Daemon) -> Superuser {
        Superuser { folder: daemon.folder().to_owned(), port: daemon.address().port() }
    }

    fn fill(&self, daemon: &Daemon) -> Result<()> {
        let arguments =
            |data: &Path| INITDB.into_iter().chain(["--pgdata"]).map(OsString::from).chain([data.into()]).collect();
        target::copy_template("postgres", &find("initdb")?, arguments, &daemon.data_folder())?;
        self.configure(daemon)
    }

    fn command(&self, daemon: &Daemon) -> Result<Command> {
        let mut command = daemon.command(find("postgres")?);
        command.arg("-D").arg(daemon.data_folder());
        Ok(command)
    }

    async fn begin(&self, superuser: &Superuser) -> Result<()> {
        let Some(password) = &self.password else { return Ok(()) };
        let sql = format!("ALTER ROLE {SUPERUSER} PASSWORD {}", literal(password));
        sql::ask::<Self>(superuser, None, &sql).await.map(drop)
    }

    async fn serves(superuser: &Superuser) -> bool {
        sql::ask::<Self>(superuser, None, "SELECT 1").await.is_ok()
    }

    fn end(process: &mut Process) -> Result<()> {
        process.interrupt()
    }
}

impl Setup {
    /// Writes the configuration, beside the data.
    pub(super) fn configure(&self, daemon: &Daemon) -> Result<()> {
        if let Some(certificates) = &self.certificates {
            daemon.take(certificates)?;
        }
        for (name, text) in [("postgresql.conf", self.configuration(daemon)), ("pg_hba.conf", self.entrance())] {
            let file = daemon.data_folder().join(name);
            fs::write(&file, text).map_err(Error::io(file.display()))?;
        }
        Ok(())
    }

    fn configuration(&self, daemon: &Daemon) -> String {
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut lines = vec![
            set("listen_addresses", &daemon.address().ip().to_string()),
            set("port", &daemon.address().port().to_string()),
            set("unix_socket_directories", &daemon.folder().display().to_string()),
            set("fsync", if self.is_durable { "on" } else { "off" }),
            // What is not in files of the data outlives a server that is killed.
            set("dynamic_shared_memory_type", "mmap"),
        ];
        if self.certificates.is_some() {
            let CertificateFiles { cert, key, ca } = daemon.copied_certificate_files();
            let files = [("ssl_cert_file", cert), ("ssl_key_file", key), ("ssl_ca_file", ca)];
            lines.push(set("ssl", "on"));
            lines.extend(files.map(|(name, file)| set(name, &file.display().to_string())));
        }
        lines.extend(self.settings.iter().cloned());
        lines.iter().map(|(name, value)| format!("{name} = {}\n", literal(value))).collect()
    }

    /// The text of who may connect, and how: all over the socket, which only this machine's account reaches.
    fn entrance(&self) -> String {
        let (kind, certificate) = match self.certificates {
            Some(_) => ("hostssl", " clientcert=verify-ca"),
            None => ("host", ""),
        };
        let method = if self.password.is_some() { "scram-sha-256" } else { "trust" };
        let remote = ["all", "replication"].map(|what| format!("{kind} {what} all all {method}{certificate}\n"));
        format!("local all all trust\nlocal replication all trust\n{}", remote.concat())
    }
}

const RELEASES: &str = "/usr/lib/postgresql";

/// The program of this name, of the newest release.
pub(super) fn find(name: &str) -> Result<PathBuf> {
    let releases = fs::read_dir(RELEASES).into_iter().flatten().flatten();
    let numbers = releases.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let programs = numbers.map(|number| (number, PathBuf::from(format!("{RELEASES}/{number}/bin/{name}"))));
    let newest = programs.filter(|(_, program)| program.is_file()).max();
    newest.map(|(_, program)| program).ok_or_else(|| Error::new(missing(name)))
}

fn server_availability() -> Availability {
    match find("postgres") {
        Ok(_) => Availability::Present,
        Err(error) => Availability::Missing(error.to_string()),
    }
}

fn missing(name: &str) -> String {
    format!("{name} is not in {RELEASES} (Debian: postgresql)")
}

/// Who may do all, and the database that every server has.
pub(super) const SUPERUSER: &str = "postgres";
const DATABASE: &str = "postgres";

impl Server {
    /// The folder of its socket in the file system.
    pub fn socket(&self) -> PathBuf {
        self.operator.folder.clone()
    }

    /// Starts a standby with a copy of this server's data, which goes on to receive what this one commits; waits until
    /// it answers and receives. A commit here does not wait for it.
    pub async fn standby(&self) -> Result<Self> {
        let mut standby = Self::on(Daemon::new(self.setup.ground())?, self.setup.clone());
        let data = standby.data_folder();
        let mut copying = standby.daemon.command(find("pg_basebackup")?);
        copying
            .args(["--username", SUPERUSER, "--checkpoint", "fast", "--no-sync", "--host"])
            .arg(self.daemon.folder())
            .args(["--port", &self.address().port().to_string(), "--pgdata"])
            .arg(&data);
        standby.daemon.run(copying).await?;
        standby.setup.configure(&standby.daemon)?;
        let signal = data.join("standby.signal");
        fs::write(&signal, "").map_err(Error::io(signal.display()))?;
        standby.start()?;
        standby.serving().await?;
        standby.follow(self).await?;
        Ok(standby)
    }

    /// Lets this standby receive what another server commits, and waits until it does.
    pub async fn follow(&self, primary: &Self) -> Result<()> {
        let (folder, port) = (primary.daemon.folder().display(), primary.address().port());
        self.receive(&format!("host={folder} port={port} user={SUPERUSER}"), "1").await
    }

    /// Lets this standby receive nothing more: it falls behind.
    pub async fn fall_behind(&self) -> Result<()> {
        self.receive("", "0").await
    }

    async fn receive(&self, from: &str, receivers: &str) -> Result<()> {
        self.ask(&format!("ALTER SYSTEM SET primary_conninfo = {}", literal(from))).await?;
        self.ask("SELECT pg_reload_conf()").await?;
        wait::until(&format!("{} with {receivers} receivers", self.address()), SERVING_WITHIN, async || {
            let count =
                self.value("SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'").await.ok()?;
            (count == receivers).then_some(())
        })
        .await
        .map_err(|error| self.daemon.with_log(&error.to_string()))
    }

    /// Waits until this standby has all that another server has committed.
    pub async fn caught_up(&self, primary: &Self) -> Result<()> {
        let position = primary.value("SELECT pg_current_wal_flush_lsn()").await?;
        let has_it = format!("SELECT pg_last_wal_replay_lsn() >= {}", literal(&position));
        wait::until(&format!("{} caught up", self.address()), SERVING_WITHIN, async || {
            (self.value(&has_it).await.ok()? == "t").then_some(())
        })
        .await
    }

    /// Makes this standby a primary, for its next starts too. The former primary is left as it is.
    pub async fn promote(&self) -> Result<()> {
        self.ask("SELECT pg_promote(false)").await?;
        wait::until(&format!("{} promoted", self.address()), SERVING_WITHIN, async || {
            (self.value("SELECT pg_is_in_recovery()").await.ok()? == "f").then_some(())
        })
        .await
    }
}

/// Its process that writes the log, which is another one after a recovery.
const LOG_WRITER: &str = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'";

impl Server {
    /// Kills the process (SIGKILL) whose number this query finds. The server then ends all others, forgets what they
    /// had not written, and recovers in place; waits until it serves again.
    pub async fn kill_process(&self, finding: &str) -> Result<()> {
        let (writer, found) = (self.value(LOG_WRITER).await?, self.value(finding).await?);
        let process = found.parse().ok().and_then(Pid::from_raw);
        let process = process.ok_or_else(|| Error::new(format!("`{found}` is no number of a process")))?;
        kill_process(process, Signal::KILL).map_err(|error| Error::new(format!("killing {found}: {error}")))?;
        wait::until(&format!("{} recovered", self.address()), SERVING_WITHIN, async || {
            (self.value(LOG_WRITER).await.ok()? != writer).then_some(())
        })
        .await
    }
}

impl Sql for Setup {
    const SCHEME: &str = "postgres";
    const SUPERUSER: &str = SUPERUSER;
    const TIME: &str = "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint";

    async fn ask(superuser: &Superuser, database: Option<&str>, sql: &str) -> std::result::Result<Vec<Row>, String> {
        ask(superuser, database.unwrap_or(DATABASE), sql).await.map_err(|error| text(&error))
    }

    fn database(name: &str, encoding: &str) -> String {
        let (name, encoding) = (identifier(name), literal(encoding));
        format!("CREATE DATABASE {name} ENCODING {encoding} LOCALE 'C' TEMPLATE template0")
    }

    fn user(&self, name: &str, password: &str) -> String {
        format!("CREATE USER {} PASSWORD {}", identifier(name), literal(password))
    }
}

async fn ask(superuser: &Superuser, database: &str, sql: &str) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
    let mut config = Config::new();
    config.host_path(&superuser.folder).port(superuser.port).user(SUPERUSER).dbname(database);
    // A test may limit what the role's statements take; the harness's own are not what it tries.
    config.application_name("superuser of a test").options("-c statement_timeout=0 -c lock_timeout=0");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::select! {
        answer = client.simple_query(sql) => answer.map(rows),
        // It ends only with an error, as the client is still there.
        ended = connection => ended.map(|()| Vec::new()),
    }
}

fn rows(messages: Vec<SimpleQueryMessage>) -> Vec<Row> {
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|index| row.get(index).map(str::to_owned)).collect()).collect()
}

/// What the server said, with its code, or what went wrong before it said anything.
fn text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{}: {} ({})", said.severity(), said.message(), said.code().code()),
        None => error.to_string(),
    }
}

fn identifier(name: &str) -> String {
    format!(r#""{}""#, name.replace('"', r#""""#))
}

pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
