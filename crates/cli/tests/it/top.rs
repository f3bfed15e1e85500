//! `top` on a real terminal of 80 x 24: what a person sees, what keys do to real locks, and the terminal that is left.
//! `top_services` has it on each service.

use std::process::Command;
use std::time::Duration;

use lockkeeper_faults::tmux::{self, Pane};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::crossing::place_of;
use crate::server::Server;
use crate::support::{PATIENCE, Place, can_run, now, number_in, send};
use crate::top_services::shows_a_queue;

/// Runs `top`, and then says how it ended and in which modes it has left the terminal.
const SCRIPT: &str =
    r#"sh -c 'echo $$ > "$NOTES/pid"; exec "$LOCKKEEPER" top'; echo "code=$?"; stty -a; exec sleep 600"#;

/// `top` on a terminal.
pub(crate) struct Top {
    pane: Pane,
    notes: TempDir,
}

impl Top {
    /// `None` where there is no terminal to look at, and the test is skipped.
    pub(crate) fn start(place: &Place) -> Option<Self> {
        Self::start_by(place, Command::new("sh").args(["-c", SCRIPT]))
    }

    /// Starts what has `top` run.
    fn start_by(place: &Place, command: &mut Command) -> Option<Self> {
        if !can_run(tmux::availability()) {
            return None;
        }
        let notes = TempDir::new().unwrap();
        let command = place.surround(command).env("NOTES", notes.path());
        Some(Self { pane: Pane::start(80, 24, command).unwrap(), notes })
    }

    /// Waits until the screen is so, and returns it.
    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "pauses between looks, up to a deadline")]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = now() + PATIENCE;
        loop {
            let screen = self.pane.screen().unwrap();
            if is_so(&screen) {
                return screen;
            }
            assert!(now() < deadline, "waited in vain until {what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a lock is listed.
    fn lists(&self, lock: &str) {
        self.until(&format!("{lock} is listed"), |screen| row_of(screen, lock).is_some());
    }

    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> String {
        self.until(&format!("it shows {text:?}"), |screen| screen.contains(text))
    }

    pub(crate) fn press(&self, key: &str) {
        self.pane.press(key).unwrap();
    }

    pub(crate) fn type_text(&self, text: &str) {
        self.pane.type_text(text).unwrap();
    }

    fn pid(&self) -> i32 {
        number_in(&self.notes.path().join("pid"))
    }

    /// Asserts that it has ended with this code, and that lines can be typed and seen as before.
    #[track_caller]
    pub(crate) fn assert_left_usable(&self, code: i32) {
        let screen = self.until("it has ended", |screen| screen.contains(" iexten") || screen.contains("-iexten"));
        assert!(screen.contains(&format!("code={code}\n")), "{screen}");
        let modes: Vec<&str> = screen.split([' ', '\n', ';']).collect();
        for mode in ["icanon", "echo", "isig", "opost", "icrnl"] {
            assert!(modes.contains(&mode), "{mode}: {screen}");
        }
        assert!(!self.pane.has_alternate_screen().unwrap() && self.pane.shows_cursor().unwrap(), "{screen}");
    }
}

/// The number behind the name of a lock in its row.
pub(crate) fn row_of<'a>(screen: &'a str, lock: &str) -> Option<Vec<&'a str>> {
    screen.lines().map(|line| line.split_whitespace().collect()).find(|words: &Vec<_>| words.first() == Some(&lock))
}

#[test]
fn the_busiest_lock_is_first_and_enter_shows_its_queue_in_order_and_follows_it() {
    let place = Place::new();
    let _calm = place.hold("calm");
    let Some((top, busy, waiters)) = shows_a_queue(&place, " live") else { return };
    top.press("Down");
    top.shows("its client receives requests to give up");
    assert!(top.shows(&place.token("nightly")).contains("STATE"));
    drop((busy, waiters));
    top.shows("nothing holds it, and nothing waits for it");
    top.press("Escape");
    let screen = top.shows("calm");
    assert!(screen.find("nightly").unwrap() < screen.find("calm").unwrap(), "{screen}");
    top.type_text("q");
    top.assert_left_usable(0);
    assert_eq!(place.contenders("calm"), 1, "it takes no part");
}

#[test]
fn r_ends_a_run_and_the_status_line_says_so() {
    let place = Place::new();
    let mut holder = place.hold("nightly");
    let Some(top) = Top::start(&place) else { return };
    top.lists("nightly");
    top.type_text("r");
    top.shows("choose a lock first");
    top.press("Down");
    top.type_text("r");
    let screen = top.shows("y does it");
    let token = place.token("nightly");
    for seen in ["nightly", &format!(" pid {} sh", holder.process.id()), &token] {
        assert!(screen.contains(seen), "{seen}: {screen}");
    }
    assert!(!holder.process.is_over());
    top.type_text("y");
    assert_eq!(holder.process.code(), Some(143), "as by `lockkeeper revoke`");
    top.shows("to give it up");
    // Its line stays while it is chosen.
    top.until("it is free", |screen| row_of(screen, "nightly").is_some_and(|row| row.last() == Some(&"free")));
}

#[test]
fn a_pasted_text_is_no_row_of_keys() {
    let place = Place::new();
    let mut holder = place.hold("nightly");
    let Some(top) = Top::start(&place) else { return };
    top.lists("nightly");
    top.press("Down");
    top.pane.paste("ry\nq").unwrap();
    top.type_text("/");
    top.shows("filter: _");
    top.pane.paste("night\nq").unwrap();
    top.shows("filter: night_");
    assert!(!holder.process.is_over());
    assert!(place.show("nightly")["contenders"][0]["revocation"].is_null());
}

#[test]
fn signals_and_keys_that_end_it_leave_the_terminal_as_it_was() {
    let place = Place::new();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let Some(top) = Top::start(&place) else { return };
        top.shows("no lock is in use");
        assert!(top.pane.has_alternate_screen().unwrap());
        send(top.pid(), signal);
        top.assert_left_usable(code);
    }
    let Some(top) = Top::start(&place) else { return };
    top.shows("no lock is in use");
    top.press("C-c");
    top.assert_left_usable(130);
}

#[test]
fn ctrl_z_and_sigtstp_give_the_terminal_to_the_shell_and_fg_takes_it_again() {
    let place = Place::new();
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "outer> ");
    let Some(top) = Top::start_by(&place, &mut shell) else { return };
    top.shows("outer>");
    top.type_text("sh -c 'echo $$ > \"$NOTES/pid\"; exec \"$LOCKKEEPER\" top'\n");
    top.shows("no lock is in use");
    let by_key: fn(&Top) = |top| top.press("C-z");
    for (stop, typed) in [(by_key, "typed"), (|top| send(top.pid(), Signal::TSTP), "typed again")] {
        stop(&top);
        let stopped = "it is stopped, and the shell asks for the next line";
        top.until(stopped, |screen| screen.trim_end().ends_with("\nouter>") && screen.contains("Stopped"));
        assert!(!top.pane.has_alternate_screen().unwrap() && top.pane.shows_cursor().unwrap());
        top.type_text(&format!("clear; echo {typed}\n"));
        top.shows(&format!("{typed}\n"));
        top.type_text("fg\n");
        top.shows("no lock is in use");
        assert!(top.pane.has_alternate_screen().unwrap());
    }
    let _holder = place.hold("nightly");
    top.lists("nightly");
    top.type_text("q");
    // What is typed before its end is its own.
    top.until("the shell asks for the next line", |screen| screen.trim_end().ends_with("\nouter>"));
    top.type_text("echo code=$?; stty -a\n");
    top.assert_left_usable(0);
}

#[test]
fn sigtstp_without_a_shell_that_would_continue_it_does_not_stop_it() {
    let place = Place::new();
    let mut alone = Command::new("sh");
    alone.args(["-c", r#"echo $$ > "$NOTES/pid"; exec "$LOCKKEEPER" top"#]);
    let Some(top) = Top::start_by(&place, &mut alone) else { return };
    top.shows("no lock is in use");
    send(top.pid(), Signal::TSTP);
    top.shows("there is no shell that would continue this program");
    let _holder = place.hold("nightly");
    top.lists("nightly");
}

#[test]
fn a_lost_service_is_shown_with_the_time_and_the_reason_until_it_is_back() {
    let (host, data) = (Place::new(), TempDir::new().unwrap());
    let data = data.path().to_str().unwrap();
    let server = Server::start(&host, &["--data-dir", data]);
    let address = server.address().to_owned();
    let place = place_of(server.url());
    let mut holder = place.hold("nightly");
    let Some(top) = Top::start(&place) else { return };
    top.lists("nightly");
    server.kill();
    let screen = top.shows("! stale since ");
    assert!(row_of(&screen, "nightly").is_some(), "what was known stays: {screen}");
    assert!(screen.lines().next().unwrap().contains("stale for "), "{screen}");
    let server = Server::start_as_told(&host, &["--listen", &address, "--data-dir", data]);
    top.until("it is back", |screen| screen.lines().next().is_some_and(|line| line.ends_with(" live")));
    server.kill();
    top.shows("! stale since ");
    top.type_text("q");
    top.assert_left_usable(0);
    holder.process.kill();
}

#[test]
fn without_a_terminal_it_is_refused_in_one_line() {
    Place::new().run(&["top"]).assert_refused(125, &["lockkeeper: top: stdin and stdout are no terminal"]);
}
