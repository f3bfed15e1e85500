//! A file with the greatest tokens seen, for scripts and for services of one machine, and the store of a fence on it.
//! What the file says, and whether a token passes, is in `greatest`.

mod greatest;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::backend::BoxFuture;
use crate::fence::locked_file::{FlushMode, LockedFile};
use crate::fence::{Seen, TokenStore};
use crate::{Error, ErrorKind, FencingToken, Operation, QueueName, Result};

pub(super) use greatest::{FILE_BYTES_MAX, Greatest, TokenKey, TokenVerdict};

/// A file with the greatest token seen of each lock, locked (`flock`) until it is dropped; on Linux, with the feature
/// `file`.
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
        match greatest.see(&TokenKey::new(name), token) {
            TokenVerdict::Seen => {
                // The process that kept it may have been killed before the new name was on the disk.
                self.0.sync_name()?;
                Ok(Seen::Passes)
            }
            TokenVerdict::Stale(greatest) => Ok(Seen::Stale(greatest)),
            TokenVerdict::Full => Err(self.0.refusal(ErrorKind::LimitReached, "it has tokens of too many locks")),
            TokenVerdict::Raised => {
                self.0.replace(&[greatest.to_string().as_bytes()], FlushMode::Flushed)?;
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

/// The greatest tokens in a [`TokenFile`]: they outlive the process, and a crash of the machine. On Linux, with the
/// feature `file`.
///
/// Each comparison locks the file for its time alone, in a thread of the runtime for work that blocks. A greater token
/// costs two flushes to the disk, an equal one the second of them. A file has tokens of 1,000 locks at most; one more
/// is an error ([`ErrorKind::LimitReached`]), so a resource with a lock for each of its parts needs a larger store.
#[derive(Clone, Debug)]
pub struct FileTokens {
    path: PathBuf,
}

impl FileTokens {
    /// Keeps tokens in this file, which is made when the first token comes.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl TokenStore for FileTokens {
    fn see(&self, name: &QueueName, token: FencingToken) -> BoxFuture<Result<Seen>> {
        let (path, name) = (self.path.clone(), name.clone());
        let seeing = tokio::task::spawn_blocking(move || TokenFile::lock(&path)?.see(Some(&name), token));
        Box::pin(async move {
            seeing.await.unwrap_or_else(|ended| {
                let message = format!("the comparison of a token did not end: {ended}");
                Err(Error::unknown(ErrorKind::Backend, Operation::Configure, message))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn another_process_after_a_restart_knows_the_greatest_token() {
        let place = tempfile::TempDir::new().unwrap();
        let path = place.path().join("tokens");
        crate::fence::tests::expect_order(|| Arc::new(FileTokens::new(&path))).await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x 42\ny 7\n");
    }

    #[tokio::test]
    async fn a_file_that_is_none_lets_nothing_pass() {
        let place = tempfile::TempDir::new().unwrap();
        let path = place.path().join("notes");
        std::fs::write(&path, "remember the milk\n").unwrap();
        let x = QueueName::new("x").unwrap();
        let error = FileTokens::new(&path).see(&x, "1".parse().unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "remember the milk\n");
    }
}
