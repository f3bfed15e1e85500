//! Fences: a resource refuses a holder that was overtaken, by the tokens that it has seen.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `header` | the header that carries a token over HTTP: pure |

mod header;

pub use header::{ParseHeaderError, TOKEN_HEADER, TokenHeader};
