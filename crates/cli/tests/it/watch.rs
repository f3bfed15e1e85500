//! `show --watch`: a lock that is shown again at each change.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::terminal::{CTRL_C, Terminal};
use crate::support::{Place, Running, ended};

/// A watch under way, and what it prints.
struct Watch {
    itself: Running,
}

impl Watch {
    fn start(place: &Place, options: &[&str]) -> Self {
        Self { itself: Running::start(&mut place.command(&[&["show", "x", "--watch"], options].concat())) }
    }

    fn line(&self) -> String {
        self.itself.line()
    }

    /// The states and modes of the next change.
    fn change(&self) -> Vec<String> {
        let line = self.line();
        let shown: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let list = shown["contenders"].as_array().unwrap();
        list.iter().map(|one| format!("{} {}", one["state"], one["mode"]).replace('"', "")).collect()
    }

    fn end(self) {
        self.itself.send(Signal::TERM);
        let ended = self.itself.end();
        assert_eq!((ended.code, &*ended.stderr), (Some(143), ""));
    }
}

#[test]
fn each_change_is_one_line_of_json() {
    let place = Place::new();
    let watch = Watch::start(&place, &["--json"]);
    let first: Value = serde_json::from_str(&watch.line()).unwrap();
    assert_eq!(first, json!({"name": "x", "kind": null, "service": place.service(), "contenders": []}));
    let holder = place.hold("x");
    assert_eq!(watch.change(), ["holder mutex"]);
    let mut waiter = Running::with_input(&mut place.script_of(&["-q"], "read line"));
    assert_eq!(watch.change(), ["holder mutex", "waiter mutex"]);
    holder.end();
    assert_eq!(watch.change(), ["holder mutex"]);
    waiter.close_input();
    waiter.end();
    assert_eq!(watch.change(), [""; 0]);
    assert_eq!(place.contenders("x"), 0, "a watcher takes no part");
    watch.end();
}

#[test]
fn as_text_each_change_is_a_separate_table() {
    let place = Place::new();
    let watch = Watch::start(&place, &[]);
    assert_eq!(watch.line(), format!("x ({}): free, no waiters\n", place.service()));
    let _holder = place.hold("x");
    assert_eq!(watch.line(), "\n");
    assert_eq!(watch.line(), format!("x (mutex, {})\n", place.service()));
    assert!(watch.line().contains("STATE"));
    assert!(watch.line().starts_with("1  holder  mutex "));
    watch.end();
}

#[test]
fn on_a_terminal_the_screen_is_drawn_anew_and_ages_go_on() {
    let place = Place::new();
    let mut command = place.command(&["show", "x", "--watch"]);
    command.env("TERM", "xterm");
    let mut terminal = Terminal::run(&command);
    terminal.expect("\x1b[H\x1b[2J\x1b[?7lx (file:");
    let _holder = place.hold("x");
    terminal.expect("\x1b[H\x1b[2J\x1b[?7lx (mutex, ");
    let age = terminal.expect_seconds_above(0, " ", "  ");
    terminal.expect_seconds_above(age, " ", "  ");
    terminal.press(CTRL_C);
    assert_eq!(terminal.exit_code(), 130);
}

#[test]
fn a_watch_ends_when_its_reader_is_gone() {
    let place = Place::new();
    let mut command = place.command(&["show", "x", "--watch", "--json"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(watch.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    // It notices when it has something to say. Two changes between two looks of it are none.
    let _holder = place.hold("x");
    assert_eq!(ended(&mut watch).code(), Some(0));
}
