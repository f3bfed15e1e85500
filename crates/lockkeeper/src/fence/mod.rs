//! Fences: a resource refuses a holder that was overtaken, by the tokens that it has seen.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `tokens` | where the greatest tokens are kept; the store in memory |
//! | `header` | the header that carries a token over HTTP: pure |
//! | `http` | the layer before an HTTP service |

mod header;
#[cfg(feature = "http")]
pub mod http;
mod tokens;

pub use header::{ParseHeaderError, TOKEN_HEADER, TokenHeader};
pub use tokens::{MemoryTokens, Seen, TokenStore};
