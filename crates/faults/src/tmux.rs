//! A terminal that shows what a person would see, and takes keys: a pane of tmux.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process::{self, Process};
use crate::scratch::Scratch;
use crate::{Availability, Error, Result};

/// How often a session is asked of a server that may still be starting, and the pause between: two minutes, since
/// other tests run too.
const START_TRIES: u32 = 2_400;
const START_PAUSE: Duration = Duration::from_millis(50);

/// Whether terminals can be had here.
pub fn availability() -> Availability {
    process::availability().and(|| Availability::of_programs(&["tmux"], "tmux"))
}

/// A terminal with a program on it; dropping it ends both. Whatever is asked of it is an error once the program has
/// ended, and the terminal with it.
#[derive(Debug)]
pub struct Pane {
    _server: Process,
    socket: PathBuf,
    _scratch: Scratch,
}

impl Pane {
    /// Starts a program on a terminal of this size. It has the environment of `command` alone, and `TERM`.
    pub fn start(columns: u16, lines: u16, command: &Command) -> Result<Self> {
        let scratch = Scratch::new()?;
        let socket = scratch.path().join("tmux");
        let mut server = process::command("tmux");
        server.arg("-S").arg(&socket).args(["-f", "/dev/null", "-D"]);
        // It takes lines and their letters for ASCII otherwise.
        server.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let pane = Self { _server: Process::start(server)?, socket, _scratch: scratch };
        let mut start = pane.tmux(&["new-session", "-d", "-x", &columns.to_string(), "-y", &lines.to_string()]);
        start.args(["env", "-i", "TERM=tmux-256color", "LC_ALL=C.UTF-8"]);
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                let mut assignment = name.to_owned();
                assignment.push("=");
                assignment.push(value);
                start.arg(assignment);
            }
        }
        start.arg(command.get_program()).args(command.get_args());
        started(&mut start)?;
        Ok(pane)
    }

    /// What is on the screen, without the spaces at the ends of its lines.
    pub fn screen(&self) -> Result<String> {
        answer(&mut self.tmux(&["capture-pane", "-p"]))
    }

    /// Types a text.
    pub fn type_text(&self, text: &str) -> Result<()> {
        answer(&mut self.tmux(&["send-keys", "-l", "--", text])).map(drop)
    }

    /// Presses a key by its name in tmux, such as `Enter`, `C-c`, `Down`.
    pub fn press(&self, key: &str) -> Result<()> {
        answer(&mut self.tmux(&["send-keys", key])).map(drop)
    }

    /// Pastes a text, as by a mouse: a program that has asked for it is told where it begins and ends.
    pub fn paste(&self, text: &str) -> Result<()> {
        answer(&mut self.tmux(&["set-buffer", "--", text]))?;
        answer(&mut self.tmux(&["paste-buffer", "-p"])).map(drop)
    }

    /// Gives the window another size.
    pub fn resize(&self, columns: u16, lines: u16) -> Result<()> {
        let (columns, lines) = (columns.to_string(), lines.to_string());
        answer(&mut self.tmux(&["resize-window", "-x", &columns, "-y", &lines])).map(drop)
    }

    /// Whether a program has put another screen before the one with lines, and not taken it away.
    pub fn has_alternate_screen(&self) -> Result<bool> {
        Ok(answer(&mut self.tmux(&["display-message", "-p", "#{alternate_on}"]))?.trim() == "1")
    }

    /// Whether the cursor is shown.
    pub fn shows_cursor(&self) -> Result<bool> {
        Ok(answer(&mut self.tmux(&["display-message", "-p", "#{cursor_flag}"]))?.trim() == "1")
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.env("LC_ALL", "C.UTF-8").env_remove("TMUX").args(["-N", "-S"]).arg(&self.socket).args(arguments);
        command.stdin(Stdio::null());
        command
    }
}

#[expect(clippy::disallowed_methods, reason = "pauses between tries, up to a number of them")]
fn started(start: &mut Command) -> Result<String> {
    let mut told = answer(start);
    for _ in 1..START_TRIES {
        if told.is_ok() {
            break;
        }
        std::thread::sleep(START_PAUSE);
        told = answer(start);
    }
    told
}

fn answer(command: &mut Command) -> Result<String> {
    let told = command.output().map_err(Error::io("tmux"))?;
    if told.status.success() {
        return Ok(String::from_utf8_lossy(&told.stdout).into_owned());
    }
    Err(Error::new(format!("tmux: {}", String::from_utf8_lossy(&told.stderr).trim_end())))
}
