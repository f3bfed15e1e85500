//! Where things stand on the screen, and the lines at its head and at its foot.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::pen::{
    BAD, BOLD, Cell, DIM, GOOD, MILD, PLAIN, Pen, TextSide, columns, cut, style, wrapped, written_columns,
};
use super::{tables, texts};
use crate::output::brief;
use crate::top::app::{App, InputMode};
use crate::top::problems::Problem;

/// What is drawn at least: less has no room for a lock and an order.
const COLUMNS_MIN: u16 = 40;
const LINES_MIN: u16 = 10;

/// How many lines say what else is known of the chosen contender.
const DETAIL_LINES: u16 = 6;

/// How many lines what came of an order has at most.
const STATUS_LINES_MAX: usize = 3;

/// The keys, where all have room, and the most wanted ones.
const LIST_KEYS: [&str; 2] = [
    "enter queue  / filter  s sort  p problems  r f t b orders  ? help  q quit",
    "enter queue  / filter  ? help  q quit",
];
const QUEUE_KEYS: [&str; 2] =
    ["esc back  p problems  r revoke  f freeze  t thaw  b break  ? help  q quit", "esc back  ? help  q quit"];

struct ScreenParts {
    head: Rect,
    sum: Rect,
    problems: Rect,
    body: Rect,
    details: Rect,
    status: Rect,
    keys: Rect,
}

impl ScreenParts {
    fn new(app: &App, area: Rect) -> Self {
        let mut top = area.y;
        let mut take = |lines: u16| {
            let part = Rect { y: top, height: lines, ..area };
            top += lines;
            part
        };
        let wanted = shown_problems(app).map(|problem| 1 + u16::from(problem.cure.is_some())).sum::<u16>();
        let details = match app.lock {
            Some(_) if area.height >= LINES_MIN + DETAIL_LINES => DETAIL_LINES,
            _ => 0,
        };
        let status_lines = status_lines(&status(app).0, area.width).len();
        let status = u16::try_from(status_lines).unwrap_or(1);
        // Two lines at the head, the keys, and one for the names of the columns.
        let room = area.height.saturating_sub(2 + details + status + 1 + 1);
        let problems = wanted.min(area.height / 3).min(room);
        let (head, sum, problems_at) = (take(1), take(1), take(problems));
        let body = area.height.saturating_sub(2 + problems + details + status + 1);
        Self {
            head,
            sum,
            problems: problems_at,
            body: take(body),
            details: take(details),
            status: take(status),
            keys: take(1),
        }
    }
}

fn is_too_small(area: Rect) -> bool {
    area.width < COLUMNS_MIN || area.height < LINES_MIN
}

/// Notes how many rows have room in a window of this size, and brings the chosen row into it.
pub(in crate::top) fn fit(app: &mut App, area: Rect) {
    if is_too_small(area) {
        return;
    }
    // A line has the names of the columns.
    app.lines = usize::from(ScreenParts::new(app, area).body.height.saturating_sub(1));
    app.list.scroll(app.sight.rows.len(), app.lines);
    app.queue.scroll(app.sight.queue.len(), app.lines);
    if let InputMode::Problems(from) = &mut app.mode {
        *from = (*from).min(texts::problem_lines(&app.sight.problems, area.width).len().saturating_sub(1));
    }
}

pub(in crate::top) fn draw(frame: &mut Frame<'_>, app: &App) {
    let area = frame.area();
    let mut pen = Pen::new(frame.buffer_mut());
    if is_too_small(area) {
        pen.line(area, 0, &format!("{COLUMNS_MIN} x {LINES_MIN} at least"), PLAIN);
        return;
    }
    let parts = ScreenParts::new(app, area);
    head(&mut pen, parts.head, app);
    match app.mode {
        InputMode::Help => texts::help(&mut pen, below(area, parts.head)),
        InputMode::Problems(from) => texts::problems(&mut pen, below(area, parts.head), &app.sight.problems, from),
        _ => {
            sum(&mut pen, parts.sum, app);
            problems(&mut pen, parts.problems, app);
            match &app.lock {
                Some(_) => tables::queue(&mut pen, parts.body, parts.details, app),
                None => tables::list(&mut pen, parts.body, app),
            }
            draw_status(&mut pen, parts.status, app);
            keys(&mut pen, parts.keys, app);
        }
    }
    if let InputMode::Ask(asked) = &app.mode {
        let at = texts::question(&mut pen, below(area, parts.head), asked);
        frame.set_cursor_position(at);
    }
}

fn below(area: Rect, head: Rect) -> Rect {
    Rect { y: head.bottom(), height: area.bottom().saturating_sub(head.bottom()), ..area }
}

/// The name of the service, and how old all of it is.
fn head(pen: &mut Pen<'_>, area: Rect, app: &App) {
    let badge = &app.sight.freshness;
    let style = if badge.is_fresh { GOOD } else { BAD };
    let badge_width = columns(&badge.text).min(area.width / 2);
    let service_width = area.width.saturating_sub(11 + 1 + badge_width + 1);
    let cells = [
        Cell { text: "Lockkeeper", width: 11, side: TextSide::Left, style: BOLD },
        Cell { text: &app.service, width: service_width, side: TextSide::Left, style: PLAIN },
        Cell { text: &badge.text, width: badge_width, side: TextSide::Right, style },
    ];
    pen.cells(area, 0, PLAIN, &cells);
}

/// All locks in a few numbers, or the lock whose queue is shown.
fn sum(pen: &mut Pen<'_>, area: Rect, app: &App) {
    let Some(lock) = &app.lock else {
        let sum = &app.sight.sum;
        let longest = sum.longest.as_ref().map(|(age, lock)| format!(", longest for {}: {lock}", brief(*age)));
        let text = format!("{} in use, {} waiting{}", locks(sum.locks), sum.waiting, longest.unwrap_or_default());
        pen.line(area, 0, &text, PLAIN);
        return;
    };
    let rest = app.sight.lock.as_ref().map_or_else(
        || "free".to_owned(),
        |row| {
            let oldest = row.oldest.map(|oldest| format!(", oldest wait {}", brief(oldest))).unwrap_or_default();
            let held = row.held.as_ref().map(|held| format!(", held for {held}")).unwrap_or_default();
            format!("{}{held}, {} waiting{oldest}", row.kind, row.waiters)
        },
    );
    let rest_width = columns(&rest).min(area.width / 2);
    let name_width = written_columns(lock.as_str()).min(area.width.saturating_sub(rest_width + 1)).max(8);
    let cells = [
        Cell { text: lock.as_str(), width: name_width, side: TextSide::Left, style: BOLD },
        Cell { text: &rest, width: area.width, side: TextSide::Left, style: PLAIN },
    ];
    pen.cells(area, 0, PLAIN, &cells);
}

fn locks(count: usize) -> String {
    format!("{count} {}", if count == 1 { "lock" } else { "locks" })
}

/// What is wrong with the locks that are shown; with no service it is wrong with all.
fn shown_problems(app: &App) -> impl Iterator<Item = &Problem> {
    let is_shown = |problem: &&Problem| match &app.lock {
        Some(lock) => problem.locks.is_empty() || problem.locks.contains(lock),
        None => true,
    };
    app.sight.problems.iter().filter(is_shown)
}

/// What is wrong, each with what an operator does about it, as far as there is room.
fn problems(pen: &mut Pen<'_>, area: Rect, app: &App) {
    let mut row = 0;
    let mut left = shown_problems(app).count();
    for problem in shown_problems(app) {
        let lines = 1 + u16::from(problem.cure.is_some());
        // The last line is for what has no room.
        let room = area.height.saturating_sub(row + u16::from(left > 1));
        if lines > room && (row > 0 || room == 0) {
            break;
        }
        pen.line(area, row, &format!("! {}", problem.what), style(problem.weight));
        if let Some(cure) = problem.cure.as_ref().filter(|_| lines <= room) {
            pen.line(area, row + 1, &format!("  {cure}"), PLAIN);
        }
        row += lines.min(room);
        left -= 1;
    }
    if left > 0 {
        pen.line(area, row, &format!("! {left} more: p"), MILD);
    }
}

/// What came of the last order or key, what is under way, or else how the list was chosen.
fn status(app: &App) -> (String, Style) {
    if matches!(app.mode, InputMode::Filter) {
        return (format!("filter: {}_", app.query.filter), BOLD);
    }
    if let Some(notice) = &app.notice {
        return (notice.text.clone(), if notice.is_failure { BAD } else { BOLD });
    }
    if let Some(under_way) = &app.under_way {
        return (under_way.clone(), BOLD);
    }
    if app.lock.is_some() {
        return (String::new(), PLAIN);
    }
    let filter = match app.query.filter.as_str() {
        "" => String::new(),
        filter => format!(", filter: {filter}"),
    };
    let shown = app.sight.rows.len();
    let cut = if app.sight.total > shown { format!(", {shown} of {}", app.sight.total) } else { String::new() };
    (format!("sorted by {}{cut}{filter}", app.query.sort.as_str()), DIM)
}

/// Breaks it into lines; the last one that has room is cut.
fn status_lines(text: &str, width: u16) -> Vec<String> {
    let mut lines = wrapped(text, width);
    if lines.len() > STATUS_LINES_MAX {
        let rest = lines.split_off(STATUS_LINES_MAX - 1).join(" ");
        lines.push(cut(&rest, width));
    }
    lines
}

fn draw_status(pen: &mut Pen<'_>, area: Rect, app: &App) {
    let (text, style) = status(app);
    for (row, line) in (0..).zip(status_lines(&text, area.width)) {
        pen.line(area, row, &line, style);
    }
}

fn keys(pen: &mut Pen<'_>, area: Rect, app: &App) {
    let choice = if app.lock.is_some() { QUEUE_KEYS } else { LIST_KEYS };
    let [all, some] = choice;
    pen.line(area, 0, if columns(all) <= area.width { all } else { some }, DIM);
}
