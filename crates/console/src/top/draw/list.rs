//! The locks, one a line.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::pen::{BAD, BOLD, CHOSEN, DIM, MILD, PLAIN, Pen, TextSide, table_row, written_columns};
use crate::output::{LockMark, brief};
use crate::top::app::App;
use crate::top::sight::LockLine;

/// The columns of numbers, and that of the kind.
const KIND_COLUMNS: u16 = 10;
const WAITING_COLUMNS: u16 = 7;
const AGE_COLUMNS: u16 = 7;

/// The names of locks have at least so many, and at most this part of the window.
const NAME_COLUMNS_MIN: u16 = 12;
const NAME_SHARE: u16 = 2;

/// A window narrower than this has no room for the kind and the oldest wait.
const NARROW: u16 = 66;

pub(super) fn list(pen: &mut Pen<'_>, area: Rect, app: &App) {
    let rows = &app.sight.rows;
    let longest = rows.iter().map(|row| written_columns(row.lock.as_str())).max().unwrap_or_default();
    let name = longest.clamp(NAME_COLUMNS_MIN, (area.width / NAME_SHARE - 8).max(NAME_COLUMNS_MIN));
    let titles = ["LOCK", "KIND", "WAITING", "OLDEST", "HELD", "HOLDER"];
    line(pen, area, 0, PLAIN, titles, [BOLD; 6], name);
    if rows.is_empty() {
        let text = match app.query.filter.as_str() {
            "" if app.sight.freshness.is_fresh => "no lock is in use",
            "" => "",
            _ => "no lock is in use that the filter asks for",
        };
        pen.line(area, 1, text, DIM);
    }
    for (at, row) in (1..).zip(rows.iter().skip(app.list.offset()).take(app.lines)) {
        let is_chosen = app.list.chosen() == Some(&row.lock);
        draw_row(pen, area, at, row, if is_chosen { CHOSEN } else { PLAIN }, name);
    }
}

fn draw_row(pen: &mut Pen<'_>, area: Rect, at: u16, row: &LockLine, background: Style, name: u16) {
    let waiting = row.waiters.to_string();
    let oldest = row.oldest.map_or_else(|| "-".to_owned(), brief);
    let (marked, style) = match row.mark {
        LockMark::Deadlock => (format!("deadlock: {}", row.holders), BAD),
        LockMark::Told(words) => (format!("{words}: {}", row.holders), MILD),
        LockMark::Frozen => (row.holders.clone(), MILD),
        LockMark::None => (row.holders.clone(), PLAIN),
    };
    let held = row.held.as_deref().unwrap_or("-");
    let texts = [row.lock.as_str(), &row.kind, &waiting, &oldest, held, &marked];
    line(pen, area, at, background, texts, [style, PLAIN, PLAIN, PLAIN, PLAIN, style], name);
}

fn line(pen: &mut Pen<'_>, area: Rect, at: u16, background: Style, texts: [&str; 6], styles: [Style; 6], name: u16) {
    let left_out: &[usize] = if area.width < NARROW { &[1, 3] } else { &[] };
    let widths = [name, KIND_COLUMNS, WAITING_COLUMNS, AGE_COLUMNS, AGE_COLUMNS, area.width];
    let sides = [TextSide::Left, TextSide::Left, TextSide::Right, TextSide::Right, TextSide::Right, TextSide::Left];
    pen.cells(area, at, background, &table_row(texts, widths, sides, styles, left_out));
}
