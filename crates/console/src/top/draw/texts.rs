//! The full texts: problems, and the help.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::frame::style;
use super::pen::{BOLD, Cell, DIM, PLAIN, Pen, TextSide, wrapped};
use crate::top::problems::Problem;

/// The keys, and what they do.
const HELP: [(&str, &str); 15] = [
    ("arrows j k", "choose a lock or a contender; PgUp, PgDn, Home, End too"),
    ("enter", "show the queue of the chosen lock, or of the first one"),
    ("esc", "back; in the list, let the chosen lock move again"),
    ("/", "list only what has a text in its name, host or program"),
    ("s", "sort by waiters, oldest wait, time held, name"),
    ("p", "all that is wrong, with the chains of deadlocks"),
    ("r", "revoke: ask the holder to give the lock up"),
    ("f", "freeze: keep all out of the lock, with a reason"),
    ("t", "thaw a frozen lock"),
    ("b", "break: take the lock away; the token must be typed"),
    ("Ctrl-L", "draw the screen anew"),
    ("Ctrl-Z", "stop this program; fg continues it"),
    ("q Ctrl-C", "quit"),
    ("", "The chosen lock keeps its line while the others move."),
    ("≥", "held at least so long: since it was seen to hold"),
];

const KEY_COLUMNS: u16 = 11;

pub(super) fn help(pen: &mut Pen<'_>, area: Rect) {
    pen.line(area, 0, "Keys", BOLD);
    for (row, (key, text)) in (1..).zip(HELP) {
        let cells = [
            Cell { text: key, width: KEY_COLUMNS, side: TextSide::Left, style: BOLD },
            Cell { text, width: area.width, side: TextSide::Left, style: PLAIN },
        ];
        pen.cells(area, row, PLAIN, &cells);
    }
    pen.line(area, area.height.saturating_sub(1), "any key: back", DIM);
}

/// Draws what is wrong, from this line on.
pub(super) fn problems(pen: &mut Pen<'_>, area: Rect, problems: &[Problem], from: usize) {
    pen.line(area, 0, "Problems", BOLD);
    let lines = problem_lines(problems, area.width);
    let room = usize::from(area.height.saturating_sub(2));
    if lines.is_empty() {
        pen.line(area, 1, "nothing is wrong, as far as can be seen", PLAIN);
    }
    for (row, (line, style)) in (1..).zip(lines.iter().skip(from).take(room)) {
        pen.line(area, row, line, *style);
    }
    let more = if lines.len() > from + room { "; more below: down" } else { "" };
    pen.line(area, area.height.saturating_sub(1), &format!("esc: back{more}"), DIM);
}

pub(super) fn problem_lines(problems: &[Problem], width: u16) -> Vec<(String, Style)> {
    let mut lines = Vec::new();
    for problem in problems {
        let indented = |text: &String| {
            let lines = wrapped(text, width.saturating_sub(4));
            lines.into_iter().map(|line| (format!("    {line}"), PLAIN)).collect::<Vec<_>>()
        };
        let what = wrapped(&format!("! {}", problem.what), width);
        lines.extend(what.into_iter().map(|line| (line, style(problem.weight))));
        lines.extend(problem.more.iter().flat_map(indented));
        lines.extend(problem.cure.iter().filter(|cure| !problem.more.contains(cure)).flat_map(indented));
    }
    lines
}
