//! Impossible requests give one clear line on stderr and exit code 125, never a panic and never a hang.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;

use crate::support::{Place, finish};

#[track_caller]
fn refuses<Argument: AsRef<OsStr>>(arguments: &[Argument], words: &[&str]) {
    Place::new().run(arguments).assert_refused(125, words);
}

#[test]
fn a_name_that_is_not_valid_is_refused_by_every_command() {
    let long = "x".repeat(201);
    let commands = "run NAME -- true; show NAME; wait NAME; show --watch NAME; revoke NAME; break NAME --token 1; \
                    freeze NAME --reason x; thaw NAME";
    for (name, word) in [("", "empty"), (&long, "200"), ("\x1b[2J", "control"), ("a\u{85}", "control")] {
        for command in commands.split("; ") {
            let arguments: Vec<_> = command.split(' ').map(|word| if word == "NAME" { name } else { word }).collect();
            refuses(&arguments, &["name", word]);
        }
    }
    let not_utf8 = [OsString::from("show"), OsString::from_vec(vec![b'a', 0xff])];
    refuses(&not_utf8, &["UTF-8"]);
}

#[test]
fn a_url_that_cannot_be_used_is_refused_with_the_place_it_comes_from() {
    let place = Place::new();
    for (url, word) in [
        ("zookeper://h1", "`zookeper:`"),
        ("file:/x?sync=no", "`sync`"),
        ("/var/lib/lockkeeper", "scheme"),
        ("file:/x\ny", "control"),
        ("file://host/x", "directory"),
        ("memory:x", "`memory:`"),
        ("file:/%zz", "%25"),
    ] {
        refuses(&["run", "--connect", url, "x", "--", "true"], &["--connect: ", word]);
        let ended = finish(place.command(&["run", "x", "--", "true"]).env("LOCKKEEPER_URL", url));
        ended.assert_refused(125, &["LOCKKEEPER_URL: ", word]);
    }
    for variable in ["LOCKKEEPER_URL", "LOCKKEEPER_CONFIG", "LOCKKEEPER_DIR"] {
        for arguments in [&["run", "x", "--", "true"][..], &["show", "x"], &["ls"]] {
            let ended = finish(place.command(arguments).env(variable, ""));
            ended.assert_refused(125, &[variable]);
        }
    }
}

#[test]
fn options_that_cannot_be_meant_are_refused_by_name() {
    for (options, words) in [
        (&["--restart", "-w", "0"][..], &["--restart", "--wait 0"][..]),
        (&["--restart", "--on-loss", "warn"], &["--restart", "--on-loss warn"]),
        (&["--min-hold", "2s", "--max-hold", "1s"], &["--min-hold 2s", "--max-hold 1s"]),
        (&["--json"], &["JSON"]),
    ] {
        refuses(&[&["run", "x"][..], options, &["--", "true"]].concat(), words);
    }
    refuses(&["wait", "x", "--json"], &["`wait` prints no JSON"]);
    refuses(&["top", "--json"], &["`top` prints no JSON"]);
    refuses(&["a\x1b[2J\nb"], &["lockkeeper"]);
    refuses::<&str>(&[], &["--help"]);
    refuses(&["check"], &["LOCKKEEPER_HOLD"]);
}

#[test]
fn a_directory_that_cannot_carry_locks_is_refused_by_its_name() {
    let place = Place::new();
    let file = place.file("plain", "");
    let below_a_file = file.join("x");
    let (file, below_a_file) = (file.to_str().unwrap(), below_a_file.to_str().unwrap());
    for (directory, named) in [
        (file, file),
        (below_a_file, file),
        ("/proc/none/x", "/proc"),
        ("/proc", "/proc"),
        ("/sys/kernel", "/sys/kernel"),
        ("locks", "absolute"),
    ] {
        for arguments in [&["run", "x", "--", "true"][..], &["run", "-n", "x", "--", "true"]] {
            let ended = finish(place.command(arguments).env("LOCKKEEPER_DIR", directory));
            ended.assert_refused(125, &[named]);
        }
    }
}

#[test]
fn a_config_file_that_cannot_be_used_is_refused_by_its_name() {
    let place = Place::new();
    for (text, word) in [("url = ''", "names no service"), ("url = 'zookeper://h1'", "`zookeper:`"), ("[[[", "line 1")]
    {
        let path = place.configure(text);
        place.run(&["run", "x", "--", "true"]).assert_refused(125, &[path.to_str().unwrap(), word]);
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
    let (place, other) = (Place::new(), Place::new());
    let run = r#""$LOCKKEEPER" run"#;
    let script = format!("{run} y -- true && {run} X -- true && {run} x --connect {} -- true", other.service());
    let ended = place.script("x", &script);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
}

#[test]
fn a_command_that_cannot_be_run_has_the_codes_of_a_shell() {
    let place = Place::new();
    for (command, code, words) in [
        ("no-such-command", 127, "lockkeeper: cannot run no-such-command: No such file or directory"),
        ("/nowhere/x", 127, "/nowhere/x"),
        ("", 127, ""),
        ("/etc/passwd", 126, "lockkeeper: cannot run /etc/passwd: Permission denied"),
        ("/", 126, "/"),
    ] {
        place.run(&["run", "x", "--", command]).assert_refused(code, &[words]);
    }
}

#[cfg(feature = "monitor")]
#[test]
fn gc_and_deadlocks_that_cannot_be_looked_for_are_refused() {
    let refusing = crate::unreachable::refusing();
    let briefly = format!("{refusing}?connect_timeout=1s");
    for (arguments, word) in [
        (&["gc", "x"][..], "unexpected argument"),
        (&["gc", "--connect", &briefly], "Connection refused"),
        (&["deadlocks", "--connect", &refusing], "Connection refused"),
        (&["deadlocks", "reports/"], "reports/"),
    ] {
        let ended = Place::new().run(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(125), ""), "{ended:?}");
        assert!(ended.stderr.lines().last().is_some_and(|line| line.contains(word)), "{ended:?}");
    }
}

#[cfg(not(all(feature = "monitor", feature = "top")))]
#[test]
fn what_is_not_in_a_build_names_its_feature() {
    let of_monitor =
        ["monitor", "deadlocks", "deadlocks --json", "gc", "gc --yes --json"].map(|line| (line, "monitor"));
    for (line, feature) in of_monitor.into_iter().chain([("top", "top")]) {
        if (feature == "monitor" && cfg!(feature = "monitor")) || (feature == "top" && cfg!(feature = "top")) {
            continue;
        }
        let arguments: Vec<_> = line.split(' ').collect();
        refuses(&arguments, &[arguments[0], &format!("feature `{feature}`")]);
    }
}
