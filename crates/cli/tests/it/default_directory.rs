//! Where the locks lie when no service is named, for the users that services run as. Each runs in a separate mount
//! namespace, so that nothing of the machine's `/var/tmp` and homes is touched.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::support::{Ended, copy_command, finish, is_root, skip};

/// Users that services run as: their homes are missing, or root's.
const USERS: [&str; 4] = ["www-data", "nobody", "games", "daemon"];

/// A copy of the command that every user may run.
struct Stage {
    parent: TempDir,
}

impl Stage {
    /// Prepares the stage; skips the test unless this is root, since only root can play other users.
    fn set() -> Option<Self> {
        if !is_root("plays other users") {
            return None;
        }
        let parent = TempDir::new().unwrap();
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let stage = Self { parent };
        copy_command(&stage.program());
        if stage.play("nobody", "true", "true").code == Some(0) {
            return Some(stage);
        }
        skip("mount namespaces or setpriv are not available");
        None
    }

    fn program(&self) -> PathBuf {
        self.parent.path().join("lockkeeper")
    }

    /// Runs a script as another user, after root has run one, where `/var/tmp` is empty and private.
    fn play(&self, user: &str, by_root: &str, script: &str) -> Ended {
        let frame = r#"
            set -e
            mount -t tmpfs -o mode=1777 tmpfs /var/tmp
            user=$1; group=$(id -g "$user"); uid=$(id -u "$user")
            export uid
            sh -ec "$2"
            exec setpriv --reuid "$uid" --regid "$group" --clear-groups -- sh -ec "$3""#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", frame, "sh", user, by_root, script]).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("LOCKKEEPER", self.program());
        finish(&mut command)
    }
}

#[test]
fn users_of_services_have_their_locks_in_var_tmp_open_to_them_alone() {
    let Some(stage) = Stage::set() else { return };
    // A second run meets the first one's directory. What is in the environment must not split a user's locks.
    let script = r#"
        umask 002
        "$LOCKKEEPER" run x -- echo first
        HOME=/tmp "$LOCKKEEPER" run x -- "$LOCKKEEPER" run -n x -- true 2>/dev/null && exit 7
        stat -c '%n %a %u' /var/tmp/*"#;
    for user in USERS {
        let ended = stage.play(user, "true", script);
        let uid = stage.play(user, "true", "id -u").stdout;
        let expected = format!("first\n/var/tmp/lockkeeper-{} 700 {uid}", uid.trim());
        assert_eq!((ended.code, ended.stdout), (Some(0), expected), "{user}: {}", ended.stderr);
    }
}

#[test]
fn a_directory_in_var_tmp_that_may_be_another_users_is_refused_with_the_cure() {
    let Some(stage) = Stage::set() else { return };
    for (by_root, why) in [
        ("mkdir -m 777 /var/tmp/lockkeeper-$uid", "belongs to another user"),
        ("mkdir -m 777 /var/tmp/real; ln -s real /var/tmp/lockkeeper-$uid", "is not a directory"),
        // The link's own owner does not make its target ours.
        (
            "mkdir -m 777 /var/tmp/real; ln -s real /var/tmp/lockkeeper-$uid; chown -h $uid /var/tmp/lockkeeper-$uid",
            "is not",
        ),
        ("touch /var/tmp/lockkeeper-$uid", "is not a directory"),
    ] {
        let ended = stage.play("nobody", by_root, r#""$LOCKKEEPER" run x -- true"#);
        assert_eq!(ended.code, Some(125), "{by_root}: {ended:?}");
        for part in ["/var/tmp/lockkeeper-65534", why, "LOCKKEEPER_DIR", "--connect file:DIR"] {
            assert!(ended.stderr.contains(part), "{part} is not in: {}", ended.stderr);
        }
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn a_home_that_was_used_stays_in_use_when_it_can_no_longer_be_written() {
    let Some(stage) = Stage::set() else { return };
    let home = "mkdir -p /var/tmp/home; mount -t tmpfs tmpfs /usr/games; chown $uid /usr/games";
    let ended =
        stage.play("games", home, r#""$LOCKKEEPER" run x -- true; ls -A /var/tmp; ls -d /usr/games/.local/*/*"#);
    let shown = "home\n/usr/games/.local/state/lockkeeper\n";
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), shown), "{}", ended.stderr);
    // A move to another place now would split the locks of processes that run already.
    let then = "mkdir -p /usr/games/.local/state/lockkeeper; chown -R $uid /usr/games; mount -o remount,ro /usr/games";
    let ended = stage.play("games", &format!("{home}; {then}"), r#""$LOCKKEEPER" run x -- true"#);
    assert_eq!(ended.code, Some(125), "{ended:?}");
    for part in ["/usr/games/.local/state/lockkeeper", "LOCKKEEPER_DIR", "--connect file:DIR"] {
        assert!(ended.stderr.contains(part), "{part} is not in: {}", ended.stderr);
    }
}

#[test]
fn the_environment_of_another_user_is_left_alone_and_a_file_that_is_named_must_be_readable() {
    let Some(stage) = Stage::set() else { return };
    let config = "/var/tmp/other/.config/lockkeeper/config.toml";
    let closed = format!("install -D -m 600 /dev/null {config}; echo 'url = 3' > {config}; chmod 700 /var/tmp/other");
    let run = r#"HOME=/var/tmp/other "$LOCKKEEPER" --connect file:/var/tmp/locks run x -- echo runs"#;
    let ended = stage.play("nobody", &closed, run);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "runs\n", ""));
    let in_sight = format!("{closed}; chmod 755 /var/tmp/other");
    let ended = stage.play("nobody", &in_sight, run);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "runs\n"), "{ended:?}");
    assert!(ended.stderr.contains(config) && ended.stderr.contains("is left out"), "{ended:?}");
    let named = format!("LOCKKEEPER_CONFIG={config} {run}");
    stage.play("nobody", &in_sight, &named).assert_refused(125, &["cannot read the config file", config]);
}

#[test]
fn each_refusal_of_a_directory_names_the_ways_to_another_one() {
    let Some(stage) = Stage::set() else { return };
    let by_variable = ["relative", "", "/etc/locks", "/etc", "/etc/passwd", "/proc/self"];
    let by_variable = by_variable.map(|given| format!(r#"LOCKKEEPER_DIR={given} "$LOCKKEEPER" run x -- true"#));
    let by_option = r#""$LOCKKEEPER" --connect file:/boot/locks run x -- true"#.to_owned();
    for script in by_variable.into_iter().chain([by_option]) {
        let ended = stage.play("nobody", "true", &script);
        ended.assert_refused(125, &["LOCKKEEPER_DIR", "--connect file:DIR"]);
    }
}
