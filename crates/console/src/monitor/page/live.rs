//! Updates of open pages: the rows and parts that have changed, rendered once for all of them.
//!
//! A page names the change up to which it was rendered. What has changed since is told to it first, and then what all
//! pages are told. A page of another monitor, or one that is further behind than events are kept, is told to load anew.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use lockkeeper::QueueName;
use lockkeeper::clock::BootInstant;
use lockkeeper_monitor::alerts::Alert;
use lockkeeper_monitor::{LockModel, MonitorState, TimePoint};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, broadcast};
use tokio::time::{sleep, timeout};

use super::frame::differ_in_ages_alone;
use super::frame::freshness;
use super::frame::numbers;
use super::lock::changing;
use super::past::{HistorySpan, past};
use super::problems::Problems;
use super::row::row;
use crate::monitor::alerting::View;
use crate::output::LockMarks;

/// How often pages are told at most: four times a second look like at once.
const PERIOD: Duration = Duration::from_millis(250);

/// How often they are told if nothing changes: freshness ages by itself.
const CALM_PERIOD: Duration = Duration::from_secs(1);

/// How often what was is drawn anew: the timeline of a busy lock is the greatest part of its page.
const PAST_PERIOD: Duration = Duration::from_secs(2);

/// How many tellings a page may be behind; one that is further behind loads anew.
const BEHIND_MAX: usize = 16;

/// How many locks' rows are told at a time; where more have changed, pages load anew.
const ROWS_MAX: usize = 5_000;

#[derive(Debug)]
pub(super) struct LivePages {
    /// Another one for each monitor, since each counts events from 0.
    epoch: u64,
    sender: broadcast::Sender<Arc<PageEvents>>,
    is_watched: Notify,
    told: Mutex<PageProgress>,
}

/// What pages have been told so far.
#[derive(Debug, Default)]
struct PageProgress {
    /// The changes from which on they are not told yet.
    next: PagePosition,
    sight: PageFacts,
    /// The parts of the list as all pages were told them; empty if one of them may have been told otherwise.
    parts: BTreeMap<&'static str, String>,
    watched: BTreeMap<LockPage, WatchedPages>,
}

/// A lock, and how far back its page looks.
pub(super) type LockPage = (QueueName, HistorySpan);

#[derive(Debug, Default)]
struct WatchedPages {
    pages: usize,
    /// What changes of it, as all these pages were told it; empty if one of them may have been told otherwise.
    shown: String,
    /// The same of its past, and when it was drawn last.
    past: String,
    drawn: Option<BootInstant>,
}

/// Up to which change something is known.
#[derive(Clone, Copy, Debug, Default)]
struct PagePosition {
    event: u64,
    /// How many changes there were that no event tells of.
    quiet: u64,
}

/// What no change of a lock tells of.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct PageFacts {
    /// Whether anything was seen yet: what is there at the first look has joined without an event.
    has_seen: bool,
    marks: LockMarks,
}

/// What all pages are told at a time: events for their streams.
#[derive(Debug)]
pub(super) struct PageEvents {
    /// For the list of all locks; `None` if too much has changed to tell it.
    pub(super) list: Option<Bytes>,
    /// For the pages of locks of which something has changed.
    pub(super) locks: BTreeMap<LockPage, Bytes>,
    /// For the pages of all others.
    pub(super) head: Bytes,
    /// All pages have to load anew.
    pub(super) is_anew: bool,
}

/// What a page shows anew: elements that name themselves.
#[derive(Debug, Default)]
struct PageNews {
    parts: BTreeMap<&'static str, String>,
    /// Those that a page does not have are not for it.
    rows: String,
}

impl LivePages {
    /// Names its tellings by this number, which no other monitor at this place may have.
    pub(super) fn new(epoch: u64) -> Self {
        Self { epoch, sender: broadcast::Sender::new(BEHIND_MAX), is_watched: Notify::new(), told: Mutex::default() }
    }

    /// Names how far a page knows everything that is rendered now.
    pub(super) fn position(&self, state: &MonitorState, firing: &[Alert]) -> String {
        self.named(PagePosition::of(&state.model), &PageFacts::new(state, firing))
    }

    fn named(&self, PagePosition { event, quiet }: PagePosition, sight: &PageFacts) -> String {
        format!("{:016x}-{event}-{quiet}-{:016x}", self.epoch, sight.digest())
    }

    /// Returns the changes from which on a page is to be told, unless these are not known any more, or there is more to
    /// tell than changes of locks.
    fn next_of(&self, position: &str, model: &LockModel, sight: &PageFacts) -> Option<PagePosition> {
        let mut parts = position.split('-');
        let (epoch, event, quiet) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let digest = parts.next()?;
        let is = |text: &str, number: u64| u64::from_str_radix(text, 16) == Ok(number);
        let now = PagePosition::of(model);
        let is_kept = || event == now.event || model.events_from(event).next().is_some_and(|kept| kept.number == event);
        let is_known = is(epoch, self.epoch) && is(digest, sight.digest()) && event <= now.event && quiet <= now.quiet;
        (is_known && is_kept()).then_some(PagePosition { event, quiet })
    }

    /// Tells until the future is dropped. Nothing is rendered while no page is open.
    pub(super) async fn run(&self, view: &View) {
        let mut changes = view.collector.changes();
        loop {
            while self.sender.receiver_count() == 0 {
                self.is_watched.notified().await;
            }
            changes.mark_unchanged();
            self.tell(view);
            sleep(PERIOD).await;
            // The collector lives as long as the view.
            let _ = timeout(CALM_PERIOD.saturating_sub(PERIOD), changes.changed()).await;
        }
    }

    /// Tells what has changed since the last time. What pages were told is locked before anything is read until it is
    /// sent, so that a page that opens meanwhile is told all before, or this and all behind it: never older news last.
    fn tell(&self, view: &View) {
        let mut told = self.told.lock();
        let telling = self.telling(&mut told, view);
        // The last page may be gone meanwhile.
        let _ = self.sender.send(Arc::new(telling));
    }

    /// Renders what has changed since the last time.
    fn telling(&self, told: &mut PageProgress, view: &View) -> PageEvents {
        let (now, firing) = (view.collector.now(), view.alerting.firing());
        view.collector.read(|state| {
            let sight = PageFacts::new(state, &firing);
            let mut changed = changed_since(told.next, &state.model);
            changed.extend(sight.marks.differing(&told.sight.marks));
            let position = self.named(PagePosition::of(&state.model), &sight);
            let list = (changed.len() <= ROWS_MAX).then(|| {
                let problems = Problems::new(state, &firing, &view.orders, now);
                let mut list = list(state, &problems, &changed, &sight.marks, now);
                list.parts.retain(|part, html| is_news(told.parts.entry(part).or_default(), html));
                list.event(&position)
            });
            // What is said of a lock may come from others.
            let locks = told.watched.iter_mut().filter_map(|(page, watched)| {
                let (mut news, (name, span)) = (head(state, now), page);
                if !changed.is_empty() {
                    news.insert("lock", &mut watched.shown, changing_of(state, name, view, now));
                }
                if watched.drawn.is_none_or(|drawn| now.boot.saturating_duration_since(drawn) >= PAST_PERIOD) {
                    watched.drawn = Some(now.boot);
                    news.insert("past", &mut watched.past, past(state, name, *span, now));
                }
                (news.parts.len() > 1).then(|| (page.clone(), news.event(&position)))
            });
            let locks = locks.collect();
            let is_anew = sight.has_seen != told.sight.has_seen;
            (told.next, told.sight) = (PagePosition::of(&state.model), sight);
            PageEvents { list, locks, head: head(state, now).event(&position), is_anew }
        })
    }

    /// Returns what a page is told first, which knows everything up to a position, and by what it is told the rest.
    /// `None` instead of the news if it has to load anew.
    pub(super) fn open(
        &self,
        view: &View,
        position: &str,
        page: Option<&LockPage>,
    ) -> (Option<Arc<PageEvents>>, broadcast::Receiver<Arc<PageEvents>>) {
        let mut told = self.told.lock();
        let (now, firing) = (view.collector.now(), view.alerting.firing());
        let receiver = self.sender.subscribe();
        // This page is told what the others are not.
        told.parts.clear();
        let telling = view.collector.read(|state| {
            let sight = PageFacts::new(state, &firing);
            let next = self.next_of(position, &state.model, &sight);
            if receiver_is_first(&self.sender) {
                (told.next, told.sight) = (PagePosition::of(&state.model), sight.clone());
            }
            let changed = changed_since(next?, &state.model);
            if changed.len() > ROWS_MAX {
                return None;
            }
            // An event that is sent from here on may begin earlier, and never later.
            let position = self.named(told.next, &told.sight);
            let problems = Problems::new(state, &firing, &view.orders, now);
            let list = Some(list(state, &problems, &changed, &sight.marks, now).event(&position));
            let news_of = |(name, span): &LockPage| {
                let mut news = head(state, now);
                news.parts.insert("lock", changing_of(state, name, view, now));
                news.parts.insert("past", past(state, name, *span, now));
                news.event(&position)
            };
            let locks = page.map(|page| (page.clone(), news_of(page))).into_iter().collect();
            Some(Arc::new(PageEvents { list, locks, head: head(state, now).event(&position), is_anew: false }))
        });
        if let Some(page) = page {
            let watched = told.watched.entry(page.clone()).or_default();
            *watched = WatchedPages { pages: watched.pages + 1, ..WatchedPages::default() };
        }
        self.is_watched.notify_one();
        (telling, receiver)
    }

    /// Takes back that a page shows a lock.
    pub(super) fn close(&self, lock: &LockPage) {
        let mut told = self.told.lock();
        if let Some(watched) = told.watched.get_mut(lock) {
            watched.pages -= 1;
            if watched.pages == 0 {
                told.watched.remove(lock);
            }
        }
    }
}

impl PagePosition {
    const fn of(model: &LockModel) -> Self {
        Self { event: model.next_event(), quiet: model.quiet_changes() }
    }
}

impl PageFacts {
    fn new(state: &MonitorState, firing: &[Alert]) -> Self {
        Self { has_seen: state.has_seen(), marks: LockMarks::new(state, firing) }
    }

    /// Another one for each, by all odds, within this process.
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

fn receiver_is_first(sender: &broadcast::Sender<Arc<PageEvents>>) -> bool {
    sender.receiver_count() == 1
}

impl PageNews {
    /// Adds a part, if it says another thing than the one that was told last.
    fn insert(&mut self, part: &'static str, told: &mut String, html: String) {
        if is_news(told, &html) {
            self.parts.insert(part, html);
        }
    }

    /// Returns them as an event, after which a page knows everything up to a position.
    fn event(&self, position: &str) -> Bytes {
        let parts: String = self.parts.values().map(String::as_str).collect();
        // Apart: within other elements rows are no HTML.
        event_of(position, &json!({"parts": parts, "rows": self.rows}).to_string())
    }
}

/// Tells whether a text says another thing than the one that was told last, and notes it.
fn is_news(told: &mut String, html: &str) -> bool {
    let is_so = !differ_in_ages_alone(told, html);
    if is_so {
        html.clone_into(told);
    }
    is_so
}

fn changed_since(next: PagePosition, model: &LockModel) -> BTreeSet<QueueName> {
    let told_of = model.events_from(next.event).map(|event| &event.lock);
    told_of.chain(model.changed_quietly_since(next.quiet)).cloned().collect()
}

fn head(state: &MonitorState, now: TimePoint) -> PageNews {
    PageNews { parts: BTreeMap::from([("live", freshness(state, now))]), ..PageNews::default() }
}

fn list(
    state: &MonitorState,
    problems: &Problems,
    changed: &BTreeSet<QueueName>,
    marks: &LockMarks,
    now: TimePoint,
) -> PageNews {
    let mut news = head(state, now);
    news.parts.insert("sum", numbers(state, problems.count(), now));
    news.parts.insert("problems", problems.section());
    news.rows = changed.iter().map(|name| row(name, &state.model, marks, now)).collect();
    news
}

/// What changes on the page of a lock.
fn changing_of(state: &MonitorState, name: &QueueName, view: &View, now: TimePoint) -> String {
    format!("<div id=\"lock\">{}</div>", changing(state, name, &view.orders, now))
}

/// Returns the event that tells news in JSON, which has no line breaks; a page knows everything up to a position then.
fn event_of(position: &str, json: &str) -> Bytes {
    format!("event: news\nid: {position}\ndata: {json}\n\n").into()
}
