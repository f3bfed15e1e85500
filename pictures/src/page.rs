//! Pictures of pages in a browser, and of a command's drawing on a terminal of 80 columns and 24 lines, in `tmux`,
//! whose screen becomes HTML: letters with their colours, by ECMA-48's select graphic rendition. Other sequences are
//! left out.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use lockkeeper_faults::browser::Browser;
use lockkeeper_faults::{Availability, Error, Result, wait};
use tempfile::NamedTempFile;

use crate::fleet::{Fleet, said};

/// How long a page may take until all that it is to show is on it.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);

/// A picture of the monitor's page.
pub(crate) struct Picture {
    pub(crate) name: &'static str,
    path: &'static str,
    scheme: &'static str,
    width: u32,
    /// At most: a page that is shorter has a picture of its height.
    height: u32,
    /// What returns whether all is there.
    is_shown: &'static str,
}

/// The list: a deadlock with its picture, and a lock that four makes of contenders want.
const LIST_IS_SHOWN: &str = "return document.querySelector('.problem:not(.mild) svg.pic') !== null
    && document.body.textContent.includes('nightly-backup') && document.getElementById('live').textContent === 'live'";

const QUEUE_IS_SHOWN: &str = "return document.querySelectorAll('#queue tbody tr').length === 5
    && document.getElementById('live').textContent === 'live'";

pub(crate) const PICTURES: &[Picture] = &[
    Picture { name: "page", path: "", scheme: "light", width: 1_200, height: 1_400, is_shown: LIST_IS_SHOWN },
    Picture { name: "page-dark", path: "", scheme: "dark", width: 1_200, height: 1_400, is_shown: LIST_IS_SHOWN },
    Picture { name: "page-telephone", path: "", scheme: "light", width: 390, height: 844, is_shown: LIST_IS_SHOWN },
    Picture {
        name: "page-lock",
        path: "lock?name=nightly-backup",
        scheme: "light",
        width: 1_200,
        height: 1_200,
        is_shown: QUEUE_IS_SHOWN,
    },
];

impl Picture {
    /// Takes it of the monitor that is at this URL.
    pub(crate) async fn take(&self, browser: &Browser, at: &str) -> Result<Vec<u8>> {
        browser.resize(self.width, self.height)?;
        browser.prefer(self.scheme)?;
        // Rows keep their places on a page that is open. Once all is known it is opened again, to have them in order.
        for _ in 0..2 {
            browser.open(&format!("{at}/{}", self.path))?;
            let is_shown = async || browser.run(self.is_shown).is_ok_and(|shown| shown == true).then_some(());
            wait::until(&format!("all of the picture {}", self.name), SHOWN_WITHIN, is_shown).await?;
        }
        let (_, height) = size(browser, "html")?;
        browser.resize(self.width, self.height.min(height))?;
        browser.picture()
    }
}

/// How wide and high an element is, in whole pixels.
fn size(browser: &Browser, selector: &str) -> Result<(u32, u32)> {
    let size = browser.run(&format!(
        "const {{ width, height }} = document.querySelector('{selector}').getBoundingClientRect();
        return [Math.ceil(width), Math.ceil(height)]"
    ))?;
    let pixels = |at: usize| size[at].as_u64().and_then(|pixels| u32::try_from(pixels).ok());
    pixels(0).zip(pixels(1)).ok_or_else(|| Error::new(format!("{selector} has the size {size}")))
}

/// Takes a picture of a terminal's screen.
pub(crate) fn of_terminal(browser: &Browser, screen: &str) -> Result<Vec<u8>> {
    let file = NamedTempFile::with_suffix(".html").map_err(Error::io("a temporary file"))?;
    std::fs::write(file.path(), html_page(screen)).map_err(Error::io(file.path().display()))?;
    browser.open(&format!("file://{}", file.path().display()))?;
    let (width, height) = size(browser, "pre")?;
    browser.resize(width, height)?;
    browser.picture()
}

const COLUMNS: &str = "80";
const LINES: &str = "24";

/// How long it may take to draw.
const DRAWN_WITHIN: Duration = Duration::from_secs(30);

/// Whether there is a terminal to draw on.
pub(crate) fn availability() -> Availability {
    match Command::new("tmux").arg("-V").stdout(Stdio::null()).status() {
        Ok(_) => Availability::Present,
        Err(error) => Availability::Missing(format!("tmux: {error} (Debian: tmux)")),
    }
}

/// A terminal; dropping it ends what runs on it.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn asked(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(arguments);
        said("tmux", command)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may not have begun.
        let _ = self.asked(&["kill-server"]);
    }
}

/// Runs a command of ours on a terminal until a text is on its screen; answers the screen with its colours, as a
/// terminal is told them.
pub(crate) async fn screen(fleet: &Fleet, word: &str, text: &str) -> Result<String> {
    let terminal = Terminal { socket: fleet.folder().join("terminal") };
    let mut command = fleet.program_on("web-1", "tmux")?;
    command.env("LANG", "C.UTF-8").arg("-S").arg(&terminal.socket).args(["-f", "/dev/null", "new-session", "-d"]);
    command.args(["-x", COLUMNS, "-y", LINES]).arg(format!("'{}' {word}", fleet.command().display()));
    said("tmux", command)?;
    let mut seen = String::new();
    let is_drawn = async || {
        // Once more than it was seen: drawn to its end.
        let now = terminal.asked(&["capture-pane", "-e", "-p"]).unwrap_or_default();
        let is_so = now.contains(text) && now == seen;
        seen.clone_from(&now);
        is_so.then_some(now)
    };
    wait::until(&format!("{text} on the screen of {word}"), DRAWN_WITHIN, is_drawn).await
}

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

fn html_page(screen: &str) -> String {
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
        let page = html_page(screen);
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
