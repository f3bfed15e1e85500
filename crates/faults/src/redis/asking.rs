//! Asks a server over its socket in the file system, where only operators of this machine come.

use std::path::PathBuf;

use redis::{AsyncConnectionConfig, Client, ConnectionAddr, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo};

use super::{Server, Setup};
use crate::daemon::SERVING_WITHIN;
use crate::wait::{self, ANSWERED_WITHIN};
use crate::{Error, Result};

impl Server {
    /// Starts Debian's server without persistence, which stands alone on a free port, and waits until it serves.
    pub async fn standalone() -> Result<Self> {
        Setup::new().start().await
    }

    /// Its socket in the file system.
    pub fn socket(&self) -> PathBuf {
        self.operator.socket.clone()
    }

    /// Sends it one command as its operator, over a socket in the file system; returns the answer, as the crate `redis`
    /// reads it into a type.
    pub async fn ask<T: FromRedisValue>(&self, words: &[impl AsRef<[u8]> + Sync]) -> Result<T> {
        self.operator.ask(words).await
    }

    /// One field of what `INFO` says.
    pub async fn info(&self, field: &str) -> Result<String> {
        let info: String = self.ask(&["INFO", "everything"]).await?;
        let found = self::field(&info, field);
        found.ok_or_else(|| Error::new(format!("{} tells no {field}", self.address())))
    }

    /// Waits until this replica follows its master.
    pub async fn replicating(&self) -> Result<()> {
        wait::until(&format!("{} replicating", self.address()), SERVING_WITHIN, async || {
            (self.info("master_link_status").await.ok()? == "up").then_some(())
        })
        .await
        .map_err(|error| self.daemon.with_log(&error.to_string()))
    }

    /// Makes this replica a master, for its next starts too.
    pub async fn promote(&self) -> Result<()> {
        self.ask::<()>(&["REPLICAOF", "NO", "ONE"]).await?;
        self.ask(&["CONFIG", "REWRITE"]).await
    }
}

/// The way in of an operator: the socket, and the password if there is one.
#[derive(Clone, Debug)]
pub struct Operator {
    pub(super) socket: PathBuf,
    pub(super) password: Option<String>,
}

impl Operator {
    /// Sends one command over a new connection; returns the answer.
    pub(super) async fn ask<T: FromRedisValue>(&self, words: &[impl AsRef<[u8]> + Sync]) -> Result<T> {
        let failed = |error| {
            let said = words.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect::<Vec<_>>().join(" ");
            Error::new(format!("{}: {said}: {error}", self.socket.display()))
        };
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        let address = ConnectionAddr::Unix(self.socket.clone());
        let place = address.into_connection_info().map_err(failed)?.set_redis_settings(settings);
        let waits = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWERED_WITHIN))
            .set_response_timeout(Some(ANSWERED_WITHIN));
        let client = Client::open(place).map_err(failed)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&waits).await.map_err(failed)?;
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| {
            command.arg(word.as_ref());
        });
        command.query_async(&mut connection).await.map_err(failed)
    }
}

/// The field of this name in an answer to `INFO`.
fn field(info: &str, name: &str) -> Option<String> {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(|value| value.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let info = "# Memory\r\nused_memory_human:1M\r\nused_memory:1048576\r\n";
        assert_eq!(["used_memory", "used"].map(|name| field(info, name)), [Some("1048576".to_owned()), None]);
    }
}
