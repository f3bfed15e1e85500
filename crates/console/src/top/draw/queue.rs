//! One lock's contenders in their order, and what else is known of the chosen one.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::pen::{BOLD, CHOSEN, Cell, DIM, GOOD, MILD, PLAIN, Pen, TextSide, columns, cut, table_row};
use crate::top::app::App;
use crate::top::contender::{ContenderRow, QueueRole};

/// The columns but those of the token, which is as wide as the longest, and of the name, which has the rest.
const POSITION_COLUMNS: u16 = 4;
const STATE_COLUMNS: u16 = 7;
const MODE_COLUMNS: u16 = 9;
const SINCE_COLUMNS: u16 = 8;

/// A window narrower than this has no room for the mode.
const NARROW: u16 = 66;

/// Draws the queue, and below it the chosen contender.
pub(super) fn queue(pen: &mut Pen<'_>, area: Rect, details: Rect, app: &App) {
    let queue = &app.sight.queue;
    let tokens: Vec<String> = queue.iter().map(token).collect();
    let token_columns = tokens.iter().map(|token| columns(token)).max().unwrap_or_default().max(5);
    line(pen, area, 0, PLAIN, ["#", "STATE", "MODE", "SINCE", "TOKEN", "WHO"], [BOLD; 6], token_columns);
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
        line(pen, area, at, background, texts, [PLAIN, state, PLAIN, PLAIN, PLAIN, PLAIN], token_columns);
    }
    if details.height > 0 {
        draw_details(pen, details, app);
    }
}

fn token(one: &ContenderRow) -> String {
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

fn line(
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
