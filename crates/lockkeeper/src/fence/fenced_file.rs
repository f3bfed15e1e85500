//! A file that has data and the greatest tokens seen together, and is replaced as a whole.
//!
//! ```text
//! Lockkeeper fenced file 1
//! nightly-backup 1784.2
//!
//! the data, of any bytes
//! ```
//!
//! The tokens are as in a file of tokens; an empty line ends them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::fence::Seen;
use crate::fence::locked_file::{FlushMode, LockedFile, failure, refusal};
use crate::fence::token_file::{FILE_BYTES_MAX, Greatest, TokenKey, TokenVerdict};
use crate::{Error, ErrorKind, FencingToken, QueueName, Result};

/// What such a file begins with.
const FIRST_LINE: &str = "Lockkeeper fenced file 1\n";

/// The most data that one file can have, in bytes: it is read and written as a whole, through memory.
pub const FILE_DATA_BYTES_MAX: u64 = 256 << 20;

/// A file with data, and the greatest token seen of each lock that guards them; on Linux, with the feature `file`.
///
/// Data and tokens are replaced together, by a rename, under the file's own lock: no crash leaves one without the
/// other, and of two writers the one with the smaller token is refused, whenever it comes. It lies on a file system of
/// this machine, in a directory that its users may write to. It can be made over and over for the same path.
///
/// All calls block their thread; in async code they belong into `tokio::task::spawn_blocking`.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lockkeeper::fence::{FencedFile, Seen};
///
/// let guard = lockkeeper::connect("zk://h1,h2,h3")?.mutex("prices")?.lock().await?;
/// let prices = FencedFile::new("/srv/prices.csv").durable();
/// match prices.write(guard.hold().name(), guard.fencing_token(), b"apple,3\n")? {
///     Seen::Passes => println!("written"),
///     Seen::Stale(greatest) => println!("we were overtaken by {greatest}: nothing was written"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FencedFile {
    path: PathBuf,
    durability: FlushMode,
}

impl FencedFile {
    /// Keeps data in this file, which is made at the first write. A crash of the machine may undo the last writes, each
    /// in whole and with its token.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), durability: FlushMode::Buffered }
    }

    /// Has no crash of the machine undo a write that was answered: for a second flush each.
    #[must_use]
    pub fn durable(self) -> Self {
        Self { durability: FlushMode::Flushed, ..self }
    }

    /// Reads the data; `None` before the first write. It waits for no writer: what is read was written as a whole.
    ///
    /// # Errors
    ///
    /// It cannot be read ([`ErrorKind::Refused`] or [`ErrorKind::Backend`]), or is not such a file
    /// ([`ErrorKind::InvalidConfig`]).
    pub fn read(&self) -> Result<Option<Vec<u8>>> {
        let failed = |error| failure(&self.path, "", error);
        let mut bytes = Vec::new();
        match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(file) => file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?,
        };
        if bytes.is_empty() {
            // A writer has made it, and not written yet.
            return Ok(None);
        }
        let begins_at = Content::parse(&bytes).map(|content| bytes.len() - content.data.len());
        let begins_at = begins_at.ok_or_else(|| not_ours(&self.path))?;
        Ok(Some(bytes.split_off(begins_at)))
    }

    /// Replaces the data, unless a greater token of this lock was seen: then nothing is written.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub fn write(&self, name: &QueueName, token: FencingToken, data: &[u8]) -> Result<Seen> {
        self.update(name, token, |_| data.to_vec())
    }

    /// Makes new data of the present ones (`None` before the first write) and replaces them, unless a greater token of
    /// this lock was seen: then nothing is written, and `change` is not called. No other writer comes in between.
    ///
    /// # Errors
    ///
    /// It is not such a file, and is left as it is ([`ErrorKind::InvalidConfig`]); the data are more than
    /// [`FILE_DATA_BYTES_MAX`], or it has tokens of 1,000 locks already ([`ErrorKind::LimitReached`]); or it cannot be
    /// read or replaced: [`ErrorKind::Refused`] or [`ErrorKind::Backend`].
    pub fn update(
        &self,
        name: &QueueName,
        token: FencingToken,
        change: impl FnOnce(Option<&[u8]>) -> Vec<u8>,
    ) -> Result<Seen> {
        let mut file = LockedFile::lock(&self.path)?;
        let bytes = file.read(BYTES_MAX)?.ok_or_else(|| not_ours(file.path()))?;
        let Content { mut greatest, data } = match bytes.is_empty() {
            true => Content::default(),
            false => Content::parse(&bytes).ok_or_else(|| not_ours(file.path()))?,
        };
        match greatest.see(&TokenKey::new(Some(name)), token) {
            TokenVerdict::Stale(greatest) => return Ok(Seen::Stale(greatest)),
            TokenVerdict::Full => return Err(file.refusal(ErrorKind::LimitReached, "it has tokens of too many locks")),
            TokenVerdict::Seen | TokenVerdict::Raised => {}
        }
        let new = change((!bytes.is_empty()).then_some(data));
        if new.len() as u64 > FILE_DATA_BYTES_MAX {
            return Err(file.refusal(ErrorKind::LimitReached, "the data are longer than 256 MiB"));
        }
        let tokens = greatest.to_string();
        file.replace(&[FIRST_LINE.as_bytes(), tokens.as_bytes(), b"\n", &new], self.durability)?;
        Ok(Seen::Passes)
    }
}

/// The largest file that is read, in bytes.
const BYTES_MAX: u64 = FILE_DATA_BYTES_MAX + FILE_BYTES_MAX + FIRST_LINE.len() as u64 + 1;

/// What a file says.
#[derive(Debug, Default)]
struct Content<'a> {
    greatest: Greatest,
    data: &'a [u8],
}

impl<'a> Content<'a> {
    /// Reads a file; `None` if it is not one of ours.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(FIRST_LINE.as_bytes())?;
        // The tokens are ours, so the first empty line ends them; their longest text is known.
        let searched = &rest[..rest.len().min(FILE_BYTES_MAX as usize + 2)];
        let ends_at = searched.windows(2).position(|pair| pair == b"\n\n")? + 1;
        let tokens = str::from_utf8(&rest[..ends_at]).ok()?;
        Some(Self { greatest: Greatest::parse(tokens)?, data: &rest[ends_at + 1..] })
    }
}

fn not_ours(path: &Path) -> Error {
    refusal(path, ErrorKind::InvalidConfig, "it is not a fenced file of Lockkeeper, and was left as it is")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn place() -> (tempfile::TempDir, FencedFile) {
        let place = tempfile::TempDir::new().unwrap();
        let file = FencedFile::new(place.path().join("data"));
        (place, file)
    }

    fn name(text: &str) -> QueueName {
        text.parse().unwrap()
    }

    fn token(text: &str) -> FencingToken {
        text.parse().unwrap()
    }

    #[test]
    fn a_smaller_token_writes_nothing_an_equal_one_and_a_greater_one_write() {
        let (_place, file) = place();
        assert_eq!(file.read().unwrap(), None);
        for (shown, data, seen) in [
            ("41.3", "one", Seen::Passes),
            ("41.3", "two", Seen::Passes),
            ("41.2", "late", Seen::Stale(token("41.3"))),
            ("42", "three", Seen::Passes),
            ("41.9", "late", Seen::Stale(token("42"))),
        ] {
            // As after a restart: nothing is remembered but what the file says.
            let file = FencedFile::new(file.path.clone()).durable();
            assert_eq!(file.write(&name("x"), token(shown), data.as_bytes()).unwrap(), seen, "{shown}");
        }
        assert_eq!(file.read().unwrap().unwrap(), b"three");
        assert_eq!(fs::read_to_string(&file.path).unwrap(), "Lockkeeper fenced file 1\nx 42\n\nthree");
    }

    #[test]
    fn locks_of_other_names_do_not_disturb_one_another() {
        let (_place, file) = place();
        assert_eq!(file.write(&name("x"), token("9"), b"x").unwrap(), Seen::Passes);
        assert_eq!(file.write(&name("y"), token("7"), b"y").unwrap(), Seen::Passes);
        assert_eq!(file.write(&name("x"), token("8"), b"late").unwrap(), Seen::Stale(token("9")));
        assert_eq!(file.write(&name("y"), token("6"), b"late").unwrap(), Seen::Stale(token("7")));
        assert_eq!(file.read().unwrap().unwrap(), b"y");
    }

    #[test]
    fn data_are_any_bytes_and_a_change_sees_them() {
        let (_place, file) = place();
        for data in [&b""[..], b"\n", b"\n\n", b"x 9\n\n", &[0, 255, 10, 10]] {
            assert_eq!(file.write(&name("x"), token("1"), data).unwrap(), Seen::Passes);
            assert_eq!(file.read().unwrap().unwrap(), data);
            let change = |seen: Option<&[u8]>| {
                assert_eq!(seen, Some(data));
                [data, b"+"].concat()
            };
            assert_eq!(file.update(&name("x"), token("1"), change).unwrap(), Seen::Passes);
            assert_eq!(file.read().unwrap().unwrap(), [data, b"+"].concat());
        }
    }

    #[test]
    fn what_is_not_such_a_file_is_refused_and_left_as_it_is() {
        let (_place, file) = place();
        for wrong in ["x 1\n", "remember the milk", FIRST_LINE, "Lockkeeper fenced file 1\nx -1\n\n", "\n\n"] {
            fs::write(&file.path, wrong).unwrap();
            for refused in [file.read().err(), file.write(&name("x"), token("2"), b"new").err()] {
                let error = refused.expect("it is refused");
                assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{wrong:?}");
                assert!(!error.to_string().contains('\n'), "{error}");
            }
            assert_eq!(fs::read_to_string(&file.path).unwrap(), wrong);
        }
    }

    #[test]
    fn a_writer_that_was_killed_before_the_rename_has_written_nothing() {
        let (place, file) = place();
        file.write(&name("x"), token("1"), b"whole").unwrap();
        fs::write(place.path().join(".data.next"), "half of").unwrap();
        assert_eq!(file.read().unwrap().unwrap(), b"whole");
        assert_eq!(file.write(&name("x"), token("2"), b"next").unwrap(), Seen::Passes);
        assert_eq!(file.read().unwrap().unwrap(), b"next");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
