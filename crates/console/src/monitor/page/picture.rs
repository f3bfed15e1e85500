//! The wait-for picture as SVG: once for wide pages, once for narrow ones. A style sheet shows one of them.

use std::fmt::Write as _;

use lockkeeper::QueueName;
use lockkeeper_monitor::{Arrow, Depicted, PictureLayout, ReadingDirection, Rectangle, Says, Side, WaitPicture};

use super::frame::Escaped;
use super::row::named;

/// What is free between a text and the edges of its box, in pixels.
const PADDING: f64 = 9.0;

/// How large the second line of a box is beside the first.
const SECOND: f64 = 0.885;

/// Draws a picture twice; `number` is its number on the page, `words` says the same.
pub(super) fn drawn(
    picture: &WaitPicture,
    number: usize,
    words: &str,
    kind_of: &dyn Fn(&QueueName) -> String,
) -> String {
    let one =
        |reading, class: &str| draw(picture, &PictureLayout::new(picture, reading), class, number, words, kind_of);
    let mut text = one(ReadingDirection::Across, "w");
    text += &one(ReadingDirection::Down, "t");
    text += "<p class=\"key\">Round: a program. Square: a lock. Dashed: waits for. Solid: held by.";
    if picture.arrows.iter().any(|arrow| arrow.says == Says::Ahead) {
        text += " Dotted: ahead in its queue.";
    }
    text + "</p>"
}

fn draw(
    picture: &WaitPicture,
    layout: &PictureLayout,
    class: &str,
    number: usize,
    words: &str,
    kind_of: &dyn Fn(&QueueName) -> String,
) -> String {
    let (width, height, id) = (layout.width, layout.height, format!("{class}{number}"));
    let mut svg = format!(
        "<svg class=\"pic {class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" \
         aria-labelledby=\"t{id} d{id}\"><title id=\"t{id}\">Who waits for whom</title><desc id=\"d{id}\">{}</desc>\
         <defs>{}{}</defs>",
        Escaped(words),
        marker(&format!("a{id}"), ""),
        marker(&format!("r{id}"), " class=\"in\""),
    );
    for (arrow, curve) in picture.arrows.iter().zip(&layout.curves) {
        let [begin, first, second, end] = curve.map(|(x, y)| format!("{x} {y}"));
        let Arrow { says, is_core, .. } = arrow;
        let class = match says {
            Says::WaitsFor => "waits",
            Says::Ahead => "ahead",
            _ => "held",
        };
        let (class_in, marker) = if *is_core { (" in", 'r') } else { ("", 'a') };
        let _ = write!(
            svg,
            "<path class=\"{class}{class_in}\" marker-end=\"url(#{marker}{id})\" \
             d=\"M{begin}C{first} {second} {end}\"/>"
        );
    }
    for (at, (depicted, place)) in picture.boxes.iter().zip(&layout.boxes).enumerate() {
        svg += &draw_box(depicted, place, picture.is_core(at), kind_of);
    }
    svg + "</svg>"
}

fn marker(id: &str, class: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\" markerUnits=\"userSpaceOnUse\"><path{class} d=\"M0 0L8 4L0 8z\"/></marker>"
    )
}

fn draw_box(depicted: &Depicted, place: &Rectangle, is_core: bool, kind_of: &dyn Fn(&QueueName) -> String) -> String {
    let (class, first, second) = match depicted {
        Depicted::Flow(info) => {
            let (first, second) = named(info);
            ("o", first, second)
        }
        Depicted::Lock(name) => ("l", name.as_str().to_owned(), kind_of(name)),
        Depicted::More(count, side) => {
            let what = if *side == Side::Holders { "hold it too" } else { "wait for it too" };
            ("o", format!("{count} more"), what.to_owned())
        }
        _ => ("o", String::new(), String::new()),
    };
    let Rectangle { x, y, width, height, .. } = place;
    let (class_in, round) = (if is_core { " in" } else { "" }, if class == "l" { 5 } else { height / 2 });
    let (middle, room) = (x + width / 2, f64::from(*width) - 2.0 * PADDING);
    let whole = format!("{first} {second}");
    let (first, second) = (shortened(&first, room), shortened(&second, room / SECOND));
    format!(
        "<g><title>{}</title><rect class=\"{class}{class_in}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
         height=\"{height}\" rx=\"{round}\"/><text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text class=\"s\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text></g>",
        Escaped(&whole),
        y + 20,
        Escaped(&first),
        y + 36,
        Escaped(&second),
    )
}

/// Shortens a text to what has room, in pixels of the first line's letters.
fn shortened(text: &str, room: f64) -> String {
    let text = crate::output::one_line(text);
    let mut taken = 0.0;
    let fits = |letter: &char| {
        taken += width(*letter);
        taken <= room
    };
    if text.chars().map(width).sum::<f64>() <= room {
        return text;
    }
    let mut short: String = text.chars().take_while(fits).collect();
    // The mark of what is left out needs the place of two letters.
    short.truncate(short.char_indices().rev().nth(1).map_or(0, |(at, _)| at));
    short + "…"
}

/// How wide a letter is at 13 pixels, at most, in the fonts that the style sheet names.
fn width(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'I' | ' ' => 4.6,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' => 5.6,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 13.2,
        'A'..='Z' | '_' | '<' | '>' | '=' | '+' => 11.0,
        '\u{0}'..='\u{10ff}' => 8.4,
        _ => 14.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_has_no_room_is_shortened_and_says_so() {
        assert_eq!(shortened("ledger", 100.0), "ledger");
        let short = shortened(&"WW鍵".repeat(60), 160.0);
        assert!(short.ends_with('…') && short.chars().map(width).sum::<f64>() <= 160.0, "{short}");
        assert!(shortened(&"i".repeat(33), 160.0).ends_with('i'));
    }
}
