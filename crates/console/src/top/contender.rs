//! One contender, as it is shown: its line in the queue, and what else is known of it.

use std::time::Duration;

use lockkeeper::{Answers, ContenderId, ContenderInfo, FencingToken, Mode};
use lockkeeper_monitor::{KnownContender, TimePoint};

use crate::ordering::SeenContender;
use crate::output::marks::held;
use crate::output::{brief, date};

#[derive(Clone, Debug)]
pub(super) struct ContenderLine {
    pub(super) position: usize,
    pub(super) state: QueueRole,
    pub(super) mode: &'static str,
    pub(super) who: String,
    /// How long it holds, or else how long it is here.
    pub(super) since: String,
    pub(super) token: Option<FencingToken>,
    pub(super) key: RowIdentity,
    /// What else is known of it, as short lines.
    pub(super) details: Vec<String>,
}

/// What tells contenders of one lock apart: a semaphore has two queues.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RowIdentity {
    id: ContenderId,
    has_permit: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum QueueRole {
    Holds,
    Waits,
    Freezes,
}

impl QueueRole {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Waits => "waits",
            Self::Freezes => "freezes",
        }
    }
}

impl ContenderLine {
    /// Describes a contender at this place, counted from 1.
    pub(super) fn new(position: usize, one: &KnownContender, now: TimePoint) -> Self {
        let info = &one.info;
        let state = match (&info.frozen, one.hold) {
            (Some(_), _) => QueueRole::Freezes,
            (None, Some(_)) => QueueRole::Holds,
            (None, None) => QueueRole::Waits,
        };
        Self {
            position,
            state,
            mode: info.mode.as_str(),
            who: name(info),
            since: held(one, now).map_or_else(|| brief(one.age(now)), held_for),
            token: info.token,
            key: RowIdentity { id: info.id.clone(), has_permit: info.mode == Mode::Permit },
            details: details(one, now),
        }
    }

    /// Returns what an order is to meet.
    pub(super) fn seen(&self) -> SeenContender {
        SeenContender { id: self.key.id.clone(), token: self.token }
    }
}

/// Names a contender: by its process, or what its client wrote, or its identity.
pub(super) fn name(info: &ContenderInfo) -> String {
    match (&info.owner, &info.label) {
        (Some(owner), _) => format!("{} pid {} {}", owner.host, owner.pid, owner.command),
        (None, Some(label)) => label.clone(),
        (None, None) => info.id.to_string(),
    }
}

/// Says for how long it is held; `≥` where that is only since it was seen to.
pub(super) fn held_for((least, is_longer): (Duration, bool)) -> String {
    format!("{}{}", if is_longer { "≥" } else { "" }, brief(least))
}

fn details(one: &KnownContender, now: TimePoint) -> Vec<String> {
    let info = &one.info;
    let mut lines = vec![format!("id {}", info.id)];
    lines.extend(info.session.as_ref().map(|session| format!("session {session}")));
    let whose: Vec<String> = [
        info.caller.process.map(|process| format!("process {process}")),
        info.caller.flow.map(|flow| format!("flow {flow}")),
        info.caller.within.map(|within| format!("within {within}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    lines.extend((!whose.is_empty()).then(|| whose.join(", ")));
    let joined = info.since_unix.map(|since| format!("here for {}, since {}", brief(one.age(now)), date(since)));
    lines.extend(joined);
    let until = info.caller.until_unix.filter(|_| one.hold.is_none());
    lines.extend(until.map(|until| format!("gives up in {}", brief(until.saturating_sub(now.unix)))));
    let listens = match info.answers {
        Answers::Yes => "its client receives requests to give up",
        Answers::No => "its client receives no requests to give up",
        _ => "its client may receive requests to give up",
    };
    lines.push(listens.to_owned());
    lines.extend(info.revocation.as_ref().map(|asked| {
        let why = asked.why.as_ref().map(|why| format!(": {why}"));
        format!("asked to give up{}", why.unwrap_or_default())
    }));
    lines.extend(info.frozen.as_ref().map(|reason| format!("freezes it: {reason}")));
    lines.extend(info.is_kept().then(|| "kept by its process: in use or idle".to_owned()));
    // Beside an owner it names nothing.
    let label = info.label.as_ref().filter(|_| info.owner.is_some());
    lines.extend(label.map(|label| format!("says {label}")));
    lines
}
