//! The one error of the harness: a sentence for the reader of the failed test.

use std::{error, fmt, io};

/// Why the harness could not do what a test asked: one sentence, naming the program, file or server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error(String);

/// A result of the harness.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Turns an I/O error into a sentence that starts with what was being done.
    pub fn io(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self(format!("{doing}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Error {}
