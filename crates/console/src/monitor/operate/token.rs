//! The token of operators: where it is read from, when it is refused, and how one that is given is compared.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::exit::CommandFailure;

/// The variable that has it if no file is named.
pub(crate) const TOKEN_VARIABLE: &str = "LOCKKEEPER_OPERATE_TOKEN";

/// The variable by which systemd names the directory with the credentials of a service.
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// How much chance a token must have at least, in hundredths of a bit: 128 bits cannot be guessed.
const BITS_MIN: usize = 12_800;

/// How many different characters it must have: fewer are typed, not drawn. Of 10,000,000 random tokens none has fewer.
const DIFFERENT_MIN: usize = 8;

/// The longest token, in bytes: a header of a request has room for it.
const TOKEN_BYTES_MAX: usize = 1_024;

/// The rights of others than its owner on a file.
const OF_OTHERS: u32 = 0o077;

/// The rights of other users than its owner and its group.
const OF_ALL: u32 = 0o007;

const MAKE_ONE: &str = "`openssl rand -hex 32` makes one";

/// A token that is long enough. Only its digest is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token([u8; 32]);

impl Token {
    /// Reads it from the file that is named, else from the environment.
    /// Fails if there is none, others can read it, or it can be guessed.
    pub(crate) fn load(
        file: Option<&Path>,
        variable: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Self, CommandFailure> {
        if let Some(path) = file {
            let shown = path.display();
            let text = read(path, variable(CREDENTIALS_VARIABLE).as_deref().map(Path::new))
                .map_err(|what| CommandFailure::ours(format!("--operate-token-file: {shown}: {what}")))?;
            return Self::parse(&text)
                .map_err(|what| CommandFailure::ours(format!("--operate-token-file: {shown}: {what}")));
        }
        match variable(TOKEN_VARIABLE).map(std::ffi::OsString::into_string) {
            None => Err(CommandFailure::ours(format!(
                "--operate: there is no token: name a file with one by --operate-token-file, or set {TOKEN_VARIABLE}; \
                 {MAKE_ONE}"
            ))),
            Some(Err(_)) => Err(CommandFailure::ours(format!("{TOKEN_VARIABLE} is not UTF-8"))),
            Some(Ok(text)) => {
                Self::parse(&text).map_err(|what| CommandFailure::ours(format!("{TOKEN_VARIABLE}: {what}")))
            }
        }
    }

    /// Takes a token that has 128 bits or more, as its characters are counted.
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(format!("the token is empty; {MAKE_ONE}"));
        }
        if let Some(place) = text.bytes().position(|byte| !byte.is_ascii_graphic()) {
            return Err(format!(
                "the token has a blank or a character beyond ASCII behind its {place} first ones; {MAKE_ONE}"
            ));
        }
        if text.len() > TOKEN_BYTES_MAX {
            return Err(format!("the token has more than {TOKEN_BYTES_MAX} characters"));
        }
        let mut different: Vec<u8> = text.bytes().collect();
        different.sort_unstable();
        different.dedup();
        if different.len() < DIFFERENT_MIN {
            return Err(format!(
                "the token has {} different characters, and {DIFFERENT_MIN} are the least; {MAKE_ONE}",
                different.len()
            ));
        }
        let bits = text.len() * bits_each(text);
        if bits < BITS_MIN {
            return Err(format!(
                "the token has {} bits at most, and {} are the least: 32 random hexadecimal digits, or 22 random \
                 letters of both cases and digits; {MAKE_ONE}",
                bits / 100,
                BITS_MIN / 100
            ));
        }
        Ok(Self(digest(text)))
    }

    /// Tells whether a given text is the token, in a time that does not depend on where they differ.
    pub(super) fn is(&self, given: &str) -> bool {
        self.0.ct_eq(&digest(given)).into()
    }
}

/// How many hundredths of a bit each character has at most, by which other ones it could have been.
fn bits_each(text: &str) -> usize {
    let all = |is_so: fn(&u8) -> bool| text.as_bytes().iter().all(is_so);
    if all(u8::is_ascii_digit) {
        332
    } else if all(u8::is_ascii_hexdigit) {
        400
    } else if all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
        || all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    {
        517
    } else {
        600
    }
}

/// Returns the digest of a secret text: where two of them differ tells nothing of the texts.
pub(super) fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Reads the first line of a file that this process's user alone can read, or root.
///
/// In the directory of systemd's credentials a group's right is the mask of an access list, which names the service's
/// user alone.
fn read(path: &Path, credentials: Option<&Path>) -> Result<String, String> {
    let (file, found) = opened(path).map_err(|error| format!("cannot be read: {error}"))?;
    require_owner(found.uid(), geteuid().as_raw())?;
    let mode = found.mode();
    let is_credential = credentials.is_some_and(|directory| path.parent() == Some(directory));
    if mode & if is_credential { OF_ALL } else { OF_OTHERS } != 0 {
        return Err(format!(
            "other users can read or change it (mode {:o}); chmod 600 {}, and put a new token into it",
            mode & 0o777,
            path.display()
        ));
    }
    let mut text = String::new();
    let limit = TOKEN_BYTES_MAX as u64 + 3;
    file.take(limit).read_to_string(&mut text).map_err(|error| format!("cannot be read: {error}"))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

/// Opens a regular file; what is none is not waited for.
fn opened(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok((file, found))
}

/// Refuses a file of another user, who knows what is in it; root reads it anyway.
fn require_owner(owner: u32, user: u32) -> Result<(), String> {
    if owner == user || owner == 0 {
        return Ok(());
    }
    Err(format!("it is of the user {owner}, and must be of {user}, as whom the monitor runs, or of root"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_token_has_as_many_bits_as_its_characters_can_have() {
        for (text, is_enough) in [
            ("0123456789abcdef0123456789abcdef", true),
            ("0123456789abcdef0123456789abcde", false),
            ("012345678901234567890123456789012345678", true),
            ("01234567890123456789012345678901234567", false),
            ("Zm9vYmFyYmF6cXV4Rm9vQg", true),
            ("Zm9vYmFyYmF6cXV4Rm9vQ", false),
            ("qwertyuiopasdfghjklzxcvb1", true),
            ("qwertyuiopasdfghjklzxcv1", false),
            ("abababababababababababababababababababababab", false),
            ("Zm9vYmFy YmF6cXV4Rm9vQmFy", false),
            ("", false),
        ] {
            assert_eq!(Token::parse(text).is_ok(), is_enough, "{text}");
        }
        assert!(Token::parse(&"0123456789abcdef".repeat(65)).is_err());
    }

    #[test]
    fn only_the_token_is_the_token() {
        let token = Token::parse("0123456789abcdef0123456789abcdef").unwrap();
        assert!(token.is("0123456789abcdef0123456789abcdef"));
        for other in ["", "0123456789abcdef0123456789abcdee", "0123456789abcdef0123456789abcdef ", "0"] {
            assert!(!token.is(other), "{other}");
        }
        assert!(!format!("{token:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn a_file_is_read_if_its_owner_alone_can_and_goes_before_the_environment() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, mode: u32, text: &str| {
            let path = directory.path().join(name);
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).mode(mode).open(&path).unwrap();
            // Not masked.
            file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
            io::Write::write_all(&mut &file, text.as_bytes()).unwrap();
            path
        };
        let (hex, other) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
        let variable = |name: &str| (name == TOKEN_VARIABLE).then(|| other.into());
        for (mode, is_fine) in [(0o600, true), (0o400, true), (0o640, false), (0o602, false)] {
            let path = write(&format!("{mode:o}"), mode, &format!("{hex}\r\n"));
            let token = Token::load(Some(&path), variable);
            assert_eq!(token.as_ref().is_ok_and(|token| token.is(hex)), is_fine, "{mode:o}: {token:?}");
        }
        assert!(Token::load(None, variable).unwrap().is(other));
        let path = write("credential", 0o440, hex);
        let credentials = |name: &str| (name == CREDENTIALS_VARIABLE).then(|| directory.path().into());
        assert!(Token::load(Some(&path), credentials).is_ok());
        let path = write("public", 0o444, hex);
        assert!(Token::load(Some(&path), credentials).is_err());
        let pipe = directory.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let refusal = Token::load(Some(&pipe), variable).unwrap_err().message;
        assert!(refusal.contains("no regular file"), "it does not wait for a writer: {refusal}");
        let refusal = Token::load(None, |_| None).unwrap_err().message;
        assert!(refusal.contains("--operate-token-file") && refusal.contains(TOKEN_VARIABLE), "{refusal}");
    }

    #[test]
    fn a_file_is_of_the_user_as_whom_the_monitor_runs_or_of_root() {
        for (owner, user, is_fine) in [(1_000, 1_000, true), (0, 1_000, true), (0, 0, true), (1_000, 0, false)] {
            assert_eq!(require_owner(owner, user).is_ok(), is_fine, "{owner} {user}");
        }
    }
}
