//! A server that follows another one, asynchronously, until it is promoted.

use std::fs;

use super::asking::{SUPERUSER, literal};
use super::{Server, programs};
use crate::daemon::{Daemon, SERVING_WITHIN};
use crate::server::Kind;
use crate::{Error, Result, wait};

impl Server {
    /// Starts a standby with a copy of this server's data, which goes on to receive what this one commits; waits until
    /// it answers and receives. A commit here does not wait for it.
    pub async fn standby(&self) -> Result<Self> {
        let mut standby = Self::on(Daemon::new(self.setup.ground())?, self.setup.clone());
        let data = standby.data_folder();
        let mut copying = standby.daemon.command(programs::find("pg_basebackup")?);
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
