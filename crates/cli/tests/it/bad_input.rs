//! What cannot be done gives one clear line on stderr and exit code 125, never a panic and never a hang.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::process::Command;

use crate::support::{Place, finish};

#[track_caller]
fn refuses<Argument: AsRef<OsStr>>(arguments: &[Argument], words: &[&str]) {
    Place::new().run(arguments).assert_refused(125, words);
}

#[test]
fn a_name_that_is_not_valid_is_refused_by_every_command() {
    let long = "x".repeat(201);
    for (name, word) in [
        ("", "empty"),
        (&*long, "200"),
        ("a\nb", "control"),
        ("\x1b[2J", "control"),
        ("a\u{85}", "control"),
        ("\t", "control"),
    ] {
        refuses(&["run", name, "--", "true"], &["name", word]);
        refuses(&["show", name], &["name", word]);
        refuses(&["wait", name], &["name", word]);
        refuses(&["show", "--watch", name], &["name", word]);
        refuses(&["revoke", name], &["name", word]);
        refuses(&["break", name, "--token", "1"], &["name", word]);
        refuses(&["freeze", name, "--reason", "x"], &["name", word]);
        refuses(&["thaw", name], &["name", word]);
    }
    let not_utf8 = [OsString::from("show"), OsString::from_vec(vec![b'a', 0xff])];
    refuses(&not_utf8, &["UTF-8"]);
}

#[test]
fn a_url_that_cannot_be_used_is_refused_with_the_place_it_comes_from() {
    for (url, word) in [
        ("zookeper://h1", "`zookeper:`"),
        ("file:/x?sync=no", "`sync`"),
        ("/var/lib/lockkeeper", "scheme"),
        ("", "scheme"),
        ("file:/x\ny", "control"),
        ("file://host/x", "directory"),
        ("memory:x", "`memory:`"),
        ("file:/%zz", "%25"),
    ] {
        refuses(&["run", "--connect", url, "x", "--", "true"], &["--connect: ", word]);
        if !url.is_empty() {
            let place = Place::new();
            let ended = finish(place.command(&["run", "x", "--", "true"]).env("LOCKKEEPER_URL", url));
            ended.assert_refused(125, &["LOCKKEEPER_URL: ", word]);
        }
    }
    let place = Place::new();
    for variable in ["LOCKKEEPER_URL", "LOCKKEEPER_CONFIG", "LOCKKEEPER_DIR"] {
        for arguments in [&["run", "x", "--", "true"][..], &["show", "x"], &["ls"]] {
            let ended = finish(place.command(arguments).env(variable, ""));
            ended.assert_refused(125, &[variable]);
        }
    }
}

#[test]
fn options_that_cannot_be_read_are_refused_by_name() {
    for (options, words) in [
        (&["-w", "abc"][..], &["--wait", "`abc`", "500ms"][..]),
        (&["-w", "a\nb"], &["--wait", "a\\nb"]),
        (&["--grace", "5 minutes"], &["--grace", "`5 minutes`"]),
        (&["--restart", "-w", "0"], &["--restart", "--wait 0"]),
        (&["--restart", "--on-loss", "warn"], &["--restart", "--on-loss warn"]),
        (&["--min-hold", "2s", "--max-hold", "1s"], &["--min-hold 2s", "--max-hold 1s"]),
        (&["--json"], &["JSON"]),
    ] {
        refuses(&[&["run", "x"][..], options, &["--", "true"]].concat(), words);
    }
    refuses(&["wait", "x", "--json"], &["`wait` prints no JSON"]);
    refuses(&["break", "x"], &["no token given", "lockkeeper show"]);
    refuses(&["freeze", "x"], &["no reason given", "--reason"]);
    refuses(&["freeze", "x", "--reason", " "], &["--reason", "empty"]);
    refuses(&["a\x1b[2J\nb"], &["lockkeeper"]);
    refuses::<&str>(&[], &["--help"]);
}

#[test]
fn a_directory_that_cannot_carry_locks_is_refused_by_its_name() {
    let place = Place::new();
    let file = place.file("plain", "");
    let below_a_file = place.file("plain", "").join("x");
    let (file, below_a_file) = (file.to_str().unwrap(), below_a_file.to_str().unwrap());
    for (directory, named) in [
        (file, file),
        (below_a_file, file),
        ("/proc/none/x", "/proc/none"),
        ("/proc", "/proc"),
        ("/sys/kernel", "/sys/kernel"),
    ] {
        for arguments in [&["run", "x", "--", "true"][..], &["run", "-n", "x", "--", "true"]] {
            finish(place.command(arguments).env("LOCKKEEPER_DIR", directory)).assert_refused(125, &[named]);
        }
    }
    let relative = finish(place.command(&["run", "x", "--", "true"]).env("LOCKKEEPER_DIR", "locks"));
    relative.assert_refused(125, &["LOCKKEEPER_DIR", "absolute"]);
}

/// A file system that is mounted read-only stops root too.
#[test]
fn a_directory_that_may_not_be_written_is_refused_by_its_name() {
    let place = Place::new();
    let directory = place.locks().to_str().unwrap();
    let arguments = ["run", "x", "--", "true"];
    let mut command = if rustix::process::geteuid().is_root() {
        let script = r#"mount -t tmpfs -o ro none "$LOCKKEEPER_DIR" && exec "$LOCKKEEPER" "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).args(arguments);
        place.surround(&mut command);
        command
    } else {
        use std::os::unix::fs::PermissionsExt as _;

        std::fs::set_permissions(place.locks(), std::fs::Permissions::from_mode(0o500)).unwrap();
        place.command(&arguments)
    };
    finish(&mut command).assert_refused(125, &[directory]);
}

#[test]
fn a_config_file_that_cannot_be_used_is_refused_by_its_name() {
    let place = Place::new();
    for (text, words) in [
        ("", &["names no service", "url = "][..]),
        ("url = 'zk://h1?session_timeout=30000'", &["`session_timeout`", "write 30000ms or 30000s"]),
        ("url = 'file:/x'\nsession_timeout = '20s'", &["`session_timeout`"]),
        ("url = 'zookeper://h1'", &["`zookeper:`"]),
        ("url = \"file:/\u{1}\"", &[]),
        ("[[[", &["line 1"]),
    ] {
        let path = place.file(".config/lockkeeper/config.toml", text);
        let path = path.to_str().unwrap();
        place.run(&["run", "x", "--", "true"]).assert_refused(125, &[&[path], words].concat());
        place.run(&["show", "x"]).assert_refused(125, &[path]);
        let elsewhere = place.file("elsewhere.toml", text);
        let elsewhere = elsewhere.to_str().unwrap();
        place.run(&["ls", "--config", elsewhere]).assert_refused(125, &[elsewhere]);
    }
    place.run(&["ls", "--config", "/nowhere.toml"]).assert_refused(125, &["/nowhere.toml", "LOCKKEEPER_CONFIG"]);
    place.run(&["ls", "--config", "/dev/zero"]).assert_refused(125, &["/dev/zero"]);
}

#[test]
fn a_nested_run_of_the_same_lock_is_refused_at_any_depth_and_by_another_name_of_the_directory() {
    for script in [
        r#"exec "$LOCKKEEPER" run y -- "$LOCKKEEPER" run x -- true"#,
        r#"ln -s "$LOCKKEEPER_DIR" "$HOME/link"; exec "$LOCKKEEPER" --connect "file:$HOME/link" run x -- true"#,
    ] {
        Place::new().script("x", script).assert_refused(125, &["x (file:", "itself"]);
    }
}

#[test]
fn a_nested_run_of_another_lock_or_in_another_service_is_not_refused() {
    let place = Place::new();
    let other = Place::new();
    let run = r#""$LOCKKEEPER" run"#;
    let script = format!(
        "{run} y -- true && {run} X -- true && {run} x --connect {} -- true && LOCKKEEPER_DIR={} {run} x -- true",
        other.service(),
        other.locks().display(),
    );
    let ended = place.script("x", &script);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
}

#[test]
fn what_a_run_left_in_the_background_may_take_the_lock_again() {
    let place = Place::new();
    // Once the run is over, its stderr is closed with the last process that has it: the one in the background.
    let script = r#"
        (while "$LOCKKEEPER" check; do sleep 0.01; done; "$LOCKKEEPER" run x -- echo again >&2) >/dev/null &
        true"#;
    let ended = place.script("x", script);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), "again\n"));
}

#[test]
fn a_command_that_cannot_be_run_has_the_codes_of_a_shell() {
    let place = Place::new();
    let missing = place.run(&["run", "x", "--", "no-such-command"]);
    let line = missing.assert_refused(127, &[]);
    assert_eq!(line, "lockkeeper: cannot run no-such-command: No such file or directory");
    place.run(&["run", "x", "--", "/nowhere/x"]).assert_refused(127, &["/nowhere/x"]);
    place.run(&["run", "x", "--", ""]).assert_refused(127, &[]);
    let plain = place.run(&["run", "x", "--", "/etc/passwd"]);
    assert_eq!(plain.assert_refused(126, &[]), "lockkeeper: cannot run /etc/passwd: Permission denied");
    place.run(&["run", "x", "--", "/"]).assert_refused(126, &["/"]);
}

#[test]
fn check_outside_of_a_run_cannot_tell() {
    let place = Place::new();
    place.run(&["check"]).assert_refused(125, &["LOCKKEEPER_HOLD"]);
    finish(place.command(&["check"]).env("LOCKKEEPER_HOLD", "nonsense")).assert_refused(125, &["cannot tell"]);
}

#[cfg(feature = "monitor")]
#[test]
fn gc_and_deadlocks_that_cannot_be_looked_for_are_refused() {
    let refusing = crate::unreachable::refusing();
    let briefly = format!("{refusing}?connect_timeout=1s");
    for (arguments, word) in [
        (&["gc", "x"][..], "unexpected argument"),
        (&["gc", "--connect", "zk://"], "zk://"),
        (&["gc", "--json", "--connect", &briefly], "Connection refused"),
        (&["deadlocks", "--connect", &refusing], "Connection refused"),
        (&["deadlocks", "--fast"], "--fast"),
        (&["deadlocks", "reports/"], "reports/"),
    ] {
        let ended = Place::new().run(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(125), ""), "{ended:?}");
        assert!(ended.stderr.starts_with("lockkeeper: ") && ended.stderr.contains(word), "{ended:?}");
        assert!(ended.stderr.lines().count() == 1 || arguments[0] == "gc", "{ended:?}");
    }
}

#[cfg(not(feature = "monitor"))]
#[test]
fn what_belongs_to_the_monitor_names_its_feature_in_a_build_without_it() {
    for arguments in [&["monitor"][..], &["deadlocks"], &["deadlocks", "--json"], &["gc"], &["gc", "--yes", "--json"]] {
        refuses(arguments, &[arguments[0], "feature `monitor`"]);
    }
}

#[cfg(not(feature = "top"))]
#[test]
fn top_in_a_build_without_it_names_its_feature() {
    refuses(&["top"], &["top", "feature `top`"]);
}

#[test]
fn top_prints_no_json() {
    refuses(&["top", "--json"], &["`top` prints no JSON"]);
}
