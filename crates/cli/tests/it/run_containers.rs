//! `lockkeeper run` in several containers with one directory, and with two that only look like one.
//!
//! A container is a namespace of mounts, processes and host names, with the directory mounted where no other has it.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::support::{ended, eventually, finish, skip};

/// How often each container counts up.
const TURNS: u32 = 20;

/// Mounts the shared directory at a place that no other container has, and runs a script there as `$1`.
const FRAME: &str = r#"
    hostname "$1"
    mkdir "$1"
    mount --bind shared "$1"
    export LOCKKEEPER_DIR="$PWD/$1/locks"
    cd "$1"
    sh -ec "$2""#;

fn contain(directory: &TempDir, name: &str, script: &str) -> Child {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["sh", "-ec", FRAME, "sh", name, script]).current_dir(directory.path());
    command.env("LOCKKEEPER", env!("CARGO_BIN_EXE_lockkeeper")).stdin(Stdio::null());
    command.spawn().unwrap()
}

/// A directory with one for all containers; skips the test where none can be made.
fn shared() -> Option<TempDir> {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("shared")).unwrap();
    let unshare = Command::new("unshare").arg("--version").output().is_ok();
    if geteuid().is_root() && unshare && ended(&mut contain(&directory, "probe", "true")).success() {
        return Some(directory);
    }
    skip("namespaces are not available");
    None
}

#[test]
fn containers_with_one_directory_at_different_places_count_without_losing_one() {
    let Some(directory) = shared() else { return };
    fs::write(directory.path().join("shared/sum"), "0").unwrap();
    let add = "read -r sum < sum || true; echo $((sum + 1)) > sum";
    let script = format!("for turn in $(seq {TURNS}); do \"$LOCKKEEPER\" run sum -- sh -c '{add}'; done");
    let mut containers = ["ann", "bob", "eve"].map(|name| contain(&directory, name, &script));
    assert!(containers.iter_mut().all(|container| ended(container).success()));
    let sum = fs::read_to_string(directory.path().join("shared/sum")).unwrap();
    assert_eq!(sum.trim(), (3 * TURNS).to_string());
}

#[test]
fn when_a_container_is_killed_the_lock_passes_to_another() {
    let Some(directory) = shared() else { return };
    let held = "exec \"$LOCKKEEPER\" run door -- sh -c 'echo > held; exec sleep 600'";
    let mut holder = contain(&directory, "ann", held);
    eventually("ann holds", || directory.path().join("shared/held").exists().then_some(()));
    assert_eq!(ended(&mut contain(&directory, "bob", "\"$LOCKKEEPER\" run -n door -- true")).code(), Some(124));
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(ended(&mut contain(&directory, "eve", "\"$LOCKKEEPER\" run door -- true")).success());
}

/// The rule that the page states, and no wish: each of both is another file to the kernel.
#[test]
fn an_overlay_and_its_upper_directory_grant_one_lock_each() {
    let Some(directory) = shared() else { return };
    let overlay = "mkdir lower upper work merged
        mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged || exit 77
        LOCKKEEPER_DIR=$PWD/merged/locks \"$LOCKKEEPER\" run door -- \
            env LOCKKEEPER_DIR=$PWD/upper/locks \"$LOCKKEEPER\" run -n door -- true";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", overlay]).current_dir(directory.path());
    let ended = finish(command.env("LOCKKEEPER", env!("CARGO_BIN_EXE_lockkeeper")));
    if ended.code == Some(77) {
        return skip("no overlay can be mounted here");
    }
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
