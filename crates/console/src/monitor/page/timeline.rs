//! The timeline of a lock as SVG: who held it as bars, how long its queue was above them, and when nothing was seen.
//!
//! One drawing for all widths: a browser stretches it, and its words stand beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use lockkeeper_monitor::history::{LengthStep, LockPast, PastContender, PastEnd};

use super::frame::Escaped;
use super::frame::thousands;
use crate::output::marks::hour;
use crate::output::{brief, millis, past_name};

/// How wide the drawing is in its own units.
const WIDTH: f64 = 1_000.0;

/// How high the picture of the queue is.
const QUEUE_HEIGHT: f64 = 56.0;

/// How high a row of bars is, with the room above it.
const LANE_HEIGHT: f64 = 22.0;

/// How many rows of bars there are: of more holders at once the others lie upon each other.
const LANES_MAX: usize = 4;

/// Into how many cells the time is divided: shorter holds of one cell are one bar.
const CELLS: u32 = 250;

/// How many bars are drawn, the newest ones.
const BARS_MAX: usize = 500;

/// How many hosts have a colour; the others share one.
pub(super) const COLOURS: usize = 8;

/// How many marks of one line are named.
const MARKS_NAMED_MAX: usize = 5;

/// How many hosts of one bar are named.
const HOSTS_NAMED_MAX: usize = 3;

/// The time that is shown, since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeWindow {
    pub(super) from: Duration,
    pub(super) until: Duration,
}

/// A hold, or several short ones.
#[derive(Debug)]
pub(super) struct HoldBar<'a> {
    pub(super) holds: Vec<&'a PastContender<'a>>,
    lane: usize,
    /// Which colour it has.
    colour: usize,
}

#[derive(Debug)]
pub(super) struct Timeline<'a> {
    window: TimeWindow,
    past: &'a LockPast<'a>,
    /// The oldest first.
    pub(super) bars: Vec<HoldBar<'a>>,
    /// The hosts in the order of their colours.
    pub(super) hosts: Vec<&'a str>,
    lanes: usize,
}

impl TimeWindow {
    fn span(self) -> Duration {
        self.until.saturating_sub(self.from)
    }

    /// Where a moment is, in units of the drawing.
    fn at(self, moment: Duration) -> f64 {
        let passed = moment.clamp(self.from, self.until).saturating_sub(self.from);
        WIDTH * passed.as_secs_f64() / self.span().as_secs_f64().max(0.001)
    }

    fn cell(self) -> Duration {
        self.span() / CELLS
    }
}

impl<'a> HoldBar<'a> {
    fn from(&self) -> Duration {
        self.holds.iter().map(|hold| hold.from_unix).min().unwrap_or_default()
    }

    fn until(&self) -> Duration {
        self.holds.iter().map(|hold| hold.until_unix).max().unwrap_or_default()
    }

    /// Names it on the page: of those that begin at the same time each is in another row.
    pub(super) fn id(&self) -> String {
        format!("h{}-{}", millis(self.from()), self.lane)
    }

    /// The hold that it is, if it is one alone.
    pub(super) fn only(&self) -> Option<&'a PastContender<'a>> {
        (self.holds.len() == 1).then(|| self.holds[0])
    }

    /// Says who held, with which token, for how long and how it ended.
    pub(super) fn words(&self) -> String {
        if let Some(hold) = self.only() {
            let (host, rest) = past_name(hold);
            let token = hold.token.map(|token| format!(", token {token}")).unwrap_or_default();
            let ended =
                if hold.end == PastEnd::Holds { "holds it now".to_owned() } else { hold.end.as_str().to_owned() };
            return format!("{host} {rest}{token}, from {} for {}, {ended}", hour(hold.from_unix), held(hold.held()));
        }
        let longest = self.holds.iter().map(|hold| hold.held()).max().unwrap_or_default();
        format!(
            "{} holds by {}, from {} to {}, the longest for {}",
            thousands(self.holds.len()),
            self.hosts(),
            hour(self.from()),
            hour(self.until()),
            held(longest)
        )
    }

    /// Names the hosts.
    pub(super) fn hosts(&self) -> String {
        let hosts: BTreeSet<&str> = self.holds.iter().map(|hold| hold.host).collect();
        let named: Vec<_> = hosts.iter().take(HOSTS_NAMED_MAX).copied().collect();
        match hosts.len() - named.len() {
            0 => named.join(", "),
            more => format!("{} and {} more", named.join(", "), thousands(more)),
        }
    }

    fn class(&self) -> String {
        let worst = |end| self.holds.iter().any(|hold| hold.end == end);
        let mark = match () {
            () if worst(PastEnd::Lost) => " lost",
            () if worst(PastEnd::Unseen) => " unseen",
            () => "",
        };
        format!("c{}{mark}", self.colour)
    }
}

/// Says how long a hold was: short ones in milliseconds.
pub(super) fn held(held: Duration) -> String {
    if held < Duration::from_secs(1) { format!("{}ms", held.as_millis()) } else { brief(held) }
}

impl<'a> Timeline<'a> {
    pub(super) fn new(past: &'a LockPast<'a>, window: TimeWindow) -> Self {
        let holds = past.contenders.iter().filter(|one| one.end != PastEnd::GaveUp);
        let mut short: BTreeMap<u128, Vec<&PastContender<'_>>> = BTreeMap::new();
        let mut groups = Vec::new();
        for hold in holds {
            if hold.held() < window.cell() {
                let cell = hold.from_unix.as_millis() / window.cell().as_millis().max(1);
                short.entry(cell).or_default().push(hold);
            } else {
                groups.push(vec![hold]);
            }
        }
        groups.extend(short.into_values());
        let hosts: BTreeSet<&str> = groups.iter().flatten().map(|hold| hold.host).collect();
        let hosts: Vec<_> = hosts.into_iter().collect();
        let colour = |host: &str| hosts.binary_search(&host).unwrap_or(COLOURS).min(COLOURS);
        let bar = |holds: Vec<&'a PastContender<'a>>| {
            let colour = holds.first().map_or(COLOURS, |hold| colour(hold.host));
            HoldBar { holds, lane: 0, colour }
        };
        let mut bars: Vec<_> = groups.into_iter().map(bar).collect();
        bars.sort_by_key(HoldBar::from);
        bars.drain(..bars.len().saturating_sub(BARS_MAX));
        let lanes = spread(&mut bars);
        Self { window, past, bars, hosts, lanes }
    }

    /// Returns the drawing; `words` says the same in a sentence.
    pub(super) fn svg(&self, words: &str) -> String {
        let height = QUEUE_HEIGHT + LANE_HEIGHT * self.lanes as f64;
        let mut svg = format!(
            "<svg class=\"line\" viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" height=\"{height}\" \
             role=\"group\" aria-labelledby=\"lt ld\"><title id=\"lt\">Who held it, and how many waited</title>\
             <desc id=\"ld\">{}</desc><defs><pattern id=\"hatch\" width=\"8\" height=\"8\" \
             patternUnits=\"userSpaceOnUse\"><path d=\"M0 8L8 0\"/></pattern></defs>",
            Escaped(words)
        );
        svg += &self.freezes(height);
        svg += &self.queue();
        let _ = write!(svg, "<path class=\"base\" d=\"M0 {QUEUE_HEIGHT}H{WIDTH}\"/>");
        for bar in &self.bars {
            svg += &self.bar(bar);
        }
        svg += &self.gaps(height);
        svg += &self.marks(height);
        svg + "</svg>"
    }

    /// How many waited at most, of the time that is shown.
    pub(super) fn longest_queue(&self) -> u32 {
        self.past.steps.iter().map(|step| step.longest).max().unwrap_or(0)
    }

    /// The length of the queue, as an area with steps: in each cell the greatest.
    fn queue(&self) -> String {
        let longest = self.longest_queue();
        if longest == 0 {
            return String::new();
        }
        let y = |waiting: u32| (QUEUE_HEIGHT - 4.0) * (1.0 - f64::from(waiting) / f64::from(longest)) + 4.0;
        let mut path = format!("M0 {QUEUE_HEIGHT}");
        for (from, waiting) in self.peaks() {
            let _ = write!(path, "H{:.0}V{:.0}", self.window.at(from), y(waiting));
        }
        format!("<path class=\"queue\" d=\"{path}H{WIDTH}V{QUEUE_HEIGHT}Z\"/>")
    }

    /// The greatest lengths of the queue, cell by cell, where they differ.
    fn peaks(&self) -> Vec<(Duration, u32)> {
        let mut peaks: Vec<(Duration, u32)> = Vec::new();
        let mut steps = self.past.steps.iter().peekable();
        let mut last = 0;
        while let Some(step) = steps.next_if(|step| step.at_unix < self.window.from) {
            last = step.last;
        }
        for cell in 0..CELLS {
            let (from, until) =
                (self.window.from + self.window.cell() * cell, self.window.from + self.window.cell() * (cell + 1));
            let mut longest = last;
            while let Some(LengthStep { longest: within, last: then, .. }) = steps.next_if(|step| step.at_unix < until)
            {
                (longest, last) = (longest.max(*within), *then);
            }
            if peaks.last().is_none_or(|&(_, before)| before != longest) {
                peaks.push((from, longest));
            }
        }
        peaks
    }

    fn bar(&self, bar: &HoldBar<'_>) -> String {
        let (from, until) = (self.window.at(bar.from()), self.window.at(bar.until()));
        let y = QUEUE_HEIGHT + LANE_HEIGHT * bar.lane as f64 + 5.0;
        let words = bar.words();
        format!(
            "<a href=\"#{}\" aria-label=\"{}\"><title>{}</title>\
             <rect class=\"{}\" x=\"{from:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\"/></a>",
            bar.id(),
            Escaped(&words),
            Escaped(&words),
            bar.class(),
            (until - from).max(WIDTH / f64::from(CELLS)),
            LANE_HEIGHT - 6.0,
        )
    }

    /// The times in which it was frozen, behind all else.
    fn freezes(&self, height: f64) -> String {
        let mut text = String::new();
        for freeze in &self.past.freezes {
            let (x, end) = (self.window.at(freeze.from_unix), self.window.at(freeze.until_unix));
            let _ = write!(
                text,
                "<rect class=\"ice\" x=\"{x:.1}\" y=\"0\" width=\"{:.1}\" height=\"{height}\">\
                 <title>{}</title></rect>",
                (end - x).max(1.0),
                format_args!("Frozen from {} to {}", hour(freeze.from_unix), hour(freeze.until_unix)),
            );
        }
        text
    }

    /// Requests, freezes and alerts, as lines from above to below: in each cell one.
    fn marks(&self, height: f64) -> String {
        let mut cells: BTreeMap<u128, Vec<String>> = BTreeMap::new();
        for mark in self.past.marks.iter().rev() {
            let cell = mark.at_unix.as_millis() / self.window.cell().as_millis().max(1);
            cells.entry(cell).or_default().push(format!("{} {}", hour(mark.at_unix), mark.what));
        }
        let mut text = String::new();
        for (cell, said) in cells {
            let at = self.window.cell() * u32::try_from(cell).unwrap_or(u32::MAX);
            let (x, more) = (self.window.at(at), said.len().saturating_sub(MARKS_NAMED_MAX));
            let mut words = said.into_iter().take(MARKS_NAMED_MAX).collect::<Vec<_>>().join("; ");
            if more > 0 {
                let _ = write!(words, "; {} more", thousands(more));
            }
            let _ =
                write!(text, "<path class=\"mark\" d=\"M{x:.1} 0V{height}\"><title>{}</title></path>", Escaped(&words));
        }
        text
    }

    fn gaps(&self, height: f64) -> String {
        let mut text = String::new();
        let blind = self.past.gaps.iter().map(|gap| (gap.from_unix, gap.until_unix));
        let before = (self.window.from, self.past.since_unix);
        for (from, until) in std::iter::once(before).chain(blind).filter(|(from, until)| until > from) {
            let (x, end) = (self.window.at(from), self.window.at(until));
            let _ = write!(
                text,
                "<rect class=\"blind\" x=\"{x:.1}\" y=\"0\" width=\"{:.1}\" height=\"{height}\">\
                 <title>{}</title></rect>",
                (end - x).max(1.0),
                format_args!("Nothing was seen from {} to {}", hour(from), hour(until)),
            );
        }
        text
    }
}

/// Gives each bar a row in which it overlaps none, and returns how many rows there are.
fn spread(bars: &mut [HoldBar<'_>]) -> usize {
    let mut ends: Vec<Duration> = Vec::new();
    for bar in bars {
        let free = ends.iter().position(|&end| end <= bar.from());
        bar.lane = free.unwrap_or(ends.len()).min(LANES_MAX - 1);
        match ends.get_mut(bar.lane) {
            Some(end) => *end = bar.until().max(*end),
            None => ends.push(bar.until()),
        }
    }
    ends.len().max(1)
}
