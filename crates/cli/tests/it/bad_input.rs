//! What cannot be done gives one clear line on stderr and exit code 125, never a panic and never a hang.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::process::Command;

use crate::support::{Ended, Place, finish};

/// Checks that a command refused, in one line of ours; returns the line.
#[track_caller]
fn refused(ended: Ended, code: i32, words: &[&str]) -> String {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert_eq!(ended.stdout, "");
    let line = ended.stderr.strip_suffix('\n').unwrap_or_else(|| panic!("no whole line: {ended:?}"));
    assert!(line.starts_with("lockkeeper: ") && !line.contains(char::is_control), "{line:?}");
    for word in words {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
    line.to_owned()
}

#[track_caller]
fn refuses<Argument: AsRef<OsStr>>(arguments: &[Argument], words: &[&str]) {
    refused(Place::new().run(arguments), 125, words);
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
            refused(ended, 125, &["LOCKKEEPER_URL: ", word]);
        }
    }
    let place = Place::new();
    for variable in ["LOCKKEEPER_URL", "LOCKKEEPER_CONFIG", "LOCKKEEPER_DIR"] {
        for arguments in [&["run", "x", "--", "true"][..], &["show", "x"], &["ls"]] {
            let ended = finish(place.command(arguments).env(variable, ""));
            refused(ended, 125, &[variable]);
        }
    }
}

#[test]
fn options_that_cannot_be_read_are_refused_by_name() {
    for (options, words) in [
        (&["-w", "abc"][..], &["--wait", "`abc`", "500ms"][..]),
        (&["-w", "-1"], &["--wait", "`-1`"]),
        (&["-w", "a\nb"], &["--wait", "a\\nb"]),
        (&["--grace", "5 minutes"], &["--grace", "`5 minutes`"]),
        (&["-n", "-w", "1"], &["--no-wait", "--wait"]),
        (&["-E", "256"], &["--conflict-exit-code", "256"]),
        (&["-E", "-1"], &["--conflict-exit-code", "-1"]),
        (&["--on-loss", "explode"], &["--on-loss", "explode"]),
        (&["-s", "-x"], &["--shared", "--exclusive"]),
        (&["-s", "--permits", "2"], &["--shared", "--permits"]),
        (&["-x", "--permits", "2"], &["--exclusive", "--permits"]),
        (&["--permits", "0"], &["--permits", "0"]),
        (&["--permits", "-1"], &["--permits", "-1"]),
        (&["--permits", "many"], &["--permits", "digit"]),
        (&["--permits", "4294967296"], &["--permits", "4294967296"]),
        (&["--on-revoke", "explode"], &["--on-revoke", "explode"]),
        (&["--restart", "-n"], &["--restart", "--no-wait"]),
        (&["--restart", "-w", "0"], &["--restart", "--wait 0"]),
        (&["--restart", "--on-loss", "warn"], &["--restart", "--on-loss warn"]),
        (&["--max-hold", "0"], &["--max-hold"]),
        (&["--max-hold", "soon"], &["--max-hold", "`soon`"]),
        (&["--min-hold", "2s", "--max-hold", "1s"], &["--min-hold 2s", "--max-hold 1s"]),
        (&["--frobnicate"], &["--frobnicate"]),
        (&["--json"], &["JSON"]),
    ] {
        let arguments = [&["run", "x"][..], options, &["--", "true"]].concat();
        refuses(&arguments, words);
    }
    refuses(&["run", "x", "--"], &["after `--`"]);
    refuses(&["run", "x"], &["after `--`"]);
    refuses(&["run", "x", "true"], &["after `--`"]);
    refuses(&["run"], &["name"]);
    refuses(&["wait", "x", "-w", "soon"], &["`soon`"]);
    refuses(&["wait", "x", "--json"], &["`wait` prints no JSON"]);
    refuses(&["frobnicate"], &["frobnicate"]);
    refuses(&["a\x1b[2J\nb"], &["lockkeeper"]);
    refuses::<&str>(&[], &["--help"]);
}

#[test]
fn an_operators_orders_are_refused_without_what_they_need() {
    let long = "x".repeat(501);
    for (arguments, words) in [
        (&["break", "x"][..], &["no token given", "lockkeeper show"][..]),
        (&["break", "x", "--token", ""], &["--token"]),
        (&["break", "x", "--token", "abc"], &["--token"]),
        (&["break", "x", "--token", "-1"], &["--token"]),
        (&["break", "x", "--token", "18446744073709551615"], &["--token"]),
        (&["break", "--token", "1"], &["name"]),
        (&["freeze", "x"], &["no reason given", "--reason"]),
        (&["freeze", "x", "--reason", " "], &["--reason", "empty"]),
        (&["freeze", "x", "--reason", "a\x1b[2J"], &["--reason", "control"]),
        (&["freeze", "x", "--reason", &long], &["--reason", "501"]),
        (&["freeze", "x", "--reason", "y", "--kind", "barrier"], &["--kind", "barrier"]),
        (&["freeze", "x", "--reason", "y", "-w", "soon"], &["`soon`"]),
        (&["revoke", "x", "--reason", ""], &["--reason", "empty"]),
        (&["revoke", "x", "-w", "soon"], &["`soon`"]),
        (&["thaw"], &["name"]),
    ] {
        refuses(arguments, words);
    }
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
            refused(finish(place.command(arguments).env("LOCKKEEPER_DIR", directory)), 125, &[named]);
        }
    }
    let relative = finish(place.command(&["run", "x", "--", "true"]).env("LOCKKEEPER_DIR", "locks"));
    refused(relative, 125, &["LOCKKEEPER_DIR", "absolute"]);
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
        let ours = place.command(&arguments);
        let variables: Vec<_> = ours.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        command.env_clear().envs(variables);
        command
    } else {
        use std::os::unix::fs::PermissionsExt as _;

        std::fs::set_permissions(place.locks(), std::fs::Permissions::from_mode(0o500)).unwrap();
        place.command(&arguments)
    };
    refused(finish(&mut command), 125, &[directory]);
}

#[test]
fn a_config_file_that_cannot_be_used_is_refused_by_its_name() {
    let place = Place::new();
    for (text, words) in [
        ("", &["names no service", "url = "][..]),
        ("acquire_timeout = '3s'", &["names no service"]),
        ("url = 'file:/x'\nacquire_timeout = 5000", &["line 2", "write 5000ms or 5000s"]),
        ("url = 'zk://h1?session_timeout=30000'", &["`session_timeout`", "write 30000ms or 30000s"]),
        ("url = ''", &["names no service"]),
        ("url = 'file:/x'\nsession_timeout = '20s'", &["`session_timeout`"]),
        ("url = 'file:/x'\n[retry]\nbase_slep = 1", &["line 3", "`base_slep`"]),
        ("url = 'zookeper://h1'", &["`zookeper:`"]),
        ("url = \"file:/\u{1}\"", &[]),
        ("[[[", &["line 1"]),
    ] {
        let path = place.file(".config/lockkeeper/config.toml", text);
        let path = path.to_str().unwrap();
        refused(place.run(&["run", "x", "--", "true"]), 125, &[&[path], words].concat());
        refused(place.run(&["show", "x"]), 125, &[path]);
        let elsewhere = place.file("elsewhere.toml", text);
        let elsewhere = elsewhere.to_str().unwrap();
        refused(place.run(&["ls", "--config", elsewhere]), 125, &[elsewhere]);
    }
    refused(place.run(&["ls", "--config", "/nowhere.toml"]), 125, &["/nowhere.toml", "LOCKKEEPER_CONFIG"]);
    refused(place.run(&["ls", "--config", "/dev/zero"]), 125, &["/dev/zero"]);
}

#[test]
fn a_nested_run_of_the_same_lock_is_refused_at_any_depth() {
    let place = Place::new();
    let nested = place.script("x", r#"exec "$LOCKKEEPER" run x -- true"#);
    refused(nested, 125, &["x (file:", "itself"]);
    let deeper = place.script("x", r#"exec "$LOCKKEEPER" run y -- "$LOCKKEEPER" run x -- true"#);
    refused(deeper, 125, &["x (file:", "itself"]);
}

#[test]
fn a_nested_run_in_the_same_directory_by_another_name_is_refused() {
    let place = Place::new();
    let nested = place.script(
        "x",
        r#"ln -s "$LOCKKEEPER_DIR" "$HOME/link"; exec "$LOCKKEEPER" --connect "file:$HOME/link" run x -- true"#,
    );
    refused(nested, 125, &["x (file:", "itself"]);
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
    refused(place.run(&["run", "x", "--", "no-such-command"]), 127, &["no-such-command"]);
    refused(place.run(&["run", "x", "--", "/nowhere/x"]), 127, &["/nowhere/x"]);
    refused(place.run(&["run", "x", "--", ""]), 127, &[]);
    refused(place.run(&["run", "x", "--", "/etc/passwd"]), 126, &["/etc/passwd"]);
    refused(place.run(&["run", "x", "--", "/"]), 126, &["/"]);
}

#[test]
fn check_outside_of_a_run_cannot_tell() {
    let place = Place::new();
    refused(place.run(&["check"]), 125, &["LOCKKEEPER_HOLD"]);
    refused(finish(place.command(&["check"]).env("LOCKKEEPER_HOLD", "nonsense")), 125, &["cannot tell"]);
}

#[cfg(not(feature = "monitor"))]
#[test]
fn what_belongs_to_the_monitor_names_its_feature_in_a_build_without_it() {
    refuses(&["monitor"], &["monitor", "feature `monitor`"]);
    refuses(&["deadlocks"], &["deadlocks", "feature `monitor`"]);
    refuses(&["deadlocks", "--json"], &["deadlocks", "feature `monitor`"]);
}

#[cfg(not(feature = "monitor"))]
#[test]
fn gc_in_a_build_without_the_monitor_names_its_feature() {
    refuses(&["gc"], &["gc", "feature `monitor`"]);
    refuses(&["gc", "--yes", "--json"], &["gc", "feature `monitor`"]);
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
