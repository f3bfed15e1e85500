//! The terminal of `top` after a panic: its modes and its lines are back, and what the panic says is read there.
//!
//! This program is also the one that panics: it takes the terminal by the very file that `top` takes it by.

#[expect(dead_code, reason = "one that panics uses a part of it")]
#[path = "../src/top/screen.rs"]
mod screen;

use std::env::{args, current_exe, var_os};
use std::io::{Read as _, stdin};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};
use lockkeeper_faults::tmux::{self, Pane};
use lockkeeper_faults::wait::{PATIENCE, until};
use tokio::runtime;

use screen::Screen;

/// The first argument of the one that panics.
const PANIC: &str = "__panic";
const PANIC_IN_TASK: &str = "__panic_in_task";

/// What its panic says.
const SAYS: &str = "the panic that is wanted";

fn main() -> ExitCode {
    match args().nth(1).as_deref() {
        Some(PANIC) => take_the_terminal_and(|_| panic!("{SAYS}")),
        Some(PANIC_IN_TASK) => take_the_terminal_and(panic_in_task),
        _ => {
            let tests: [(&str, &str); 2] = [
                ("a_panic_leaves_the_terminal_as_it_was", PANIC),
                ("a_panic_of_a_task_does_too_and_what_runs_on_knows_that", PANIC_IN_TASK),
            ];
            let trials = tests.map(|(name, step)| {
                Trial::test(name, move || {
                    if tmux::availability().or_skip(name) {
                        assert_left_usable(step);
                    }
                    Ok(())
                })
            });
            libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
        }
    }
}

/// Fills the screen, and goes on at a key.
fn take_the_terminal_and(go_on: impl FnOnce(&Screen)) -> ExitCode {
    let mut screen = Screen::take().unwrap();
    screen.draw(|frame| frame.render_widget("on the screen", frame.area())).unwrap();
    stdin().read_exact(&mut [0; 1]).unwrap();
    go_on(&screen);
    ExitCode::from(7)
}

fn panic_in_task(screen: &Screen) {
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    assert!(screen.is_taken());
    let ended = runtime.block_on(async { tokio::spawn(async { panic!("{SAYS}") }).await });
    assert!(ended.is_err() && !screen.is_taken());
}

/// Runs the one that panics on a terminal, and asserts that lines can be typed and seen there afterwards.
fn assert_left_usable(step: &str) {
    let mut shell = Command::new("sh");
    let script = r#""$0" "$1"; echo "code=$?"; stty -a; exec sleep 600"#;
    shell.args(["-c", script]).arg(current_exe().unwrap()).arg(step).env("PATH", var_os("PATH").unwrap());
    let pane = Pane::start(100, 40, &shell).unwrap();
    let runtime = runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let shows = |text: &str| {
        let screen = async || pane.screen().ok().filter(|screen| screen.contains(text));
        runtime.block_on(until(&format!("the terminal shows {text:?}"), PATIENCE, screen)).unwrap()
    };
    shows("on the screen");
    assert!(pane.has_alternate_screen().unwrap());
    pane.press("Enter").unwrap();
    let screen = shows("iexten");
    let code = if step == PANIC { 101 } else { 7 };
    assert!(screen.contains(SAYS) && screen.contains(&format!("code={code}\n")), "{screen}");
    assert!(!screen.contains("on the screen"), "{screen}");
    let modes: Vec<&str> = screen.split_whitespace().collect();
    assert!(["icanon", "echo", "isig", "opost"].iter().all(|mode| modes.contains(mode)), "{screen}");
    assert!(!pane.has_alternate_screen().unwrap() && pane.shows_cursor().unwrap(), "{screen}");
}
