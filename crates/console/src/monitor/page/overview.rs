//! The list of all locks, with what is wrong at its head.

use lockkeeper_monitor::alerts::Alert;
use lockkeeper_monitor::{MonitorState, TimePoint};

use super::listing::ListFilter;
use super::numbers::numbers;
use super::problems::Problems;
use super::row::row;
use crate::output::{LockMarks, OrderCommands};

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
    let rows: String = listed.locks.iter().map(|(name, lock)| row(name, Some(lock), &marks, now)).collect();
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
