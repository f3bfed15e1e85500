//! Fences on data in the etcd that has the lock: the condition of a transaction that any client can send.
//!
//! No second number is needed: the contender's key is the proof. etcd deletes it with its lease, or when the lock is
//! broken, before the lock is granted to another, and orders that against the transaction.

pub use lockkeeper_etcd::ContenderKey;

use crate::{Hold, Result, ServiceUrl};

/// Returns the key of this hold's contender and its revision, for `url`, that of the lock.
///
/// A transaction whose compare is `create_revision(key) == create_revision` takes effect only while the contender is
/// there, and so while no other has been granted what it excludes. With the crate `etcd-client`:
///
/// ```text
/// let mine = lockkeeper::fence::etcd::contender_key(&url, guard.hold())?;
/// let condition = Compare::create_revision(mine.key, CompareOp::Equal, mine.create_revision);
/// let answer = client.txn(Txn::new().when([condition]).and_then([TxnOp::put("prices", "apple,3", None)])).await?;
/// if !answer.succeeded() {
///     return Err("the lock is lost: nothing was written".into());
/// }
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidUrl`](crate::ErrorKind::InvalidUrl), permanent, for a URL that is not etcd's.
pub fn contender_key(url: &ServiceUrl, hold: &Hold) -> Result<ContenderKey> {
    let config = lockkeeper_etcd::Config::from_url(url)?;
    Ok(config.contender_key(hold.name(), hold.contender()))
}
