//! The start of a server: its first data, and its arguments.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::asking::{SUPERUSER, certificate, literal};
use super::{Setup, programs};
use crate::authority::CertificateFiles;
use crate::daemon::{Daemon, Ground};
use crate::server::Kind;
use crate::sql::{self, Superuser};
use crate::{Availability, Result, template};

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
    /// It keeps the log that a [replica](super::Server::replica) needs.
    pub fn replicated(mut self) -> Self {
        self.own.is_replicated = true;
        self
    }

    /// The only node of a cluster of Galera; needs [`galera_availability`](super::galera_availability).
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
        let galera = || if self.own.is_galera { programs::galera_availability() } else { Availability::Present };
        programs::availability().and(galera)
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
        template::copy("mariadb", Path::new(programs::INSTALL), arguments, &daemon.data_folder())?;
        daemon.write(FIRST_WORDS, &self.first_words()).map(drop)
    }

    fn command(&self, daemon: &Daemon) -> Result<Command> {
        let mut command = daemon.command(programs::SERVER);
        command.args(self.arguments(daemon));
        // A server that starts removes temporary tables from its folder for these, those of another server too.
        let files = [
            ("socket", daemon.file(super::asking::SOCKET)),
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
        format!("--wsrep-provider={}", programs::GALERA),
        format!("--wsrep-provider-options=gmcast.listen_addr=tcp://{group};ist.recv_addr=tcp://{state};gcache.size=8M"),
        format!("--wsrep-node-address={group}"),
        "--binlog-format=ROW".to_owned(),
        "--innodb-autoinc-lock-mode=2".to_owned(),
    ]
}
