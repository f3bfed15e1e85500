//! A server that follows another one, asynchronously, until it is promoted.

use super::Server;
use super::asking::{SUPERUSER, literal};
use crate::daemon::SERVING_WITHIN;
use crate::{Result, wait};

/// The column of `SHOW SLAVE STATUS` that says whether it receives, `Slave_IO_Running`.
const RECEIVES: usize = 10;

impl Server {
    /// Starts a replica that receives all that this server has committed since it was made, and waits until it
    /// receives. A commit here does not wait for it.
    ///
    /// # Errors
    ///
    /// This server was not set up as [replicated](super::Setup::replicated); or the replica ended or did not receive
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
