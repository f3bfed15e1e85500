//! Needs of a test on this machine. Where one is missing, the test is skipped by the name that the harness gave to its
//! thread.

use std::path::Path;
use std::process::Command;
use std::thread;

use lockkeeper_faults::Availability;

/// Tells whether the test that asks may go on; if not, it is skipped.
pub(crate) fn can_run(needed: Availability) -> bool {
    needed.or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

/// Skips the test that asks.
pub(crate) fn skip(reason: &str) {
    assert!(!can_run(Availability::Missing(reason.to_owned())));
}

/// Tells whether a file of a Debian package is there.
pub(crate) fn has_file(path: &str, package: &str) -> bool {
    can_run(match Path::new(path).exists() {
        true => Availability::Present,
        false => Availability::Missing(format!("{path} is not there (Debian: {package})")),
    })
}

/// Tells whether a program is in `PATH`.
pub(crate) fn has_program(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        skip(&format!("{program} is not installed"));
    }
    is_there
}

/// Tells whether this is root, who alone does what the test does.
pub(crate) fn is_root(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(&format!("only root {what}"));
    }
    is_root
}
