//! Starting kazoo's driver, and installing kazoo from PyPI where that is asked for.
//!
//! kazoo goes into a folder of its own in the target directory (`pip install --target`), so that it works alike with a
//! system Python that may not be written to and with any other, and changes neither.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::Peer;
use super::cache::{self, Files};
use crate::{Availability, Error, Result, process};

const SOURCES: Files = &[
    ("ground.py", include_str!("../../peers/kazoo/ground.py")),
    ("kazoo_peer.py", include_str!("../../peers/kazoo/kazoo_peer.py")),
    ("locks.py", include_str!("../../peers/kazoo/locks.py")),
];
const REQUIREMENTS: Files = &[("requirements.txt", include_str!("../../peers/kazoo/requirements.txt"))];

/// Set, to anything but nothing, it allows the tests to install from PyPI what they need.
const INSTALL_VARIABLE: &str = "LOCKKEEPER_TEST_INSTALL";

/// Whether kazoo can be driven here; installs it first if that is asked for.
pub fn availability() -> Availability {
    process::availability().and(|| Availability::of_programs(&["python3"], "python3")).and(|| match python_path() {
        Ok(_) => Availability::Present,
        Err(error) => Availability::Missing(error.to_string()),
    })
}

/// The folder that holds the package `kazoo`, for `PYTHONPATH`. Installed on first use if the environment variable
/// `LOCKKEEPER_TEST_INSTALL` is set; needs `python3 -m pip` then (Debian: `python3-pip`).
///
/// # Errors
///
/// It is not there and installing was not asked for, or pip failed.
pub fn python_path() -> Result<PathBuf> {
    let path = cache::path("kazoo", REQUIREMENTS);
    let asked = env::var_os(INSTALL_VARIABLE).is_some_and(|value| !value.is_empty());
    if !asked && !path.exists() {
        return Err(Error::new(format!("kazoo is not installed for the tests (set {INSTALL_VARIABLE}=1 to let them)")));
    }
    cache::made(path, |folder| {
        cache::write(folder, REQUIREMENTS)?;
        let output = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--only-binary=:all:", "--require-hashes"])
            .args(["--target".as_ref(), folder.as_os_str()])
            .args(["--requirement".as_ref(), folder.join("requirements.txt").as_os_str()])
            .stdin(Stdio::null())
            .output()
            .map_err(Error::io("python3 -m pip"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::new(format!("pip: {}", String::from_utf8_lossy(&output.stderr)))),
        }
    })
}

/// Starts kazoo with a session at `connect` and waits until it stands.
///
/// # Errors
///
/// As [`python_path`]; or it has no session within a minute.
pub async fn start(connect: &str, session_timeout: Duration) -> Result<Peer> {
    let driver = cache::made(cache::path("kazoo-peer", SOURCES), |folder| cache::write(folder, SOURCES))?;
    let mut command = process::command("python3");
    command.env("PYTHONPATH", python_path()?).arg(driver.join("kazoo_peer.py"));
    Peer::start("kazoo", command, connect, session_timeout).await
}
