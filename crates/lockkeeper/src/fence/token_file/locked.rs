//! A file of tokens, while this process has it locked.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use super::greatest::{FILE_BYTES_MAX, Greatest, Key, Verdict};
use crate::fence::Seen;
use crate::fence::locked_file::{Durability, LockedFile};
use crate::{ErrorKind, FencingToken, QueueName, Result};

/// A file with the greatest token seen of each lock, locked (`flock`) until it is dropped.
///
/// It is a text with a line for each lock, in the form of a [`TokenHeader`](crate::fence::TokenHeader), and at most
/// 1,000 lines. `lockkeeper fence FILE -- CMD` keeps its tokens in one. It lies on a file system of this machine, in a
/// directory that its users may write to, since it is replaced when a greater token comes.
#[derive(Debug)]
pub struct TokenFile(LockedFile);

impl TokenFile {
    /// Opens the file, or makes it, and waits until no other process has it locked; this blocks the thread.
    ///
    /// # Errors
    ///
    /// It cannot be opened ([`ErrorKind::Refused`] or [`ErrorKind::Backend`]), or is not a regular file
    /// ([`ErrorKind::InvalidConfig`]).
    pub fn lock(path: &Path) -> Result<Self> {
        LockedFile::lock(path).map(Self)
    }

    /// Compares a token with the greatest of its lock, and keeps a greater one on the disk before it returns. Tokens
    /// that come without a lock's name are compared among themselves.
    ///
    /// # Errors
    ///
    /// It is not a file of tokens, and is left as it is ([`ErrorKind::InvalidConfig`]); it has 1,000 locks already
    /// ([`ErrorKind::LimitReached`]); or it cannot be read or replaced.
    pub fn see(&mut self, name: Option<&QueueName>, token: FencingToken) -> Result<Seen> {
        let bytes = self.0.read(FILE_BYTES_MAX)?;
        let text = bytes.as_deref().and_then(|bytes| str::from_utf8(bytes).ok());
        let Some(mut greatest) = text.and_then(Greatest::parse) else {
            let why = "it is not the file of a fence, and was left as it is";
            return Err(self.0.refusal(ErrorKind::InvalidConfig, why));
        };
        match greatest.see(&Key::new(name), token) {
            Verdict::Seen => {
                // The process that kept it may have been killed before the new name was on the disk.
                self.0.sync_name()?;
                Ok(Seen::Passes)
            }
            Verdict::Stale(greatest) => Ok(Seen::Stale(greatest)),
            Verdict::Full => Err(self.0.refusal(ErrorKind::LimitReached, "it has tokens of too many locks")),
            Verdict::Raised => {
                self.0.replace(&[greatest.to_string().as_bytes()], Durability::Flushed)?;
                Ok(Seen::Passes)
            }
        }
    }
}

/// The open file: it stays locked while any copy of this descriptor is open, in any process.
impl AsFd for TokenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
