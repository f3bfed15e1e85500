//! The question before an order, in the middle of the screen.

use ratatui::layout::{Position, Rect};

use super::pen::{BAD, BOLD, Cell, DIM, PLAIN, Pen, TextSide, columns, cut, wrapped};
use crate::top::question::Question;

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
