//! A file with the greatest tokens seen, for scripts and for services of one machine.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `greatest` | what the file says, and whether a token passes: pure |
//! | `locked` | the file, locked |
//! | `store` | the store of a fence on such a file |

mod greatest;
mod locked;
mod store;

pub(super) use greatest::{FILE_BYTES_MAX, Greatest, Key, Verdict};
pub use locked::TokenFile;
pub use store::FileTokens;
