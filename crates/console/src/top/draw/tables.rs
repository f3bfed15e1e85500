//! The tables: the list of locks, and the queue of one.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::pen::{
    BAD, BOLD, CHOSEN, Cell, DIM, GOOD, MILD, PLAIN, Pen, TextSide, columns, cut, table_row, written_columns,
};
use crate::output::{LockMark, brief};
use crate::top::app::App;
use crate::top::contender::{ContenderLine, QueueRole};
use crate::top::sight::LockLine;

/// The columns but those of the token, which is as wide as the longest, and of the name, which has the rest.
const POSITION_COLUMNS: u16 = 4;
const STATE_COLUMNS: u16 = 7;
const MODE_COLUMNS: u16 = 9;
const SINCE_COLUMNS: u16 = 8;

/// A window narrower than this has no room for the mode, the kind and the oldest wait.
const NARROW: u16 = 66;

/// Draws the queue, below it what was where there is room, and the chosen contender.
pub(super) fn queue(pen: &mut Pen<'_>, area: Rect, details: Rect, app: &App) {
    let queue = &app.sight.queue;
    let tokens: Vec<String> = queue.iter().map(token).collect();
    let token_columns = tokens.iter().map(|token| columns(token)).max().unwrap_or_default().max(5);
    queue_line(pen, area, 0, PLAIN, ["#", "STATE", "MODE", "SINCE", "TOKEN", "WHO"], [BOLD; 6], token_columns);
    if queue.is_empty() {
        pen.line(area, 1, "nothing holds it, and nothing waits for it", DIM);
    }
    let shown = queue.iter().zip(&tokens).skip(app.queue.offset()).take(app.lines);
    for (at, (one, token)) in (1..).zip(shown) {
        let background = if app.queue.chosen() == Some(&one.key) { CHOSEN } else { PLAIN };
        let position = one.position.to_string();
        let state = match one.state {
            QueueRole::Holds => GOOD,
            QueueRole::Freezes => MILD,
            QueueRole::Waits => PLAIN,
        };
        let texts = [&position, one.state.as_str(), one.mode, &one.since, token, &one.who];
        queue_line(pen, area, at, background, texts, [PLAIN, state, PLAIN, PLAIN, PLAIN, PLAIN], token_columns);
    }
    let below = queue.len().saturating_sub(app.queue.offset()).max(1) + 2;
    for (at, line) in (below..=app.lines).zip(&app.sight.past) {
        pen.line(area, u16::try_from(at).unwrap_or(u16::MAX), line, DIM);
    }
    if details.height > 0 {
        draw_details(pen, details, app);
    }
}

fn token(one: &ContenderLine) -> String {
    one.token.map_or_else(|| "-".to_owned(), |token| token.to_string())
}

/// What else is known of the chosen contender, two short lines side by side.
fn draw_details(pen: &mut Pen<'_>, area: Rect, app: &App) {
    let more = app.sight.queue_more;
    let Some(chosen) = app.chosen_contender() else {
        let text = if more > 0 { format!("{more} more wait behind these") } else { String::new() };
        pen.line(area, 0, &text, DIM);
        pen.line(area, 1, "the arrow keys choose a contender", DIM);
        return;
    };
    pen.line(area, 0, &format!("{}. {}", chosen.position, chosen.who), BOLD);
    let half = area.width / 2;
    let (mut row, mut held_back): (u16, Option<&str>) = (1, None);
    let mut write = |row: &mut u16, left: &str, right: Option<&str>| {
        let width = if right.is_some() { half.saturating_sub(1) } else { area.width };
        let mut cells = vec![Cell { text: left, width, side: TextSide::Left, style: PLAIN }];
        cells.extend(right.map(|text| Cell { text, width: half, side: TextSide::Left, style: PLAIN }));
        pen.cells(area, *row, PLAIN, &cells);
        *row += 1;
    };
    for detail in &chosen.details {
        let is_short = cut(detail, half.saturating_sub(1)).len() >= detail.len();
        match held_back.take() {
            Some(before) if is_short => write(&mut row, before, Some(detail)),
            Some(before) => {
                write(&mut row, before, None);
                write(&mut row, detail, None);
            }
            None if is_short => held_back = Some(detail),
            None => write(&mut row, detail, None),
        }
    }
    if let Some(last) = held_back {
        write(&mut row, last, None);
    }
}

fn queue_line(
    pen: &mut Pen<'_>,
    area: Rect,
    at: u16,
    background: Style,
    texts: [&str; 6],
    styles: [Style; 6],
    token_columns: u16,
) {
    let left_out: &[usize] = if area.width < NARROW { &[2] } else { &[] };
    let widths = [POSITION_COLUMNS, STATE_COLUMNS, MODE_COLUMNS, SINCE_COLUMNS, token_columns, area.width];
    let sides = [TextSide::Right, TextSide::Left, TextSide::Left, TextSide::Right, TextSide::Left, TextSide::Left];
    pen.cells(area, at, background, &table_row(texts, widths, sides, styles, left_out));
}

/// The columns of numbers, and that of the kind.
const KIND_COLUMNS: u16 = 10;
const WAITING_COLUMNS: u16 = 7;
const AGE_COLUMNS: u16 = 7;

/// The column of how many waited in the last hour, and how wide a window must be to have room for it.
const HOUR_COLUMNS: u16 = 12;
const WIDE: u16 = 100;

/// The names of locks have at least so many, and at most this part of the window.
const NAME_COLUMNS_MIN: u16 = 12;
const NAME_SHARE: u16 = 2;

pub(super) fn list(pen: &mut Pen<'_>, area: Rect, app: &App) {
    let rows = &app.sight.rows;
    let longest = rows.iter().map(|row| written_columns(row.lock.as_str())).max().unwrap_or_default();
    let name = longest.clamp(NAME_COLUMNS_MIN, (area.width / NAME_SHARE - 8).max(NAME_COLUMNS_MIN));
    let titles = ["LOCK", "KIND", "WAITING", "OLDEST", "HELD", "LAST HOUR", "HOLDER"];
    list_line(pen, area, 0, PLAIN, titles, [BOLD; 6], name);
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
    let texts = [row.lock.as_str(), &row.kind, &waiting, &oldest, held, &row.hour, &marked];
    list_line(pen, area, at, background, texts, [style, PLAIN, PLAIN, PLAIN, PLAIN, style], name);
}

fn list_line(
    pen: &mut Pen<'_>,
    area: Rect,
    at: u16,
    background: Style,
    texts: [&str; 7],
    styles: [Style; 6],
    name: u16,
) {
    let [lock, kind, waiting, oldest, held, hour, holder] = texts;
    let texts = [lock, kind, waiting, oldest, held, holder];
    let left_out: &[usize] = if area.width < NARROW { &[1, 3] } else { &[] };
    let widths = [name, KIND_COLUMNS, WAITING_COLUMNS, AGE_COLUMNS, AGE_COLUMNS, area.width];
    let sides = [TextSide::Left, TextSide::Left, TextSide::Right, TextSide::Right, TextSide::Right, TextSide::Left];
    let mut cells = table_row(texts, widths, sides, styles, left_out);
    if area.width >= WIDE {
        let holder = cells.len().saturating_sub(1);
        cells.insert(holder, Cell { text: hour, width: HOUR_COLUMNS, side: TextSide::Left, style: DIM });
    }
    pen.cells(area, at, background, &cells);
}
