//! Installing kazoo's tests and what they need, pinned, below the target directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lockkeeper_faults::Availability;

const REQUIREMENTS: &str = include_str!("requirements.txt");
/// Set, to anything but nothing, it allows the tests to install from PyPI what they need.
const INSTALL_VARIABLE: &str = "LOCKKEEPER_TEST_INSTALL";

/// Where the packages lie.
pub(crate) fn packages() -> PathBuf {
    let checksum = crc32fast::hash(REQUIREMENTS.as_bytes());
    folder().join(format!("packages-{checksum:08x}"))
}

/// Whether they are there; installs them first if that is asked for.
pub(crate) fn availability() -> Availability {
    let asked = std::env::var_os(INSTALL_VARIABLE).is_some_and(|value| !value.is_empty());
    if !asked && !packages().exists() {
        let why = format!("kazoo's tests are not installed (set {INSTALL_VARIABLE}=1 to let the tests do it)");
        return Availability::Missing(why);
    }
    match install() {
        Ok(()) => Availability::Present,
        Err(why) => Availability::Missing(why),
    }
}

/// Makes the folder of packages unless it is there; never seen half-made, by other processes neither.
fn install() -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    fs::create_dir_all(folder()).map_err(told)?;
    let gate = File::create(folder().join("gate")).map_err(told)?;
    gate.lock().map_err(told)?;
    if packages().exists() {
        return Ok(());
    }
    let making = packages().with_extension("making");
    // What a killed run left there.
    let _ = fs::remove_dir_all(&making);
    fs::create_dir(&making).map_err(told)?;
    let requirements = making.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(told)?;
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(["--no-deps", "--only-binary=:all:", "--require-hashes"])
        .args(["--target".as_ref(), making.as_os_str()])
        .args(["--requirement".as_ref(), requirements.as_os_str()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("python3 -m pip: {error}"))?;
    if !output.status.success() {
        return Err(format!("pip: {}", String::from_utf8_lossy(&output.stderr)));
    }
    fs::rename(&making, packages()).map_err(told)
}

fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    target.join("lockkeeper-kazoo-suite")
}
