//! Fences: a resource refuses a holder that was overtaken, by the tokens that it has seen.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `tokens` | where the greatest tokens are kept; the store in memory |
//! | `header` | the header that carries a token over HTTP: pure |
//! | `http` | the layer before an HTTP service |
//! | `sql` | statements for the user's own transaction: texts |
//! | `redis` | scripts that compare and write: texts |
//! | `zookeeper`, `etcd` | data in the service that has the lock: its contender as the condition |
//! | `token_file` | the greatest tokens in a file |
//! | `fenced_file` | data and the greatest tokens in one file |
//! | `locked_file` | a file that is replaced under its own lock |

#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "file")]
mod fenced_file;
mod header;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "file")]
mod locked_file;
pub mod redis;
pub mod sql;
#[cfg(feature = "file")]
mod token_file;
mod tokens;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

#[cfg(feature = "file")]
pub use fenced_file::{FILE_DATA_BYTES_MAX, FencedFile};
pub use header::{ParseHeaderError, TOKEN_HEADER, TokenHeader};
#[cfg(feature = "file")]
pub use token_file::{FileTokens, TokenFile};
pub use tokens::{MemoryTokens, Seen, TokenStore};
