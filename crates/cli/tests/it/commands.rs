//! The commands with real holders and waiters in other processes.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::terminal::Terminal;
use crate::support::{Holder, Place, Running, copy_program, finish, in_time};

#[test]
fn show_tells_who_holds_and_who_waits() {
    let place = Place::new();
    let holder = place.hold("nightly");
    let mut waiter = place.queue(&[], "nightly");

    let shown = place.show("nightly");
    assert_eq!(shown["name"], "nightly");
    assert_eq!(shown["kind"], "mutex");
    assert_eq!(shown["service"], json!(place.service()));
    let contenders = shown["contenders"].as_array().unwrap();
    let told: Vec<_> =
        contenders.iter().map(|one| json!([one["state"], one["mode"], one["owner"]["command"]])).collect();
    assert_eq!(json!(told), json!([["holder", "mutex", "sh"], ["waiter", "mutex", "true"]]));
    let token = |one: &Value| one["token"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(token(&contenders[0]) < token(&contenders[1]));
    assert_eq!(contenders[0]["owner"]["pid"], holder.process.id());

    let text = place.run(&["show", "nightly"]).stdout;
    assert!(text.starts_with(&format!("nightly (mutex, {})\n", place.service())), "{text}");
    assert!(text.contains(&format!("pid {} sh\n", holder.process.id())), "{text}");
    assert_eq!(text.lines().count(), 4);

    holder.end();
    assert_eq!(waiter.code(), Some(0));
    assert_eq!(place.contenders("nightly"), 0);
}

#[test]
fn a_free_lock_is_shown_empty() {
    let place = Place::new();
    let shown = place.show("unknown");
    assert_eq!(shown, json!({"name": "unknown", "kind": null, "service": place.service(), "contenders": []}));
    let text = place.run(&["show", "unknown"]);
    assert_eq!((text.code, text.stdout.lines().count()), (Some(0), 1));
    assert!(text.stdout.contains(&place.service()));
    assert_eq!(place.run(&["ls"]).stdout, "");
    assert_eq!(place.run(&["--json", "ls"]).stdout, "[]\n");
}

#[test]
fn ls_lists_the_locks_in_use_by_the_prefix_of_their_names() {
    let place = Place::new();
    let holders: Vec<_> = ["reports/a", "reports/b", "nightly"].map(|name| place.hold(name)).into();
    let names = |arguments: &[&str]| -> Vec<String> {
        place.json(arguments).as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["ls", "--json"]), ["nightly", "reports/a", "reports/b"]);
    assert_eq!(names(&["ls", "--json", "reports/"]), ["reports/a", "reports/b"]);
    assert_eq!(names(&["ls", "--json", "reports/c"]), Vec::<String>::new());
    let locks = place.json(&["ls", "--json", "nightly"]);
    assert_eq!((&locks[0]["kind"], &locks[0]["waiters"]), (&json!("mutex"), &json!(0)));
    assert_eq!(locks[0]["holders"][0]["owner"]["pid"], json!(holders[2].process.id()));
    let text = place.run(&["ls"]).stdout;
    assert_eq!(text.lines().count(), 4);
    assert!(text.starts_with("NAME "), "{text}");
    holders.into_iter().for_each(Holder::end);
}

#[test]
fn a_lock_in_use_is_not_waited_for_longer_than_asked() {
    let place = Place::new();
    let holder = place.hold("x");
    let attempt = |options: &[&str]| place.run(&[&["run"], options, &["x", "--", "echo", "ran"]].concat());
    for options in [&["-n"][..], &["-w", "0"], &["-w", "50ms"]] {
        attempt(options).assert_refused(124, &["lockkeeper: x (file:"]);
    }
    for (options, code) in [(&["-q", "-n", "-E", "0"][..], 0), (&["-q", "-w", "50ms", "-E", "75"], 75)] {
        let ended = attempt(options);
        assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (Some(code), "", ""));
    }
    assert_eq!(place.contenders("x"), 1, "no waiter that gave up stands in the queue");
    holder.end();
    assert_eq!(place.run(&["run", "-n", "x", "--", "echo", "ran"]).stdout, "ran\n");
}

#[test]
fn check_tells_the_command_whether_its_lock_is_held() {
    let place = Place::new();
    let ended = place.script("x", r#""$LOCKKEEPER" check --json; "$LOCKKEEPER" check; echo $? $LOCKKEEPER_TOKEN"#);
    let (json, rest) = ended.stdout.rsplit_once("}\n").unwrap();
    let checked: Value = serde_json::from_str(&format!("{json}}}")).unwrap();
    assert_eq!((&checked["held"], &checked["safe_for_ms"]), (&json!(true), &json!(null)));
    assert_eq!(rest, format!("0 {}\n", checked["token"].as_str().unwrap()));

    let hold = place.script("x", "echo $LOCKKEEPER_HOLD").stdout;
    let after = finish(place.command(&["check"]).env("LOCKKEEPER_HOLD", hold.trim_end()));
    assert_eq!((after.code, &*after.stdout, &*after.stderr), (Some(1), "", ""));

    let script = r#"while "$LOCKKEEPER" check; do echo $$ > child; sleep 0.05; done; "$LOCKKEEPER" check; exit 4$?"#;
    let outlives = place.start(&["--on-loss", "warn"], script);
    place.note("child");
    assert_eq!(place.run(&["break", "x", "--token", &place.token("x")]).code, Some(0));
    let ended = outlives.end();
    assert!(ended.code == Some(41) && ended.stderr.contains("lost"), "{ended:?}");
}

#[test]
fn the_command_sees_what_it_runs_under_and_its_own_url_and_config() {
    let place = Place::new();
    let script = r#"echo "$LOCKKEEPER_NAME|$LOCKKEEPER_URL|$LOCKKEEPER_CONFIG|$LOCKKEEPER_DIR"
        "$LOCKKEEPER" --connect "$SERVICE" --config "$OTHER" show --json "a b""#;
    let config = place.file("own.toml", "url = 'memory:'");
    let other = place.file("other.toml", "url = 'memory:'");
    let service = place.service();
    let mut command = place.command(&["run", "--connect", &*service, "a b", "--", "sh", "-c", script]);
    command.env("LOCKKEEPER_URL", "memory:").env("LOCKKEEPER_CONFIG", &config);
    command.env("SERVICE", &*service).env("OTHER", &other);
    let ended = finish(&mut command);
    let (line, shown) = ended.stdout.split_once('\n').unwrap();
    assert_eq!(line, format!("a b|memory:|{}|{}", config.display(), place.locks().display()));
    let shown: Value = serde_json::from_str(shown).unwrap();
    assert_eq!(shown["contenders"][0]["owner"]["command"], "sh");
}

#[test]
fn verbose_names_the_service() {
    let place = Place::new();
    let line = format!("lockkeeper: using {}", place.service());
    for arguments in [&["-v", "run", "x", "--", "true"][..], &["ls", "-v"], &["wait", "-v", "x"], &["show", "x", "-v"]]
    {
        let ended = place.run(arguments);
        assert_eq!(ended.stderr.lines().next(), Some(&*line), "{ended:?}");
        assert!(ended.stderr.lines().all(|line| line.starts_with("lockkeeper: ")), "{ended:?}");
    }
}

#[test]
fn a_service_that_needs_no_setup_says_so() {
    let place = Place::new();
    for arguments in [&["setup"][..], &["setup", "--print"]] {
        let ended = place.run(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(0), ""), "{ended:?}");
        assert!(ended.stderr.ends_with(" needs no setup\n"), "{ended:?}");
    }
}

#[test]
fn completions_and_manual_know_every_command() {
    let place = Place::new();
    let commands = "run hold fence ls show wait deadlocks monitor history top gc check revoke break freeze thaw \
                    capabilities doctor verify setup server completions man";
    let commands: Vec<_> = commands.split(' ').collect();
    let manual = place.run(&["man"]);
    assert_eq!((manual.code, &*manual.stderr), (Some(0), ""));
    let titles: Vec<_> =
        manual.stdout.lines().filter(|line| line.starts_with(".TH ")).map(|line| line.replace('\\', "")).collect();
    assert_eq!(titles.len(), 1 + commands.len(), "{titles:?}");
    for command in &commands {
        assert!(titles.iter().any(|title| title.starts_with(&format!(".TH lockkeeper-{command} "))), "{titles:?}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let completions = place.run(&["completions", shell]);
        assert_eq!(completions.code, Some(0));
        for command in &commands {
            assert!(completions.stdout.contains(command), "{shell} does not know {command}");
        }
    }
    let script = place.file("completions.bash", &place.run(&["completions", "bash"]).stdout);
    assert_eq!(finish(Command::new("bash").arg("-n").arg(script)).code, Some(0));
}

#[test]
fn a_reader_that_goes_away_is_not_a_failure() {
    let place = Place::new();
    let mut child = place.command(&["man"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = in_time("it ends", move || child.wait_with_output().unwrap());
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}

#[test]
fn a_signal_while_waiting_ends_the_wait_and_leaves_the_queue() {
    let place = Place::new();
    let holder = place.hold("x");
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        // The line is printed after the signals are caught.
        let waiter = Running::start(&mut place.command(&["run", "x", "--", "echo", "ran"]));
        let line = waiter.said();
        assert!(line.starts_with("lockkeeper: waiting for x "), "{line}");
        assert_eq!(place.contenders("x"), 2);
        waiter.send(signal);
        let ended = waiter.end();
        assert_eq!((ended.code, &*ended.stdout), (Some(code), ""));
        assert!(ended.stderr.starts_with("lockkeeper: x: ended by SIG"), "{ended:?}");
        assert_eq!(place.contenders("x"), 1);
    }
    holder.end();
    place.assert_nothing_left();
}

#[test]
fn a_wait_is_reported_once_where_there_is_no_terminal_and_not_at_all_if_quiet() {
    let place = Place::new();
    let holder = place.hold("x");
    let wait_for = |options: &[&str], time: &str| {
        let arguments = [&["run"], options, &["-w", time, "x", "--", "true"]].concat();
        place.run(&arguments).stderr
    };
    let said = wait_for(&[], "6s");
    let lines: Vec<_> = said.lines().collect();
    let start = format!("lockkeeper: waiting for x ({}): held by ", place.service());
    let pid = format!(" pid {} sh for ", holder.process.id());
    assert!(lines[0].starts_with(&start) && lines[0].contains(&pid), "{said}");
    let waited = lines[0].rsplit_once("; 1st in line, ").and_then(|(_, waited)| waited.strip_suffix('s'));
    assert!(waited.is_some_and(|seconds| seconds.parse::<u32>().is_ok()), "{said}");
    assert_eq!(lines.len(), 2, "and at the end that the lock was not acquired: {said}");
    assert_eq!(wait_for(&["-q"], "1.5s"), "");
}

#[test]
fn on_a_terminal_the_wait_is_one_live_line_that_is_erased() {
    let place = Place::new();
    let holder = place.hold("x");
    let mut command = place.command(&["run", "x", "--", "echo", "ran"]);
    command.env("TERM", "xterm");
    let mut terminal = Terminal::run(&command);
    let mut waited = 0;
    for _ in 0..2 {
        terminal.expect("\r\x1b[K\x1b[?7llockkeeper: waiting for x (");
        waited = terminal.expect_seconds_above(waited, "; 1st in line, ", "\x1b[?7h");
    }
    holder.end();
    terminal.expect("\r\x1b[Kran\r\n");
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn a_command_s_name_cannot_move_the_cursor_of_those_who_wait() {
    let place = Place::new();
    let script = place.file("script", "#!/bin/sh\necho held; read line\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&script, mode).unwrap();
    let program = script.with_file_name("evil\x1b[2J\nlockkeeper: granted");
    copy_program(&script, &program);
    let _holder = Holder::start(place.command(&["run", "x", "--"]).arg(&program));
    let said = place.run(&["run", "-w", "4s", "x", "--", "true"]).stderr;
    assert_eq!(said.lines().count(), 2, "{said}");
    for text in [said, place.run(&["show", "x"]).stdout, place.run(&["ls"]).stdout] {
        assert!(text.contains("evil"), "{text}");
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
    }
}

#[test]
fn a_lock_in_use_is_left_quietly_where_that_is_no_failure() {
    let place = Place::new();
    let holder = place.hold("x");
    for wait in [&["-n"][..], &["-w", "10ms"]] {
        let run = |options: &[&str]| place.run(&[&["run"], options, wait, &["-E", "0", "x", "--", "false"]].concat());
        let ended = run(&[]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{wait:?}");
        let told = run(&["-v"]);
        assert!(told.code == Some(0) && told.stderr.contains("the command was not run"), "{told:?}");
    }
    holder.end();
}
