//! Fences: a resource refuses a holder that was overtaken, by the tokens that it has seen.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `tokens` | where the greatest tokens are kept; the store in memory |
//! | `header` | the header that carries a token over HTTP: pure |
//! | `http` | the layer before an HTTP service |
//! | `token_file` | the greatest tokens in a file |

mod header;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "file")]
mod token_file;
mod tokens;

pub use header::{ParseHeaderError, TOKEN_HEADER, TokenHeader};
#[cfg(feature = "file")]
pub use token_file::{FileTokens, TokenFile};
pub use tokens::{MemoryTokens, Seen, TokenStore};
