//! The store of a fence on a file of tokens.

use std::path::PathBuf;

use super::locked::TokenFile;
use crate::backend::BoxFuture;
use crate::fence::{Seen, TokenStore};
use crate::{Error, ErrorKind, FencingToken, Operation, QueueName, Result};

/// The greatest tokens in a [`TokenFile`]: they outlive the process, and a crash of the machine.
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
    use super::*;

    #[tokio::test]
    async fn another_process_after_a_restart_knows_the_greatest_token() {
        let place = tempfile::TempDir::new().unwrap();
        let path = place.path().join("tokens");
        let [x, y] = ["x", "y"].map(|name| QueueName::new(name).unwrap());
        let token = |text: &str| text.parse::<FencingToken>().unwrap();
        for (name, shown, seen) in [
            (&x, "41.3", Seen::Passes),
            (&x, "41.3", Seen::Passes),
            (&x, "41.2", Seen::Stale(token("41.3"))),
            (&y, "7", Seen::Passes),
            (&x, "42", Seen::Passes),
            (&x, "41.9", Seen::Stale(token("42"))),
        ] {
            assert_eq!(FileTokens::new(&path).see(name, token(shown)).await.unwrap(), seen, "{name} {shown}");
        }
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
