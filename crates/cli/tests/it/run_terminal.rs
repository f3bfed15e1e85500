//! `lockkeeper run` in front of a person: a shell on a pseudo-terminal, Ctrl-C, Ctrl-Z, and commands that read from it.

use std::process::Command;

use crate::support::Place;
use crate::support::terminal::{CTRL_C, CTRL_D, CTRL_Z, Terminal};

/// A person's shell, which knows the command under test as `lk`: `lk LOCK -- COMMAND`.
struct Shell {
    terminal: Terminal,
    _place: Place,
}

impl Shell {
    fn start() -> Self {
        let place = Place::new();
        let mut shell = Command::new("bash");
        place.surround(shell.args(["--norc", "--noprofile", "-i"])).env("PS1", "outer> ");
        shell.env("NOTES", place.notes()).env("LK", env!("CARGO_BIN_EXE_lockkeeper"));
        // No editing of lines, whose escapes would stand between the words on the screen.
        shell.env("TERM", "dumb").env_remove("HISTFILE");
        let mut shell = Self { terminal: Terminal::run(&shell), _place: place };
        shell.terminal.expect("outer> ");
        shell.enter("bind 'set enable-bracketed-paste off'; alias lk='$LK run'");
        shell
    }

    /// Types a line and waits for the next prompt.
    fn enter(&mut self, line: &str) {
        self.begin(line);
        self.terminal.expect("outer> ");
    }

    /// Types a line whose command stays in front.
    fn begin(&mut self, line: &str) {
        self.terminal.press(line);
        self.terminal.press("\n");
        self.terminal.expect("\n");
    }

    /// Types a line for a command that was begun and reads it.
    fn feed(&mut self, line: &str) {
        self.terminal.await_line_mode();
        self.terminal.press(line);
        self.terminal.press("\n");
    }

    /// Begins a line, and waits until its command has shown this.
    fn begin_until(&mut self, line: &str, shown: &str) {
        self.begin(line);
        self.terminal.expect(shown);
    }

    /// Types a line for a command that copies it, and waits for both.
    fn copied(&mut self, line: &str) {
        self.feed(line);
        self.terminal.expect(&format!("{line}\r\n{line}\r\n"));
    }

    /// Presses a key at which the command in front ends or stops, and waits for the next prompt.
    fn strike(&mut self, key: &str) {
        self.terminal.press(key);
        if key == CTRL_Z {
            self.terminal.expect("Stopped");
        }
        self.terminal.expect("outer> ");
    }

    /// Waits until the command in front has shown this and ended.
    fn ends_with(&mut self, shown: &str) {
        self.terminal.expect(shown);
        self.terminal.expect("outer> ");
    }

    /// Continues the job in front; the shell shows its command line, which ends with `end`, and then gives it the
    /// terminal.
    fn continue_job(&mut self, end: &str) {
        self.begin("fg");
        self.terminal.expect(&format!("{end}\r\n"));
    }

    /// Asks for the exit code of the last command; the line that asks does not look like the answer.
    fn expect_code(&mut self, code: i32) {
        self.begin("echo code=$?");
        self.terminal.expect(&format!("code={code}\r\n"));
        self.terminal.expect("outer> ");
    }
}

#[test]
fn ctrl_c_ends_the_command_or_is_handled_by_it() {
    for (command, code) in [
        ("sh -c 'echo rea''dy; exec sleep 600'", 130),
        ("sh -c 'trap \"exit 9\" INT; echo rea''dy; while :; do sleep 0.01; done'", 9),
    ] {
        let mut shell = Shell::start();
        shell.begin_until(&format!("lk a -- {command}"), "ready");
        shell.strike(CTRL_C);
        shell.expect_code(code);
    }
}

#[test]
fn ctrl_z_stops_the_job_and_keeps_the_lock_and_fg_continues_it() {
    let mut shell = Shell::start();
    shell.begin("lk a -- cat");
    shell.copied("first");
    shell.strike(CTRL_Z);
    shell.enter("lk a --no-wait -- true");
    shell.expect_code(124);
    for line in ["second", "third"] {
        shell.continue_job("cat");
        shell.copied(line);
        shell.strike(if line == "second" { CTRL_Z } else { CTRL_D });
    }
    shell.expect_code(0);
}

#[test]
fn a_command_that_stops_itself_gives_the_terminal_back_and_gets_it_again() {
    let mut shell = Shell::start();
    shell.begin("lk a -- sh -c 'kill -STOP $$; read x; echo got=$x'");
    shell.ends_with("Stopped");
    shell.enter("lk a --no-wait -- true");
    shell.expect_code(124);
    shell.continue_job("got=$x'");
    shell.feed("typed");
    shell.ends_with("got=typed");
    shell.expect_code(0);
}

#[test]
fn a_stopped_job_goes_on_in_the_background() {
    let mut shell = Shell::start();
    // The command forks nothing: a shell that is just starting a program when Ctrl-Z comes may not stop at all.
    shell.enter("mkfifo $NOTES/end");
    shell.begin_until("lk a -- sh -c 'echo rea''dy; read x < $NOTES/end; echo do''ne'", "ready");
    shell.strike(CTRL_Z);
    shell.enter("bg");
    shell.begin_until("echo > $NOTES/end; wait; echo code=$?", "done");
    shell.terminal.expect("code=0");
}

#[test]
fn a_job_started_in_the_background_waits_for_the_terminal_until_it_is_in_front() {
    let mut shell = Shell::start();
    shell.enter("lk a -- cat &");
    shell.enter("until jobs | grep -q Stopped; do sleep 0.01; done");
    shell.continue_job("cat");
    shell.copied("hello");
    shell.strike(CTRL_D);
    shell.expect_code(0);
}

#[test]
fn an_interactive_shell_runs_under_a_lock_with_its_own_jobs() {
    let mut shell = Shell::start();
    shell.begin("PS1='inner> ' lk a -- bash --norc --noprofile -i");
    shell.terminal.expect("inner> ");
    shell.terminal.press("echo $((40 + 2))\n");
    shell.terminal.expect("\r\n42\r\n");
    shell.terminal.press("sh -c 'echo rea''dy; exec sleep 600'\n");
    shell.terminal.expect("ready");
    shell.terminal.press(CTRL_Z);
    shell.terminal.expect("Stopped");
    shell.terminal.expect("inner> ");
    // A shell that has not seen the job end refuses to exit.
    shell.terminal.press("kill %1; wait -f %1; read line\n");
    shell.terminal.expect("read line\r\n");
    shell.terminal.press("words\n");
    shell.terminal.expect("inner> ");
    shell.terminal.press("echo got=$line; exit 5\n");
    shell.terminal.expect("got=words");
    shell.terminal.expect("outer> ");
    shell.expect_code(5);
}

#[test]
fn the_terminal_comes_back_to_a_script_that_goes_on_reading_it() {
    let mut shell = Shell::start();
    shell.begin("sh -c '$LK run a -- sh -c \"read x; echo one=\\$x\"; read y; echo two=$y'");
    shell.feed("first");
    shell.terminal.expect("one=first");
    shell.feed("second");
    shell.ends_with("two=second");
}

#[test]
fn ctrl_z_stops_the_script_around_it_too() {
    let mut shell = Shell::start();
    shell.begin("sh -c '$LK run a -- cat; echo af''ter=$?'");
    shell.copied("first");
    shell.strike(CTRL_Z);
    shell.continue_job("ter=$?'");
    shell.copied("second");
    shell.terminal.press(CTRL_D);
    shell.terminal.expect("after=0");
}

#[test]
fn in_a_pipeline_the_rest_keeps_the_terminal_and_a_command_that_asks_for_it_gets_it() {
    for line in [
        "lk a -- echo piped | { read x; read y < /dev/tty; echo got=$x,$y; }",
        "echo piped | lk a -- sh -c 'read x; read y < /dev/tty; echo got=$x,$y'",
    ] {
        let mut shell = Shell::start();
        shell.begin(line);
        shell.feed("typed");
        shell.ends_with("got=piped,typed");
    }
}

#[test]
fn without_a_shell_ctrl_z_does_not_strand_the_command() {
    let place = Place::new();
    let mut terminal = Terminal::run(&place.command(&["run", "a", "--", "cat"]));
    terminal.press("first\n");
    terminal.expect("first\r\nfirst\r\n");
    terminal.press(CTRL_Z);
    terminal.press("second\n");
    terminal.expect("second\r\nsecond\r\n");
    terminal.press(CTRL_D);
    assert_eq!(terminal.exit_code(), 0);
}
