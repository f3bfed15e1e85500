//! All deadlocks of a service, as `deadlocks` prints them and `doctor` finds them, with the frozen locks that only look
//! like one.

use lockkeeper::{Finding, Severity};
use lockkeeper_monitor::{self as monitor, DeadlockVerdict, Judged, ServiceSnapshot};
use serde::Serialize;

use super::{DeadlockReport, waiting};
use crate::output::text::one_line;
use crate::output::way_out::{OrderCommands, shell_line};

/// The deadlocks of a service.
#[derive(Debug, Serialize)]
pub struct Deadlocks {
    service: String,
    deadlocks: Vec<DeadlockReport>,
    frozen: Vec<FrozenRow>,
    /// How bad each deadlock is.
    #[serde(skip)]
    severities: Vec<Severity>,
}

/// A lock that no waiter is granted until it is thawed.
#[derive(Debug, Serialize)]
struct FrozenRow {
    lock: String,
    reason: String,
    waiters: usize,
    command: Vec<String>,
}

impl Deadlocks {
    /// Describes the deadlocks of a snapshot, with the orders that end them.
    pub fn new(service: String, snapshot: &ServiceSnapshot, judged: &[Judged], orders: &OrderCommands) -> Self {
        let now_unix = snapshot.ended_unix;
        let frozen = |frozen: monitor::Frozen| {
            let lock = frozen.lock.as_str().to_owned();
            let command = orders.order(&["thaw"], &lock);
            FrozenRow { lock, reason: frozen.reason, waiters: frozen.waiters, command }
        };
        Self {
            service,
            deadlocks: judged
                .iter()
                .map(|judged| DeadlockReport::new(judged, orders, snapshot.ended, now_unix))
                .collect(),
            frozen: snapshot.frozen().into_iter().map(frozen).collect(),
            severities: judged.iter().map(|judged| severity(judged.verdict)).collect(),
        }
    }

    /// Returns the deadlocks as what `doctor` finds, each with its way out. One that is known is an error, one that
    /// ends by itself or was seen once a warning, and one of which too little is known a note.
    pub fn findings(&self) -> Vec<Finding> {
        let finding = |(deadlock, &severity): (&DeadlockReport, &Severity)| {
            let links = (1..).zip(deadlock.chain()).map(|(number, sentence)| format!("{number}. {sentence}"));
            let what = format!("{}: {}", deadlock.headline, links.collect::<Vec<_>>().join("; "));
            Finding::new(severity, what, deadlock.way_out.lines().join(": "))
        };
        self.deadlocks.iter().zip(&self.severities).map(finding).collect()
    }

    /// Returns them as text.
    pub fn text(&self) -> String {
        let mut lines = vec![one_line(&self.service)];
        for deadlock in &self.deadlocks {
            lines.push(deadlock.headline.to_string());
            lines.extend((1..).zip(deadlock.chain()).map(|(number, sentence)| format!("  {number}. {sentence}")));
            let mut way_out = deadlock.way_out.lines().into_iter();
            lines.extend(way_out.next().map(|what| format!("  way out: {what}")));
            lines.extend(way_out.map(|order| format!("    {order}")));
        }
        if self.deadlocks.is_empty() {
            lines.push("no deadlock".to_owned());
        }
        for FrozenRow { lock, reason, waiters, command } in &self.frozen {
            lines.push(one_line(&format!("{lock} is frozen, and {} behind it: {reason}", waiting(*waiters))));
            lines.push(format!("    {}", shell_line(command)));
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

const fn severity(verdict: DeadlockVerdict) -> Severity {
    match verdict {
        DeadlockVerdict::Known => Severity::Error,
        DeadlockVerdict::EndsSoon(_) | DeadlockVerdict::Unconfirmed => Severity::Warning,
        _ => Severity::Note,
    }
}
