//! The start of a server: its first data, and its configuration.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::asking::{SUPERUSER, literal};
use super::{Setup, programs};
use crate::authority::CertificateFiles;
use crate::daemon::{Daemon, Ground};
use crate::process::Process;
use crate::server::Kind;
use crate::sql::{self, Superuser};
use crate::{Availability, Error, Result, template};

/// What PostgreSQL has alone: nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own;

/// How the first data are made: by a superuser who needs no password; in Unicode, and sorted by bytes.
const INITDB: [&str; 5] = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"];

impl Kind for Setup {
    type Operator = Superuser;

    fn availability(&self) -> Availability {
        programs::availability()
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
        template::copy("postgres", &programs::find("initdb")?, arguments, &daemon.data_folder())?;
        self.configure(daemon)
    }

    fn command(&self, daemon: &Daemon) -> Result<Command> {
        let mut command = daemon.command(programs::find("postgres")?);
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
