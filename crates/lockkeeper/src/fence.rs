//! Fences: a resource refuses a holder that was overtaken, by the tokens that it has seen. This file has where a fence
//! keeps the greatest token of each lock, and the store in memory.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `header` | the header that carries a token over HTTP: pure |
//! | `http` | the layer before an HTTP service |
//! | `sql` | statements for the user's own transaction: texts |
//! | `redis` | scripts that compare and write: texts |
//! | `zookeeper`, `etcd` | data in the service that has the lock: its contender as the condition |
//! | `token_file` | the greatest tokens in a file, on Linux |
//! | `fenced_file` | data and the greatest tokens in one file, on Linux |
//! | `locked_file` | a file that is replaced under its own lock, on Linux |

#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(all(feature = "file", target_os = "linux"))]
mod fenced_file;
mod header;
#[cfg(feature = "http")]
pub mod http;
#[cfg(all(feature = "file", target_os = "linux"))]
mod locked_file;
pub mod redis;
pub mod sql;
#[cfg(all(feature = "file", target_os = "linux"))]
mod token_file;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

use std::collections::HashMap;
use std::fmt;

use parking_lot::Mutex;

use crate::backend::BoxFuture;
use crate::{FencingToken, QueueName, Result};

#[cfg(all(feature = "file", target_os = "linux"))]
pub use fenced_file::{FILE_DATA_BYTES_MAX, FencedFile};
pub use header::{ParseHeaderError, TOKEN_HEADER, TokenHeader};
#[cfg(all(feature = "file", target_os = "linux"))]
pub use token_file::{FileTokens, TokenFile};

/// Keeps the greatest token seen of each lock, and compares with it.
///
/// A store decides what a restart of the resource forgets: after it, a holder that was overtaken before passes until
/// the current one comes again. One that is durable has a greater token on the disk before it answers.
pub trait TokenStore: fmt::Debug + Send + Sync + 'static {
    /// Compares a token with the greatest of its lock, as pairs, and keeps it if it is greater.
    ///
    /// The call starts it, and dropping the future need not stop it. Both are one step for all that use the store. The
    /// token may have been kept although the answer is an error, or the future was dropped: the same holder passes
    /// with it when it comes again.
    fn see(&self, name: &QueueName, token: FencingToken) -> BoxFuture<Result<Seen>>;
}

/// What a store says to a token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a token is overtaken or not")]
pub enum Seen {
    /// It is the greatest so far: no smaller one passes from now on.
    Passes,
    /// This one was seen before, and is greater.
    Stale(FencingToken),
}

/// The greatest tokens in memory: for tests, and for resources that end with their process.
///
/// It has an entry for each lock that it has ever seen.
#[derive(Debug, Default)]
pub struct MemoryTokens(Mutex<HashMap<QueueName, FencingToken>>);

impl MemoryTokens {
    /// Makes a store that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }
}

impl TokenStore for MemoryTokens {
    fn see(&self, name: &QueueName, token: FencingToken) -> BoxFuture<Result<Seen>> {
        let mut tokens = self.0.lock();
        let greatest = tokens.entry(name.clone()).or_insert(token);
        let seen = if token < *greatest { Seen::Stale(*greatest) } else { Seen::Passes };
        *greatest = token.max(*greatest);
        Box::pin(std::future::ready(Ok(seen)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;

    /// Shows tokens of two locks, each to the store as a process opens it.
    pub(crate) async fn expect_order(open: impl Fn() -> Arc<dyn TokenStore>) {
        let [x, y] = ["x", "y"].map(|name| QueueName::new(name).unwrap());
        let token = |text: &str| text.parse::<FencingToken>().unwrap();
        for (name, shown, seen) in [
            (&x, "41.3", Seen::Passes),
            (&x, "41.3", Seen::Passes),
            (&x, "41.2", Seen::Stale(token("41.3"))),
            (&y, "7", Seen::Passes),
            (&x, "42", Seen::Passes),
            (&x, "41.9", Seen::Stale(token("42"))),
            (&y, "7", Seen::Passes),
        ] {
            assert_eq!(open().see(name, token(shown)).await.unwrap(), seen, "{name} {shown}");
        }
    }

    #[tokio::test]
    async fn a_smaller_token_is_stale_and_an_equal_one_passes_and_locks_do_not_disturb_one_another() {
        let tokens = Arc::new(MemoryTokens::new());
        expect_order(|| tokens.clone()).await;
    }
}
