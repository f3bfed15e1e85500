//! The full texts: problems, the help, and the question before an order.

use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

use super::pen::{BAD, BOLD, Cell, DIM, PLAIN, Pen, TextSide, columns, cut, style, wrapped};
use crate::top::problems::Problem;
use crate::top::question::Question;

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

/// How wide it is at most.
const COLUMNS_MAX: u16 = 72;

/// The names of what was seen.
const NAME_COLUMNS: u16 = 8;

/// Draws a question; returns where its answer is typed.
pub(super) fn question(pen: &mut Pen<'_>, area: Rect, question: &Question) -> Position {
    let width = area.width.min(COLUMNS_MAX);
    // The frame, and a column on each side.
    let room = width.saturating_sub(4);
    let seen = question.seen();
    let warning = wrapped(question.warning(), room);
    let refusal = question.refusal.as_deref().map(|refusal| wrapped(refusal, room)).unwrap_or_default();
    let needed = rows(refusal.len()) + u16::from(question.wants().is_some()) + 1;
    let height = (rows(seen.len()) + 1 + rows(warning.len()) + 1 + needed + 2).min(area.height);
    let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 2);
    let inside = pen.frame(Rect { x, y, width, height }, question.title());

    // In a low window what was seen and what is typed is more than what the order does.
    let upper = Rect { height: inside.height.saturating_sub(needed), ..inside };
    for (row, (name, value)) in (0..).zip(&seen) {
        let name = Cell { text: name, width: NAME_COLUMNS, side: TextSide::Left, style: PLAIN };
        let value = Cell { text: value, width: upper.width, side: TextSide::Left, style: BOLD };
        pen.cells(upper, row, PLAIN, &[name, value]);
    }
    for (row, line) in (rows(seen.len()) + 1..).zip(&warning) {
        pen.line(upper, row, line, PLAIN);
    }
    let lower = Rect { y: upper.bottom(), height: inside.height - upper.height, ..inside };
    for (row, line) in (0..).zip(&refusal) {
        pen.line(lower, row, line, BAD);
    }
    answer(
        pen,
        Rect { y: lower.y + rows(refusal.len()), height: lower.height.saturating_sub(rows(refusal.len())), ..lower },
        question,
    )
}

/// The line that is typed, and the keys.
fn answer(pen: &mut Pen<'_>, area: Rect, question: &Question) -> Position {
    let Some(wants) = question.wants() else {
        pen.line(area, 0, question.keys(), BOLD);
        return Position::new(area.x, area.y);
    };
    let label = format!("{wants}: ");
    let tail = tail(&question.typed, area.width.saturating_sub(columns(&label) + 1));
    pen.line(area, 0, &(label.clone() + &tail), BOLD);
    pen.line(area, 1, "Enter does it; Esc does nothing", DIM);
    Position::new(area.x + columns(&label) + columns(&tail), area.y)
}

/// The end of what is typed, which is what a person looks at.
fn tail(typed: &str, room: u16) -> String {
    let mut text = cut(typed, u16::MAX);
    while columns(&text) > room {
        text.remove(0);
    }
    text
}

fn rows(lines: usize) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX)
}
