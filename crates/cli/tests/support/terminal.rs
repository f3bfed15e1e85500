//! A program in a separate session on a pseudo-terminal, as a person would have it in front of them.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use super::eventually;

pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";
pub(crate) const CTRL_Z: &str = "\x1a";

/// The outer end of a pseudo-terminal and the program on it.
pub(crate) struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    /// How much of the screen was expected already.
    seen: usize,
    program: Child,
}

impl Terminal {
    /// Runs `command` with a new terminal as its controlling one.
    pub(crate) fn run(command: &Command) -> Self {
        let outer = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&outer).unwrap();
        unlockpt(&outer).unwrap();
        let name = ptsname(&outer, Vec::new()).unwrap().into_string().unwrap();
        let inner: OwnedFd = OpenOptions::new().read(true).write(true).open(name).unwrap().into();

        let mut session = Command::new("setsid");
        session.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        let program = session
            .stdin(Stdio::from(inner.try_clone().unwrap()))
            .stdout(Stdio::from(inner.try_clone().unwrap()))
            .stderr(Stdio::from(inner))
            .spawn()
            .unwrap();

        let keyboard = File::from(outer);
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut output, shared) = (keyboard.try_clone().unwrap(), screen.clone());
        // Ends with the terminal: once no process has it open any more, reading fails.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = output.read(&mut bytes) {
                shared.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { keyboard, screen, seen: 0, program }
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until what is typed is echoed and read line by line: a shell that edits lines itself sets that back for a
    /// command only after it has shown the end of the line that starts it.
    pub(crate) fn await_line_mode(&self) {
        eventually("lines are echoed", || {
            let modes = tcgetattr(&self.keyboard).unwrap().local_modes;
            modes.contains(LocalModes::ECHO | LocalModes::ICANON).then_some(())
        });
    }

    /// Waits until `text` is on the screen, after what was expected before.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let screen = self.screen.clone();
        let seen = self.seen;
        let found = std::panic::catch_unwind(|| {
            eventually("it is on the screen", || {
                screen.lock().unwrap()[seen..].find(text).map(|at| seen + at + text.len())
            })
        });
        match found {
            Ok(end) => self.seen = end,
            Err(_) => panic!("{text:?} is not on the screen:\n{}", &self.screen.lock().unwrap()[seen..]),
        }
    }

    /// Waits until a number of seconds is on the screen that is above another one, between these texts and after what
    /// was expected before; returns it. Which number it is depends on how busy the machine is.
    #[track_caller]
    pub(crate) fn expect_seconds_above(&mut self, least: u64, before: &str, after: &str) -> u64 {
        let (screen, seen) = (self.screen.clone(), self.seen);
        let (seconds, end) = eventually(&format!("more than {least} seconds are on the screen"), || {
            let screen = screen.lock().unwrap();
            screen[seen..].match_indices(before).find_map(|(at, _)| {
                let number = &screen[seen + at + before.len()..];
                let digits = number.find(|letter: char| !letter.is_ascii_digit())?;
                let seconds: u64 = number[..digits].parse().ok()?;
                let is_it = seconds > least && number[digits..].strip_prefix('s')?.starts_with(after);
                is_it.then_some((seconds, seen + at + before.len() + digits))
            })
        });
        self.seen = end;
        seconds
    }

    /// Waits until the program has ended and returns its exit code.
    pub(crate) fn exit_code(mut self) -> i32 {
        let program = &mut self.program;
        eventually("the program ends", || program.try_wait().unwrap()).code().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a failed test; the terminal hangs up and its session ends.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
