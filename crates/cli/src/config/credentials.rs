//! User and password that are kept apart from the URL: from the environment or the config file, the password also from
//! a file that either names. They are never printed.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lockkeeper::ServiceUrl;

use super::places::ConfigPlaces;
use crate::exit::CommandFailure;

const USER_VARIABLE: &str = "LOCKKEEPER_USER";

const PASSWORD_VARIABLE: &str = "LOCKKEEPER_PASSWORD";

const PASSWORD_FILE_VARIABLE: &str = "LOCKKEEPER_PASSWORD_FILE";

/// The right of other users than owner and group to read a file.
const READABLE_BY_OTHERS: u32 = 0o004;

/// The longest password in a file, in bytes: as long as a whole URL may be.
const PASSWORD_BYTES_MAX: u64 = 8_192;

/// What one place gives; the URL's own go before it.
#[derive(Default)]
pub(super) struct PlaceCredentials {
    user: Option<String>,
    password: Option<Password>,
}

/// A password, or where it is. A file is read only for a URL that the password is added to: it may be closed to the
/// users of others.
enum Password {
    Text(String),
    /// The file, and the setting that names it.
    File(PathBuf, String),
}

impl PlaceCredentials {
    pub(super) fn of_environment(places: &ConfigPlaces<'_>) -> Result<Self, CommandFailure> {
        let password = match (places.text(PASSWORD_VARIABLE)?, places.text(PASSWORD_FILE_VARIABLE)?) {
            (Some(_), Some(_)) => {
                return Err(CommandFailure::ours(format!(
                    "{PASSWORD_VARIABLE} and {PASSWORD_FILE_VARIABLE} are both set; unset one of them"
                )));
            }
            (None, Some(path)) => Some(Password::File(path.into(), PASSWORD_FILE_VARIABLE.to_owned())),
            (password, None) => password.map(Password::Text),
        };
        Ok(Self { user: places.text(USER_VARIABLE)?, password })
    }

    /// Takes those that a config file gives or names for its own URL.
    pub(super) fn of_file(
        user: Option<String>,
        password_file: Option<&str>,
        origin: &str,
    ) -> Result<Self, CommandFailure> {
        let origin = format!("{origin}: password_file");
        let password = match password_file.map(PathBuf::from) {
            Some(path) if !path.is_absolute() => {
                return Err(CommandFailure::ours(format!("{origin}: write its path from the root")));
            }
            path => path.map(|path| Password::File(path, origin)),
        };
        Ok(Self { user, password })
    }

    /// Adds them to the URL of a service with hosts, unless it has its own, or is for another user.
    pub(super) fn complete(self, url: ServiceUrl) -> Result<ServiceUrl, CommandFailure> {
        let is_for_another = self.user.is_some() && url.user().is_some() && url.user() != self.user.as_deref();
        if url.hosts().is_empty() || is_for_another {
            return Ok(url);
        }
        let user = self.user.filter(|_| url.user().is_none());
        let password = self.password.filter(|_| url.password().is_none()).map(Password::text).transpose()?;
        let url = user.into_iter().fold(url, ServiceUrl::with_user);
        Ok(password.into_iter().fold(url, ServiceUrl::with_password))
    }
}

impl Password {
    fn text(self) -> Result<String, CommandFailure> {
        match self {
            Self::Text(password) => Ok(password),
            Self::File(path, origin) => password_of(&path, &origin),
        }
    }
}

/// Reads the password of an administrator: from a file that no other user of the machine may read.
pub(super) fn secret_of(path: &Path, what: &str) -> Result<String, CommandFailure> {
    refuse_if_public(path, what)?;
    password_of(path, what)
}

/// Refuses a file with a secret that every user of the machine can read.
pub(super) fn refuse_if_public(path: &Path, what: &str) -> Result<(), CommandFailure> {
    let rights = File::open(path).and_then(|file| file.metadata()).map(|metadata| metadata.permissions().mode());
    if rights.is_ok_and(|rights| rights & READABLE_BY_OTHERS != 0) {
        let path = path.display();
        return Err(CommandFailure::ours(format!(
            "{what}: every user can read {path}; chmod o-rwx {path}, and change it"
        )));
    }
    Ok(())
}

/// Reads a password file: all of it but the end of its last line.
fn password_of(path: &Path, origin: &str) -> Result<String, CommandFailure> {
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(PASSWORD_BYTES_MAX + 1).read_to_string(&mut text)?;
        let password = text.strip_suffix('\n').unwrap_or(&text);
        let password = password.strip_suffix('\r').unwrap_or(password);
        match (text.len() as u64, password.is_empty()) {
            (PASSWORD_BYTES_MAX.., _) => Err(io::Error::other(format!("it has {PASSWORD_BYTES_MAX} bytes or more"))),
            (_, true) => Err(io::Error::other("it has no password")),
            _ => Ok(password.to_owned()),
        }
    };
    read().map_err(|error| CommandFailure::ours(format!("{origin}: cannot read {}: {error}", path.display())))
}
