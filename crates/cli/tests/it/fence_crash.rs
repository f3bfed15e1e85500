//! The file of a fence over a crash of the machine: a disk in a file is copied while it is in use, and what the copy
//! has is what the machine would find after a loss of power.

use std::process::Command;

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::support::{Ended, finish, skip};

/// What is written without a flush is not on the disk, which shows that the copy is that of a crash.
const SCRIPT: &str = r#"
    truncate -s 16M disk
    mkfs.ext4 -q -F disk
    mkdir used crashed
    mount -o loop,commit=300 disk used
    fence() { LOCKKEEPER_NAME=x LOCKKEEPER_TOKEN=$1 "$LOCKKEEPER" fence "$2" -- true; }
    fence 41 used/tokens
    fence 42 used/tokens
    echo lost > used/unflushed
    cp disk copy
    mount -o loop copy crashed
    test ! -s crashed/unflushed
    cat crashed/tokens
    fence 41 crashed/tokens || echo $?"#;

/// Runs a script in a mount namespace, in an empty directory.
fn play(script: &str) -> Ended {
    let directory = TempDir::new().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script]).current_dir(directory.path());
    finish(command.env("LOCKKEEPER", env!("CARGO_BIN_EXE_lockkeeper")))
}

fn is_possible() -> bool {
    let mount = "truncate -s 16M disk && mkfs.ext4 -q -F disk && mkdir used && mount -o loop disk used";
    let can_unshare = geteuid().is_root() && Command::new("unshare").arg("--version").output().is_ok();
    let possible = can_unshare && play(mount).code == Some(0);
    if !possible {
        skip("a file cannot be mounted as a disk here");
    }
    possible
}

#[test]
fn a_token_that_passed_is_on_the_disk_before_its_command_runs() {
    if !is_possible() {
        return;
    }
    let ended = play(SCRIPT);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "x 42\n123\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("was overtaken"), "{}", ended.stderr);
}
