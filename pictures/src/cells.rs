//! A terminal's screen as HTML: letters with their colours, from what a terminal is told (ECMA-48's select graphic
//! rendition). Other sequences are left out.

use std::fmt::Write as _;

/// The colours that have numbers from 0 to 15, on a dark ground.
const NAMED: [&str; 16] = [
    "#1b2229", "#f0716b", "#6cc9a1", "#e3b65a", "#6fb1ea", "#c494e8", "#5fc4cf", "#d5dce2", "#7c8994", "#ff9d97",
    "#8fe3c1", "#f3cf86", "#97c8f6", "#dab4f5", "#8adfe8", "#ffffff",
];

/// The colours of a screen that says none.
const INK: &str = "#d5dce2";
const GROUND: &str = "#12181d";

/// How letters look from here on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Look {
    ink: Option<String>,
    ground: Option<String>,
    is_bold: bool,
    is_faint: bool,
    is_underlined: bool,
    is_reversed: bool,
}

/// Returns a page with the screen.
pub(crate) fn page(screen: &str) -> String {
    let mut text = format!(
        "<!doctype html><meta charset=\"utf-8\"><style>body{{margin:0;background:{GROUND}}}\
         pre{{display:inline-block;margin:0;padding:12px 14px;color:{INK};background:{GROUND};\
         font:14px/18px \"DejaVu Sans Mono\",monospace}}</style><pre>"
    );
    let mut look = Look::default();
    let mut pieces = screen.trim_end_matches('\n').split('\u{1b}');
    text += &shown(pieces.next().unwrap_or_default(), &look);
    for piece in pieces {
        let (sequence, rest) = split(piece);
        if let Some(parameters) = sequence {
            look.change(parameters);
        }
        text += &shown(rest, &look);
    }
    text + "</pre>"
}

/// Splits what stands behind an escape into the parameters of a rendition, if it is one, and the letters behind it.
fn split(piece: &str) -> (Option<&str>, &str) {
    let Some(body) = piece.strip_prefix('[') else {
        // A choice of letters, two characters long.
        return (None, piece.get(2..).unwrap_or_default());
    };
    let Some(end) = body.find(|letter: char| letter.is_ascii_alphabetic()) else { return (None, "") };
    let (parameters, rest) = body.split_at(end);
    (rest.starts_with('m').then_some(parameters), &rest[1..])
}

impl Look {
    fn change(&mut self, parameters: &str) {
        let mut numbers = parameters.split([';', ':']).map(|number| number.parse::<u16>().unwrap_or(0));
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                2 => self.is_faint = true,
                4 => self.is_underlined = true,
                7 => self.is_reversed = true,
                22 => (self.is_bold, self.is_faint) = (false, false),
                24 => self.is_underlined = false,
                27 => self.is_reversed = false,
                30..=37 => self.ink = numbered(number - 30),
                38 => self.ink = chosen(&mut numbers),
                39 => self.ink = None,
                40..=47 => self.ground = numbered(number - 40),
                48 => self.ground = chosen(&mut numbers),
                49 => self.ground = None,
                90..=97 => self.ink = numbered(number - 82),
                100..=107 => self.ground = numbered(number - 92),
                _ => {}
            }
        }
    }

    fn style(&self) -> String {
        let (mut ink, mut ground) = (self.ink.as_deref(), self.ground.as_deref());
        if self.is_reversed {
            (ink, ground) = (Some(ground.unwrap_or(GROUND)), Some(ink.unwrap_or(INK)));
        }
        let mut style = String::new();
        for (is_so, what) in [
            (self.is_bold, "font-weight:bold;"),
            (self.is_faint, "opacity:.65;"),
            (self.is_underlined, "text-decoration:underline;"),
        ] {
            style += if is_so { what } else { "" };
        }
        for (name, color) in [("color", ink), ("background", ground)] {
            if let Some(color) = color {
                let _ = write!(style, "{name}:{color};");
            }
        }
        style
    }
}

/// A colour by its number of 256.
fn numbered(number: u16) -> Option<String> {
    let level = |step: u16| if step == 0 { 0 } else { 55 + 40 * step };
    match number {
        0..=15 => Some(NAMED[usize::from(number)].to_owned()),
        16..=231 => {
            let cube = number - 16;
            let [red, green, blue] = [cube / 36, cube / 6 % 6, cube % 6].map(level);
            Some(format!("rgb({red},{green},{blue})"))
        }
        232..=255 => {
            let gray = 8 + 10 * (number - 232);
            Some(format!("rgb({gray},{gray},{gray})"))
        }
        _ => None,
    }
}

/// A colour by the numbers that follow: one of 256, or three parts.
fn chosen(numbers: &mut impl Iterator<Item = u16>) -> Option<String> {
    match numbers.next()? {
        5 => numbered(numbers.next()?),
        2 => Some(format!("rgb({},{},{})", numbers.next()?, numbers.next()?, numbers.next()?)),
        _ => None,
    }
}

fn shown(letters: &str, look: &Look) -> String {
    let text = letters.replace('&', "&amp;").replace('<', "&lt;");
    match look.style() {
        _ if text.is_empty() => text,
        style if style.is_empty() => text,
        style => format!("<span style=\"{style}\">{text}</span>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(screen: &str) -> String {
        let page = page(screen);
        page.split_once("<pre>").unwrap().1.strip_suffix("</pre>").unwrap().to_owned()
    }

    #[test]
    fn letters_keep_their_looks_until_these_change() {
        let screen = "a \u{1b}[1;31mb\u{1b}[0mc\u{1b}[7md\u{1b}[27m\u{1b}[38;5;196me\u{1b}[39;48;2;1;2;3mf\n";
        let expected = format!(
            "a <span style=\"font-weight:bold;color:#f0716b;\">b</span>c\
             <span style=\"color:{GROUND};background:{INK};\">d</span><span style=\"color:rgb(255,0,0);\">e</span>\
             <span style=\"background:rgb(1,2,3);\">f</span>"
        );
        assert_eq!(body(screen), expected);
    }

    #[test]
    fn other_sequences_and_markup_are_no_letters_of_the_screen() {
        assert_eq!(body("\u{1b}(Bx\u{1b}[2Jy\u{1b}[1"), "xy");
        assert_eq!(body("<b>&"), "&lt;b>&amp;");
    }
}
