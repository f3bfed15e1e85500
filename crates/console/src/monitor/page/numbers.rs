//! The five numbers at the head of the list.

use std::time::Duration;

use lockkeeper_monitor::{LockEventKind, MonitorState, TimePoint};

use super::escaped::{Escaped, aged, thousands};
use crate::output::known::all_waits;

/// Over how long grants are counted.
const GRANTS_OVER: Duration = Duration::from_secs(10);

/// Returns them; something is wrong in `problems` places.
pub(super) fn numbers(state: &MonitorState, problems: usize, now: TimePoint) -> String {
    let (waiting, longest) = all_waits(state, now);
    let longest = longest.map_or_else(
        || "–".to_owned(),
        |(age, name)| format!("{} <small>{}</small>", aged(age, now), Escaped(name.as_str())),
    );
    let held = state.model.locks().len();
    let mut text = String::from("<dl class=\"sum\" id=\"sum\">");
    for (what, number) in [
        ("Problems", thousands(problems)),
        ("Locks in use", thousands(held)),
        ("Waiting", thousands(waiting)),
        ("Longest wait", longest),
        ("Grants", format!("{} <small>a second</small>", grants_a_second(state, now))),
    ] {
        text += &format!("<div><dt>{what}</dt><dd>{number}</dd></div>");
    }
    text + "</dl>"
}

fn grants_a_second(state: &MonitorState, now: TimePoint) -> String {
    let begin = now.unix.saturating_sub(GRANTS_OVER);
    let recent = || state.model.events_from(0).rev().take_while(|event| event.at_unix >= begin);
    let grants = recent().filter(|event| event.kind == LockEventKind::Granted).count();
    // Of a service that is full of changes fewer seconds are kept.
    let over = match recent().last() {
        Some(oldest) if recent().count() == lockkeeper_monitor::EVENTS_MAX => now.unix.saturating_sub(oldest.at_unix),
        _ => GRANTS_OVER,
    };
    let grants = f64::from(u32::try_from(grants).unwrap_or(u32::MAX)) / over.as_secs_f64().max(0.1);
    if grants < 10.0 { format!("{grants:.1}") } else { format!("{grants:.0}") }
}
