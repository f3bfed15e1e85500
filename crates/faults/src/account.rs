//! The account under which servers run that refuse to run as root.

use std::os::unix::fs::chown;
use std::path::Path;

use crate::{Error, Result};

/// The user and group `nobody` of every Linux, which have no rights anywhere.
const POWERLESS: u32 = 65_534;

/// What `setpriv` is told, so that a program runs under this account: nothing, unless we are root.
pub(crate) fn privileges() -> Vec<String> {
    match is_another() {
        true => {
            vec![format!("--reuid={POWERLESS}"), format!("--regid={POWERLESS}"), "--clear-groups".to_owned()]
        }
        false => Vec::new(),
    }
}

/// Makes a file or folder belong to this account.
pub(crate) fn give(path: &Path) -> Result<()> {
    match is_another() {
        true => chown(path, Some(POWERLESS), Some(POWERLESS)).map_err(Error::io(path.display())),
        false => Ok(()),
    }
}

fn is_another() -> bool {
    rustix::process::geteuid().is_root()
}
