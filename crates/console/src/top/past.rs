//! Lines below a queue about its past: how many waited in the last hour, and who held it last.

use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper_monitor::history::{PEAK_MINUTES, PastContender, PastEnd};
use lockkeeper_monitor::{MonitorState, TimePoint};

use crate::output::brief;
use crate::output::marks::hour;

/// How many holders are shown: a screen has room for few more.
const HOLDERS_MAX: usize = 50;

/// How far back is looked for them.
const SINCE: Duration = Duration::from_secs(3_600);

/// How many minutes a letter of the line stands for, below a queue …
const MINUTES_A_LETTER: usize = 2;

/// … and in the list.
const MINUTES_A_LETTER_IN_LIST: usize = 5;

/// From nobody to the most.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the lines.
pub(super) fn past_lines(state: &MonitorState, lock: &QueueName, now: TimePoint) -> Vec<String> {
    let peaks = state.model.history().peaks(lock.as_str(), now.unix);
    let mut lines: Vec<_> = peaks.iter().map(waited).collect();
    let past = state.model.past(lock.as_str(), now.unix.saturating_sub(SINCE), now);
    let ended = past.contenders.iter().filter(|one| !matches!(one.end, PastEnd::Holds | PastEnd::GaveUp));
    lines.extend(ended.take(HOLDERS_MAX).map(held));
    lines
}

/// Returns how many waited in the last hour as letters for the list; empty if none has.
pub(super) fn waited_in_list(state: &MonitorState, lock: &QueueName, now: TimePoint) -> String {
    let peaks = state.model.history().peaks(lock.as_str(), now.unix);
    peaks.map(|peaks| letters(&peaks, MINUTES_A_LETTER_IN_LIST)).unwrap_or_default()
}

fn waited(peaks: &[u16; PEAK_MINUTES]) -> String {
    let most = peaks.iter().copied().max().unwrap_or(0);
    format!("waiting in the last hour {} {most} at most", letters(peaks, MINUTES_A_LETTER))
}

/// The highest letter stands for the most that waited.
fn letters(peaks: &[u16; PEAK_MINUTES], minutes_a_letter: usize) -> String {
    let most = usize::from(peaks.iter().copied().max().unwrap_or(0).max(1));
    let letter = |minutes: &[u16]| {
        let count = usize::from(minutes.iter().copied().max().unwrap_or(0));
        LEVELS[(count * (LEVELS.len() - 1)).div_ceil(most)]
    };
    peaks.chunks(minutes_a_letter).map(letter).collect()
}

fn held(one: &PastContender<'_>) -> String {
    let pid = one.pid.map(|pid| format!(" pid {pid}")).unwrap_or_default();
    let token = one.token.map(|token| format!(", token {token}")).unwrap_or_default();
    let (at, lasted, end) = (hour(one.from_unix), brief(one.held()), one.end.as_str());
    format!("held at {at} for {lasted} by {}{pid} {}{token}: {end}", one.host, one.program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_highest_where_the_most_waited_and_one_waiter_is_seen() {
        let mut peaks = [0; PEAK_MINUTES];
        (peaks[2], peaks[PEAK_MINUTES - 1]) = (100, 1);
        let line = waited(&peaks);
        let letters: Vec<char> = line.split(' ').nth(5).unwrap().chars().collect();
        assert_eq!((letters.len(), letters[0], letters[1], letters[29]), (30, '▁', '█', '▂'), "{line}");
        assert!(line.ends_with(" 100 at most"), "{line}");
    }
}
