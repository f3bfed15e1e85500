//! The selection and the order of a list of locks, as its form says them.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper_monitor::alerts::Alert;
use lockkeeper_monitor::{KnownLock, LockModel, MonitorState, TimePoint};
use serde::Deserialize;

use super::frame::{Escaped, QueryValue, numbers, thousands};
use super::problems::Problems;
use super::row::named;
use super::row::row;
use crate::output::marks::{kind_of, longest_hold, oldest_wait};
use crate::output::{LockMarks, OrderCommands};

/// How many locks a page lists: more changing rows cost a browser more than a twentieth of its processor.
pub(super) const ROWS_MAX: usize = 200;

/// How long a text to look for may be, in characters: no name is longer.
const SOUGHT_MAX: usize = 200;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListFilter {
    /// A part of a name, host or program.
    q: String,
    kind: String,
    waited: Option<String>,
    sort: LockOrder,
    page: usize,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum LockOrder {
    Name,
    Held,
    #[default]
    Waiting,
    Oldest,
}

/// The kinds of lock, as they are named in queries, and as they are shown.
const KINDS: [(&str, &str); 5] = [
    ("mutex", "Mutex"),
    ("rwlock", "Read/write lock"),
    ("semaphore", "Semaphore"),
    ("election", "Election"),
    ("barrier", "Barrier"),
];

const COLUMNS: [(Option<LockOrder>, &str, bool); 7] = [
    (Some(LockOrder::Name), "Name", false),
    (None, "Kind", false),
    (None, "Held by", false),
    (Some(LockOrder::Held), "Held", true),
    (Some(LockOrder::Waiting), "Waiting", true),
    (Some(LockOrder::Oldest), "Oldest wait", true),
    (None, "95 % of waits", true),
];

impl LockOrder {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Oldest => "oldest",
        }
    }
}

#[derive(Debug)]
pub(super) struct ListPage<'a> {
    pub(super) locks: Vec<(&'a QueueName, &'a KnownLock)>,
    /// How many the form asks for.
    total: usize,
    before: usize,
}

impl ListFilter {
    /// Chooses the locks of the page that is asked for, `urgent` ones first.
    pub(super) fn choose<'a>(
        &self,
        model: &'a LockModel,
        now: TimePoint,
        urgent: impl Fn(&QueueName) -> bool,
    ) -> ListPage<'a> {
        let sought: String = self.q.trim().to_lowercase().chars().take(SOUGHT_MAX).collect();
        let mut found: Vec<_> = model
            .locks()
            .iter()
            .filter(|(name, lock)| self.asks_for(name, lock, &sought))
            .map(|(name, lock)| (!urgent(name), self.sort.key(lock, now), name, lock))
            .collect();
        found.sort_by_key(|&(is_calm, key, name, _)| (is_calm, Reverse(key), name));
        let total = found.len();
        let before = self.page.saturating_mul(ROWS_MAX).min(total.saturating_sub(1) / ROWS_MAX * ROWS_MAX);
        let locks = found.into_iter().skip(before).take(ROWS_MAX).map(|(_, _, name, lock)| (name, lock)).collect();
        ListPage { locks, total, before }
    }

    fn asks_for(&self, name: &QueueName, lock: &KnownLock, sought: &str) -> bool {
        let is_of_kind = || self.kind.is_empty() || kind_of(lock) == Some(self.kind.as_str());
        let is_waited_for = || self.waited.is_none() || lock.waiters().next().is_some();
        is_waited_for() && is_of_kind() && (sought.is_empty() || mentions(name, lock, sought))
    }

    pub(super) fn form(&self) -> String {
        let mut options = String::from("<option value=\"\">Any kind</option>");
        for (value, shown) in KINDS {
            let selected = if self.kind == value { " selected" } else { "" };
            let _ = write!(options, "<option value=\"{value}\"{selected}>{shown}</option>");
        }
        let sort = match self.sort {
            LockOrder::Waiting => String::new(),
            order => format!("<input type=\"hidden\" name=\"sort\" value=\"{}\">", order.as_str()),
        };
        format!(
            "<form class=\"find\" method=\"get\" action=\"./\" role=\"search\">\
             <label class=\"vh\" for=\"q\">Name, host or program</label>\
             <input id=\"q\" type=\"search\" name=\"q\" maxlength=\"{SOUGHT_MAX}\" \
             placeholder=\"Name, host or program\" value=\"{}\"><label class=\"vh\" for=\"k\">Kind</label>\
             <select id=\"k\" name=\"kind\">{options}</select>\
             <label class=\"check\"><input type=\"checkbox\" name=\"waited\" value=\"1\"{}> Only with waiters</label>\
             {sort}<button>Filter</button></form>",
            Escaped(&self.q),
            if self.waited.is_some() { " checked" } else { "" },
        )
    }

    /// Returns the heads of the table's columns, of which some order it.
    pub(super) fn heads(&self) -> String {
        let mut heads = String::new();
        for (order, shown, is_number) in COLUMNS {
            let class = match (is_number, order) {
                (true, None) => " class=\"num plain\"",
                (true, _) => " class=\"num\"",
                (_, None) => " class=\"plain\"",
                _ => "",
            };
            let sorted = match order {
                Some(LockOrder::Name) if self.sort == LockOrder::Name => " aria-sort=\"ascending\"",
                Some(order) if self.sort == order => " aria-sort=\"descending\"",
                _ => "",
            };
            let shown = match order {
                Some(order) => format!("<a href=\"{}\">{shown}</a>", Escaped(&self.link(order, 0))),
                None => shown.to_owned(),
            };
            let _ = write!(heads, "<th role=\"columnheader\" scope=\"col\"{class}{sorted}>{shown}</th>");
        }
        heads
    }

    /// Says which part of the list is shown, with the ways to the parts before and behind it.
    pub(super) fn foot(&self, listed: &ListPage<'_>) -> String {
        let ListPage { locks, total, before } = listed;
        if locks.is_empty() {
            return "<p class=\"key\">No lock is in use that this asks for.</p>".to_owned();
        }
        let (first, last) = (thousands(before + 1), thousands(before + locks.len()));
        let mut foot = format!("<p class=\"key\">{first} to {last} of {}.", thousands(*total));
        let page = before / ROWS_MAX;
        if page > 0 {
            let _ = write!(foot, " <a href=\"{}\">Page before</a>", Escaped(&self.link(self.sort, page - 1)));
        }
        if before + locks.len() < *total {
            let _ = write!(foot, " <a href=\"{}\">Next page</a>", Escaped(&self.link(self.sort, page + 1)));
        }
        foot + "</p>"
    }

    fn link(&self, sort: LockOrder, page: usize) -> String {
        let mut link = format!("./?sort={}", sort.as_str());
        for (name, value) in [("q", self.q.as_str()), ("kind", &self.kind)] {
            if !value.is_empty() {
                let _ = write!(link, "&{name}={}", QueryValue(value));
            }
        }
        if self.waited.is_some() {
            link += "&waited=1";
        }
        if page > 0 {
            let _ = write!(link, "&page={page}");
        }
        link
    }
}

impl LockOrder {
    /// What comes first has the greatest.
    fn key(self, lock: &KnownLock, now: TimePoint) -> (usize, Duration) {
        let oldest = || oldest_wait(lock, now).unwrap_or_default();
        match self {
            Self::Name => (0, Duration::ZERO),
            Self::Held => (0, longest_hold(lock, now).unwrap_or_default().0),
            Self::Waiting => (lock.waiters().count(), oldest()),
            Self::Oldest => (0, oldest()),
        }
    }
}

/// Tells whether the name of a lock, or a host or program in its queue, has this in it.
fn mentions(name: &QueueName, lock: &KnownLock, sought: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(sought);
    has(name.as_str())
        || lock.contenders.iter().any(|one| {
            let (first, rest) = named(&one.info);
            has(&first) || has(&rest)
        })
}

/// Returns the main part of the page. Some browsers take a table that is not laid out as one for no table: it says its
/// roles.
pub(super) fn overview(
    state: &MonitorState,
    firing: &[Alert],
    orders: &OrderCommands,
    asked: &ListFilter,
    now: TimePoint,
) -> String {
    let marks = LockMarks::new(state, firing);
    let problems = Problems::new(state, firing, orders, now);
    let listed = asked.choose(&state.model, now, |name| marks.has(name));
    let rows: String = listed.locks.iter().map(|(name, _)| row(name, &state.model, &marks, now)).collect();
    format!(
        "<h1>Locks</h1>{}{}<section aria-labelledby=\"hl\"><h2 id=\"hl\">All locks</h2>{}\
         <div class=\"card\"><table class=\"sorted\" role=\"table\">\
         <caption class=\"vh\">Locks in use, those with problems first</caption>\
         <thead role=\"rowgroup\"><tr role=\"row\">{}</tr></thead>\
         <tbody role=\"rowgroup\">{rows}</tbody></table></div>\
         <p class=\"key\" id=\"more\" role=\"status\" hidden></p>{}</section>",
        numbers(state, problems.count(), now),
        problems.section(),
        asked.form(),
        asked.heads(),
        asked.foot(&listed),
    )
}
