//! The file of a fence: the greatest token that a resource has seen of each lock, and the lock on the file itself.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `greatest` | what the file says, and whether a token passes: pure |
//! | `locked` | the file, locked and replaced |
//!
//! Which token is brought, and what runs behind the fence, belongs to the command.

mod greatest;
mod locked;

pub(crate) use greatest::Key;
pub(crate) use locked::FenceFile;
