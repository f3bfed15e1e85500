//! Exit codes of the command line, and the failures that lead to them.
//!
//! A command under a lock may end with any of these numbers too; the last `lockkeeper:` line on stderr tells which it
//! was.

/// `deadlocks` found a deadlock that is known.
pub const DEADLOCKED: u8 = 1;

/// `doctor` found something that makes locks worse than they could be.
pub const EXAMINED_WARNINGS: u8 = 1;

/// `doctor` found that locks do not work, or not as promised.
pub const EXAMINED_ERRORS: u8 = 2;

/// The lock was lost while the command ran, and the command was ended for it.
pub const LOST: u8 = 123;

/// The lock was not acquired in time.
pub const NOT_ACQUIRED: u8 = 124;

/// Lockkeeper itself failed: a bad option, no service, refused.
pub const FAILED: u8 = 125;

/// The command could not be executed.
pub const NOT_EXECUTABLE: u8 = 126;

/// The command was not found.
pub const NOT_FOUND: u8 = 127;

/// Added to the number of the signal that ended the command, or the wait for its lock.
pub const SIGNAL_BASE: i32 = 128;

/// Returns the exit code for the end by a signal.
pub fn by_signal(signal: i32) -> u8 {
    u8::try_from(SIGNAL_BASE.saturating_add(signal)).unwrap_or(u8::MAX)
}

/// The failure of a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommandFailure {
    /// The exit code.
    pub code: u8,
    /// The text for stderr, without the prefix.
    pub message: String,
}

impl CommandFailure {
    /// A failure of Lockkeeper itself.
    pub fn ours(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }

    /// That this build lacks what is asked for.
    pub fn without(what: &str, feature: &str) -> Self {
        let cure = format!("build it with `--features {feature}`");
        Self::ours(format!("{what}: this lockkeeper was built without the feature `{feature}`; {cure}"))
    }
}

impl From<lockkeeper::Error> for CommandFailure {
    fn from(error: lockkeeper::Error) -> Self {
        Self::ours(format!("{error:#}"))
    }
}
