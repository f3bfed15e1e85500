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

/// How many minutes a letter of the line stands for.
const MINUTES_A_LETTER: usize = 2;

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

fn waited(peaks: &[u16; PEAK_MINUTES]) -> String {
    let most = peaks.iter().copied().max().unwrap_or(0);
    let letters = peaks.chunks(MINUTES_A_LETTER).map(|minutes| {
        let count = minutes.iter().copied().max().unwrap_or(0);
        let level = usize::from(count) * (LEVELS.len() - 1);
        LEVELS[level.div_ceil(usize::from(most.max(1))).min(LEVELS.len() - 1)]
    });
    format!("waiting in the last hour {} {most} at most", letters.collect::<String>())
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
