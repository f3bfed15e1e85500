//! A command's drawing on a terminal, in `tmux`: 80 columns and 24 lines, as on the smallest that it is made for.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use lockkeeper_faults::{Availability, Result, wait};

use crate::fleet::{Fleet, said};

const COLUMNS: &str = "80";
const LINES: &str = "24";

/// How long it may take to draw.
const DRAWN_WITHIN: Duration = Duration::from_secs(30);

/// Whether there is a terminal to draw on.
pub(crate) fn availability() -> Availability {
    match Command::new("tmux").arg("-V").stdout(Stdio::null()).status() {
        Ok(_) => Availability::Present,
        Err(error) => Availability::Missing(format!("tmux: {error} (Debian: tmux)")),
    }
}

/// A terminal; dropping it ends what runs on it.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn asked(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(arguments);
        said("tmux", command)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may not have begun.
        let _ = self.asked(&["kill-server"]);
    }
}

/// Runs a command of ours on a terminal until a text is on its screen; answers the screen with its colours, as a
/// terminal is told them.
pub(crate) async fn screen(fleet: &Fleet, word: &str, text: &str) -> Result<String> {
    let terminal = Terminal { socket: fleet.folder().join("terminal") };
    let mut command = fleet.program_on("web-1", "tmux")?;
    command.env("LANG", "C.UTF-8").arg("-S").arg(&terminal.socket).args(["-f", "/dev/null", "new-session", "-d"]);
    command.args(["-x", COLUMNS, "-y", LINES]).arg(format!("'{}' {word}", fleet.command().display()));
    said("tmux", command)?;
    let mut seen = String::new();
    let is_drawn = async || {
        // Once more than it was seen: drawn to its end.
        let now = terminal.asked(&["capture-pane", "-e", "-p"]).unwrap_or_default();
        let is_so = now.contains(text) && now == seen;
        seen.clone_from(&now);
        is_so.then_some(now)
    };
    wait::until(&format!("{text} on the screen of {word}"), DRAWN_WITHIN, is_drawn).await
}
