//! Where settings are looked for: the environment, and the config files. `file` has what a file says.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::exit::CommandFailure;

/// The longest config file, in bytes: hundreds of times what its keys need.
const CONFIG_BYTES_MAX: u64 = 65_536;

pub(super) const EXAMPLE_URL: &str = "file:/var/lib/lockkeeper";

const SYSTEM_CONFIG: &str = "/etc/lockkeeper/config.toml";

pub(super) const URL_VARIABLE: &str = "LOCKKEEPER_URL";

const CONFIG_VARIABLE: &str = "LOCKKEEPER_CONFIG";

pub(super) struct ConfigPlaces<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<OsString>,
    pub(super) system_config: &'a Path,
}

impl ConfigPlaces<'static> {
    pub(super) fn here() -> Self {
        Self { variable: &|name| std::env::var_os(name), system_config: Path::new(SYSTEM_CONFIG) }
    }
}

impl ConfigPlaces<'_> {
    pub(super) fn url(&self) -> Result<Option<String>, CommandFailure> {
        let Some(url) = (self.variable)(URL_VARIABLE) else { return Ok(None) };
        if url.is_empty() {
            return Err(CommandFailure::ours(format!(
                "{URL_VARIABLE} is empty; unset it for the default service, or name one, such as {EXAMPLE_URL}"
            )));
        }
        let url = url.into_string().map_err(|_| CommandFailure::ours(format!("{URL_VARIABLE} is not UTF-8")))?;
        Ok(Some(url))
    }

    /// Returns what a variable says, if it is set.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, CommandFailure> {
        match (self.variable)(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) if !text.is_empty() => Ok(Some(text)),
            Some(Ok(_)) => Err(CommandFailure::ours(format!("{name} is empty; unset it, or give it a value"))),
            Some(Err(_)) => Err(CommandFailure::ours(format!("{name} is not UTF-8"))),
        }
    }

    pub(super) fn named(&self, option: Option<&Path>) -> Result<Option<PathBuf>, CommandFailure> {
        match (option, (self.variable)(CONFIG_VARIABLE)) {
            (Some(path), _) => Ok(Some(path.to_owned())),
            (None, Some(path)) if path.is_empty() => {
                Err(CommandFailure::ours(format!("{CONFIG_VARIABLE} is empty; unset it, or name a config file")))
            }
            (None, path) => Ok(path.map(PathBuf::from)),
        }
    }

    /// Returns the path of the user's config file. A relative path is ignored, as the XDG specification has it.
    pub(super) fn user_config(&self) -> Option<PathBuf> {
        let directory = |name| (self.variable)(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config_home =
            directory("XDG_CONFIG_HOME").or_else(|| directory("HOME").map(|home| home.join(".config")))?;
        Some(config_home.join("lockkeeper/config.toml"))
    }
}

pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > CONFIG_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {CONFIG_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Whether a file that nothing names is left out: it is not there, or it is another user's, as where `HOME` is. What
/// must be read is named.
pub(super) fn is_none_of_ours(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> CommandFailure {
    let path = path.display();
    CommandFailure::ours(format!(
        "cannot read the config file {path}: {error}; correct it, or name another with --config or {CONFIG_VARIABLE}"
    ))
}
