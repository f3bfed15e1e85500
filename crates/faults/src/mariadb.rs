//! Real MariaDB, Debian's: one server alone, with an asynchronous replica, or as a node of Galera.
//!
//! - [`Setup`]: what a server is started with.
//! - [`Server`]: kill, stop, restart, pause, promote, move its clock.
//! - [`Pooler`]: stands between clients and a server, and keeps the clients when the server has ended.
//! - [`Server::ask`]: sends it SQL as a superuser would, past every client under test.
//!
//! Servers listen on loopback, keep their data in a temporary folder, and die with the test. MariaDB refuses to run as
//! root; there it runs as the user `nobody`.

mod pooler;

pub use crate::sql::Row;
pub use pooler::Pooler;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Value};

use crate::authority::CertificateFiles;
use crate::daemon::{self, Daemon, Ground, SERVING_WITHIN};
use crate::server::{self, Kind};
use crate::sql::{self, Sql, Superuser};
use crate::{Availability, Result, process, scratch, target, wait};

/// What a server is started with.
pub type Setup = sql::Setup<Own>;

/// One MariaDB server; dropping it kills it and removes its data.
pub type Server = server::Server<Setup>;

/// Whether servers can be started here.
pub fn availability() -> Availability {
    process::availability().and(programs_availability)
}

/// Whether a server's [clock can be moved](Server::move_clock) here.
pub fn clock_availability() -> Availability {
    daemon::clock_availability()
}

/// Whether a server can have a [file system for itself](Setup::room_bytes) here.
pub fn disk_availability() -> Availability {
    scratch::room_availability()
}

/// Whether [nodes of Galera](Setup::galera) can be started here.
pub fn galera_availability() -> Availability {
    let setup = Setup::new().galera();
    setup.ground.availability().and(|| setup.availability())
}

/// The size of the log that a server writes ahead; a template has it too. Small, since it is copied for each server.
const LOG_SIZE: &str = "--innodb-log-file-size=16M";

/// How the first data are made: by a superuser who needs no password over the socket.
const MAKING: [&str; 5] =
    ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", LOG_SIZE];

/// What every server is started with.
const USUAL: [&str; 4] = ["--no-defaults", LOG_SIZE, "--innodb-buffer-pool-size=16M", "--skip-name-resolve"];

/// A log of what it commits, from which a replica follows it.
const REPLICATED: [&str; 2] = ["--log-bin=binary", "--gtid-strict-mode=ON"];

/// The file with the statements of each start.
const FIRST_WORDS: &str = "first.sql";

/// What MariaDB has alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    is_replicated: bool,
    is_galera: bool,
}

impl Setup {
    /// It keeps the log that a [replica](Server::replica) needs.
    pub fn replicated(mut self) -> Self {
        self.own.is_replicated = true;
        self
    }

    /// The only node of a cluster of Galera; needs [`galera_availability`].
    pub fn galera(mut self) -> Self {
        self.own.is_galera = true;
        self.ground.leaves_idle_class = true;
        // Those of its group, and for its state.
        self.ground.more_ports = 2;
        self
    }

    /// The arguments of the server, but for those that name its files.
    fn arguments(&self, daemon: &Daemon) -> Vec<String> {
        let set = |name: &str, value: &dyn ToString| format!("--{name}={}", value.to_string());
        let path = |name: &str, path: &Path| set(name, &path.display());
        let port = daemon.address().port();
        let mut arguments = USUAL.map(str::to_owned).to_vec();
        arguments.extend([
            set("bind-address", &daemon.address().ip()),
            set("port", &port),
            // By this number the servers of one replication know one another.
            set("server-id", &port),
            set("innodb-flush-log-at-trx-commit", if self.is_durable { &1 } else { &2 }),
            set("sync-binlog", if self.is_durable { &1 } else { &0 }),
        ]);
        if self.own.is_replicated {
            arguments.extend(REPLICATED.map(str::to_owned));
        }
        if self.certificates.is_some() {
            let CertificateFiles { cert, key, ca } = daemon.copied_certificate_files();
            arguments.extend([path("ssl-cert", &cert), path("ssl-key", &key), path("ssl-ca", &ca)]);
            arguments.push(set("require-secure-transport", &"ON"));
        }
        if self.own.is_galera {
            arguments.extend(galera(daemon));
        }
        arguments.extend(self.settings.iter().map(|(name, value)| set(name, value)));
        arguments
    }

    /// The statements of each start, one a line: who may connect. They are not for replicas.
    fn first_words(&self) -> String {
        let certificate = certificate(self);
        let password = literal(self.password.as_deref().unwrap_or_default());
        format!(
            "SET sql_log_bin = 0;\n\
             DELETE FROM mysql.global_priv WHERE user = '{SUPERUSER}' AND host <> 'localhost';\n\
             FLUSH PRIVILEGES;\n\
             CREATE USER {SUPERUSER}@'%' IDENTIFIED BY {password} {certificate};\n\
             GRANT ALL ON *.* TO {SUPERUSER}@'%' WITH GRANT OPTION;\n"
        )
    }
}

impl Kind for Setup {
    type Operator = Superuser;

    fn availability(&self) -> Availability {
        let galera = || if self.own.is_galera { galera_library() } else { Availability::Present };
        programs_availability().and(galera)
    }

    fn ground(&self) -> Ground {
        self.ground.clone()
    }

    fn operator(&self, daemon: &Daemon) -> Superuser {
        Superuser { folder: daemon.folder().to_owned(), port: daemon.address().port() }
    }

    fn fill(&self, daemon: &Daemon) -> Result<()> {
        if let Some(certificates) = &self.certificates {
            daemon.take(certificates)?;
        }
        let arguments = |data: &Path| {
            let at = |name: &str, folder: &Path| {
                let mut argument = OsString::from(name);
                argument.push(folder);
                argument
            };
            // As when it is started: temporary tables of other servers are left alone.
            let places = [at("--datadir=", data), at("--tmpdir=", data.parent().unwrap_or(data))];
            MAKING.map(OsString::from).into_iter().chain(places).collect()
        };
        target::copy_template("mariadb", Path::new(INSTALL), arguments, &daemon.data_folder())?;
        daemon.write(FIRST_WORDS, &self.first_words()).map(drop)
    }

    fn command(&self, daemon: &Daemon) -> Result<Command> {
        let mut command = daemon.command(SERVER);
        command.args(self.arguments(daemon));
        // A server that starts removes temporary tables from its folder for these, those of another server too.
        let files = [
            ("socket", daemon.file(SOCKET)),
            ("datadir", daemon.data_folder()),
            ("tmpdir", daemon.folder().to_owned()),
            ("init-file", daemon.file(FIRST_WORDS)),
        ];
        command.args(files.map(|(name, file)| format!("--{name}={}", file.display())));
        Ok(command)
    }

    async fn serves(superuser: &Superuser) -> bool {
        sql::ask::<Self>(superuser, None, "SELECT 1").await.is_ok()
    }
}

/// The arguments of the first node of a cluster.
fn galera(daemon: &Daemon) -> Vec<String> {
    let (group, state) = (daemon.peer_address(1), daemon.peer_address(2));
    vec![
        "--wsrep-on=ON".to_owned(),
        "--wsrep-new-cluster".to_owned(),
        "--wsrep-cluster-address=gcomm://".to_owned(),
        format!("--wsrep-provider={}", GALERA),
        format!("--wsrep-provider-options=gmcast.listen_addr=tcp://{group};ist.recv_addr=tcp://{state};gcache.size=8M"),
        format!("--wsrep-node-address={group}"),
        "--binlog-format=ROW".to_owned(),
        "--innodb-autoinc-lock-mode=2".to_owned(),
    ]
}

pub(super) const SERVER: &str = "/usr/sbin/mariadbd";

/// What makes its first data.
pub(super) const INSTALL: &str = "/usr/bin/mariadb-install-db";

/// What makes it a node of Galera.
pub(super) const GALERA: &str = "/usr/lib/galera/libgalera_smm.so";

fn programs_availability() -> Availability {
    Availability::of_files(&[SERVER, INSTALL], "mariadb-server")
}

fn galera_library() -> Availability {
    Availability::of_files(&[GALERA], "galera-4")
}

/// Who may do all.
pub(super) const SUPERUSER: &str = "root";

pub(super) const SOCKET: &str = "socket";

impl Server {
    /// Its socket in the file system.
    pub fn socket(&self) -> PathBuf {
        self.operator.folder.join(SOCKET)
    }

    /// Starts a replica that receives all that this server has committed since it was made, and waits until it
    /// receives. A commit here does not wait for it.
    ///
    /// # Errors
    ///
    /// This server was not set up as [replicated](Setup::replicated); or the replica ended or did not receive
    /// within two minutes; the error ends with its log.
    pub async fn replica(&self) -> Result<Self> {
        let replica = self.setup.clone().setting("read-only", "ON").start().await?;
        let (address, password) = (self.address(), self.setup.password.as_deref().unwrap_or_default());
        let source = format!(
            "CHANGE MASTER TO master_host = '{}', master_port = {}, master_user = '{SUPERUSER}', \
             master_password = {}, master_use_gtid = slave_pos, master_connect_retry = 1",
            address.ip(),
            address.port(),
            literal(password)
        );
        replica.ask(&source).await?;
        replica.follow().await?;
        Ok(replica)
    }

    /// Lets this replica receive, and waits until it does.
    pub async fn follow(&self) -> Result<()> {
        self.ask("START SLAVE").await?;
        self.receiving("Yes").await
    }

    /// Lets this replica receive nothing more: it falls behind.
    pub async fn fall_behind(&self) -> Result<()> {
        self.ask("STOP SLAVE IO_THREAD").await?;
        self.receiving("No").await
    }

    async fn receiving(&self, wanted: &str) -> Result<()> {
        wait::until(&format!("{} receiving: {wanted}", self.address()), SERVING_WITHIN, async || {
            let status = self.ask("SHOW SLAVE STATUS").await.ok()?;
            (status.first()?.get(RECEIVES)?.as_deref() == Some(wanted)).then_some(())
        })
        .await
        .map_err(|error| self.daemon.with_log(&error.to_string()))
    }

    /// Waits until this replica has all that another server has committed.
    pub async fn caught_up(&self, source: &Self) -> Result<()> {
        let position = source.value("SELECT @@gtid_binlog_pos").await?;
        // It may have more by the time that it is asked.
        let has_it = format!("SELECT MASTER_GTID_WAIT({}, 0)", literal(&position));
        wait::until(&format!("{} caught up", self.address()), SERVING_WITHIN, async || {
            (self.value(&has_it).await.ok()? == "0").then_some(())
        })
        .await
    }

    /// Makes this replica a server that accepts writes, for its next starts too. The former source is left as it is.
    pub async fn promote(&mut self) -> Result<()> {
        self.ask("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF").await?;
        self.setup = self.setup.clone().setting("read-only", "OFF");
        Ok(())
    }
}

impl Sql for Setup {
    const SCHEME: &str = "mariadb";
    const SUPERUSER: &str = SUPERUSER;
    const TIME: &str = "SELECT UNIX_TIMESTAMP()";

    async fn ask(superuser: &Superuser, database: Option<&str>, sql: &str) -> std::result::Result<Vec<Row>, String> {
        ask(superuser, database, sql).await.map_err(|error| error.to_string())
    }

    fn database(name: &str, encoding: &str) -> String {
        format!("CREATE DATABASE {} CHARACTER SET {}", identifier(name), literal(encoding))
    }

    fn user(&self, name: &str, password: &str) -> String {
        format!("CREATE USER {}@'%' IDENTIFIED BY {} {}", identifier(name), literal(password), certificate(self))
    }
}

async fn ask(superuser: &Superuser, database: Option<&str>, sql: &str) -> mysql_async::Result<Vec<Row>> {
    let settings = OptsBuilder::default()
        .socket(Some(superuser.folder.join(SOCKET).display().to_string()))
        .user(Some(SUPERUSER))
        .db_name(database)
        .stmt_cache_size(0);
    let mut connection = Conn::new(settings).await?;
    let mut rows = Vec::new();
    let mut answer = connection.query_iter(sql).await?;
    while !answer.is_empty() {
        let set: Vec<mysql_async::Row> = answer.collect().await?;
        rows.extend(set.into_iter().map(|row| row.unwrap().iter().map(text).collect::<Row>()));
    }
    answer.drop_result().await?;
    connection.disconnect().await?;
    Ok(rows)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}

/// What users must show beside a password.
pub(super) const fn certificate(setup: &Setup) -> &'static str {
    if setup.certificates.is_some() { "REQUIRE X509" } else { "" }
}

fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}

/// The column of `SHOW SLAVE STATUS` that says whether it receives, `Slave_IO_Running`.
const RECEIVES: usize = 10;
