//! `verify`: judging the histories that programs have written. It asks no service.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use lockkeeper::history::{HistoryLine, Verified, verify as judge};
use serde::Serialize;

use super::service::answer;
use crate::config::Global;
use crate::exit::CommandFailure;
use crate::output::one_line;

/// The exit code if a promise was broken.
const BROKEN: u8 = 1;

/// The broken promises that are printed as text at most: more tell nothing new. JSON has all of them.
const PRINTED_MAX: usize = 100;

/// What was found, with the lines that are no part of a history.
#[derive(Serialize)]
struct Judgement {
    #[serde(flatten)]
    verified: Verified,
    torn_lines: usize,
}

pub(super) fn verify(global: &Global, clocks_differ: Duration, files: &[PathBuf]) -> Result<u8, CommandFailure> {
    let (mut lines, mut torn_lines) = (Vec::new(), 0);
    for path in files {
        let named = |error: std::io::Error| CommandFailure::ours(format!("{}: {error}", path.display()));
        let before = lines.len();
        for line in BufReader::new(File::open(path).map_err(named)?).split(b'\n') {
            let line = line.map_err(named)?;
            match HistoryLine::read(&String::from_utf8_lossy(&line)) {
                Ok(line) => lines.push(line),
                Err(_) => torn_lines += usize::from(!line.is_empty()),
            }
        }
        if lines.len() == before && torn_lines > 0 {
            let message = format!("{}: no line of a history; programs write one with HistoryFile", path.display());
            return Err(CommandFailure::ours(message));
        }
    }
    let judgement = Judgement { verified: judge(lines, clocks_differ), torn_lines };
    let code = if judgement.verified.broken.is_empty() { 0 } else { BROKEN };
    answer(global, &judgement, || judgement.text()).map(|_| code)
}

impl Judgement {
    fn text(&self) -> String {
        let Self { verified: Verified { locks, grants, unended, broken, .. }, torn_lines } = self;
        let mut text: String =
            broken.iter().take(PRINTED_MAX).map(|broken| format!("{}\n", one_line(&broken.to_string()))).collect();
        let broken = match broken.len() {
            0 => "no promise was broken".to_owned(),
            1 => "1 promise was broken".to_owned(),
            count => format!("{count} promises were broken"),
        };
        text.push_str(&format!("{grants} grants of {locks} locks: {broken}"));
        if *unended > 0 {
            text.push_str(&format!("; the end of {unended} is not known"));
        }
        if *torn_lines > 0 {
            text.push_str(&format!("; {torn_lines} lines left out"));
        }
        text.push('\n');
        text
    }
}
