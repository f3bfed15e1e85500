//! Fences on data in the ZooKeeper that has the lock: a transaction that takes effect only while the lock is held.
//!
//! No second number is needed: the contender's node is the proof. It goes with its session, or when the lock is broken,
//! before the ensemble grants the lock to another; and the ensemble orders that against the transaction.

pub use lockkeeper_zookeeper::{
    Client, ClientError, ClientErrorKind, Config, ErrorCode, NewNode, Transaction, TransactionResult, contender_path,
};

use crate::{Hold, Result};

/// Begins a transaction with the condition that this hold's contender is there, and so no other has been granted what
/// it excludes.
///
/// `config` is that of the lock's URL. The client may have a session for itself; its servers and chroot are those of
/// the URL too. Where the contender is gone, [`commit`](Transaction::commit) fails with a [`ClientError`] for which
/// [`is_overtaken`] holds, and nothing takes effect.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lockkeeper::ServiceUrl;
/// use lockkeeper::fence::zookeeper::{Client, Config, is_overtaken, transaction};
///
/// let url: ServiceUrl = "zk://h1,h2,h3".parse()?;
/// let config = Config::from_url(&url)?;
/// let client = Client::connect(&config).await?;
/// let guard = lockkeeper::connect(url)?.mutex("prices")?.lock().await?;
/// match transaction(&client, &config, guard.hold())?.set_data("/prices", "apple,3", None).commit().await {
///     Ok(_) => println!("written"),
///     Err(error) if is_overtaken(&error, &config, guard.hold()) => println!("the lock is lost: nothing was written"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidName`](crate::ErrorKind::InvalidName), permanent: the hold is not one of this URL's service.
pub fn transaction<'a>(client: &'a Client, config: &Config, hold: &Hold) -> Result<Transaction<'a>> {
    let path = contender_path(config, hold.name(), hold.contender())?;
    Ok(client.transaction().check(&path, None))
}

/// Whether a [`transaction`] of this hold failed because its contender is gone: nothing took effect, and nothing of
/// this hold will.
pub fn is_overtaken(error: &ClientError, config: &Config, hold: &Hold) -> bool {
    let path = contender_path(config, hold.name(), hold.contender());
    error.kind() == ClientErrorKind::Refused(ErrorCode::NoNode) && path.is_ok_and(|path| path == error.path())
}
