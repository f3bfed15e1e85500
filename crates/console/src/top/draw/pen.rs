//! The only way to the cells: nothing that a terminal obeys or that turns the reading direction, and no more than there
//! is room for.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use crate::output::one_line;
use crate::top::problems::Weight;

/// What stands for the rest of a text that is cut.
const CUT: &str = "…";

pub(super) const PLAIN: Style = Style::new();
pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
pub(super) const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
pub(super) const MILD: Style = Style::new().fg(Color::Yellow);
pub(super) const GOOD: Style = Style::new().fg(Color::Green);

pub(super) struct Pen<'a> {
    buffer: &'a mut Buffer,
}

/// Where a text stands in its room.
#[derive(Clone, Copy, Debug)]
pub(super) enum TextSide {
    Left,
    Right,
}

/// One cell of a line, with the columns that it may fill.
#[derive(Clone, Debug)]
pub(super) struct Cell<'a> {
    pub(super) text: &'a str,
    pub(super) width: u16,
    pub(super) side: TextSide,
    pub(super) style: Style,
}

/// The cells of a row of a table, but for those of columns that are left out.
pub(super) fn table_row<'a>(
    texts: [&'a str; 6],
    widths: [u16; 6],
    sides: [TextSide; 6],
    styles: [Style; 6],
    left_out: &[usize],
) -> Vec<Cell<'a>> {
    let cell = |at: usize| Cell { text: texts[at], width: widths[at], side: sides[at], style: styles[at] };
    (0..6).filter(|at| !left_out.contains(at)).map(cell).collect()
}

impl<'a> Pen<'a> {
    pub(super) const fn new(buffer: &'a mut Buffer) -> Self {
        Self { buffer }
    }

    /// Writes a text at the start of a row of `area`.
    pub(super) fn line(&mut self, area: Rect, row: u16, text: &str, style: Style) {
        self.cells(area, row, PLAIN, &[Cell { text, width: area.width, side: TextSide::Left, style }]);
    }

    /// Writes texts side by side into a row of `area`, one column apart.
    pub(super) fn cells(&mut self, area: Rect, row: u16, background: Style, cells: &[Cell<'_>]) {
        let y = area.y.saturating_add(row);
        if row >= area.height || y >= self.buffer.area.bottom() {
            return;
        }
        self.buffer.set_style(Rect { y, height: 1, ..area }, background);
        let mut x = area.x;
        for Cell { text, width, side, style } in cells {
            let room = (*width).min(area.right().saturating_sub(x));
            let text = cut(text, room);
            let pad = match side {
                TextSide::Left => 0,
                TextSide::Right => room.saturating_sub(columns(&text)),
            };
            self.buffer.set_stringn(x + pad, y, &text, usize::from(room - pad), background.patch(*style));
            x = x.saturating_add(room).saturating_add(1);
        }
    }

    /// Empties an area and draws a frame around it; returns what is inside.
    pub(super) fn frame(&mut self, area: Rect, title: &str) -> Rect {
        use ratatui::widgets::{Block, Clear, Widget as _};
        Clear.render(area, self.buffer);
        let block = Block::bordered().title(format!(" {} ", one_line(title)));
        let inside = block.inner(area);
        block.render(area, self.buffer);
        Rect { x: inside.x + 1, width: inside.width.saturating_sub(2), ..inside }
    }
}

/// How many columns a text takes as it is written.
pub(super) fn written_columns(text: &str) -> u16 {
    columns(&one_line(text))
}

/// How many columns a text takes, in which nothing has to be escaped.
pub(super) fn columns(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

/// Returns a text as it is written into this much room.
pub(super) fn cut(text: &str, room: u16) -> String {
    let text = one_line(text);
    if columns(&text) <= room {
        return text;
    }
    let mut kept = String::new();
    let mut left = room.saturating_sub(columns(CUT));
    for letter in text.chars() {
        let width = columns(letter.encode_utf8(&mut [0; 4]));
        if width > left {
            break;
        }
        left -= width;
        kept.push(letter);
    }
    if room > 0 { kept + CUT } else { kept }
}

/// Breaks a text into lines of this width, between words where it has some.
pub(super) fn wrapped(text: &str, width: u16) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in one_line(text).split(' ') {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        for letter in word.chars() {
            if columns(&line) + columns(letter.encode_utf8(&mut [0; 4])) > width && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line.push(letter);
        }
    }
    lines.push(line);
    lines
}

pub(super) const fn style(weight: Weight) -> Style {
    match weight {
        Weight::Bad => BAD,
        Weight::Mild => MILD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_escaped_before_it_is_cut() {
        assert_eq!(cut("a\u{1b}[2J\u{202e}b", 40), "a\\u{1b}[2J\\u{202e}b");
        assert_eq!(cut("a\u{1b}[2J", 5), "a\\u{…");
        assert_eq!(cut("鍵鍵鍵", 5), "鍵鍵…");
        assert_eq!((cut("ab", 0), cut("ab", 1), cut("ab", 2)), (String::new(), "…".to_owned(), "ab".to_owned()));
    }

    #[test]
    fn a_text_is_broken_between_words_and_within_one_that_has_no_room() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("\u{9b}", 3), ["\\u{", "9b}"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
