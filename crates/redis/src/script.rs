//! The scripts that run in the server, each behind what it needs of the common beginning. What each takes and answers,
//! its own file says.

mod parts;

use std::sync::LazyLock;

use crate::connection;
use crate::script::parts::joined;
use crate::url::Naming;

/// What scripts begin with, as far as they need it.
const COMMON: &str = include_str!("script/common.lua");

/// What comes behind it where the first contender of a lock takes a plain lock too.
const SETNX: &str = include_str!("script/setnx.lua");

/// A script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Script {
    Open,
    Attach,
    Renew,
    Join,
    LeaveBelieved,
    LeaveJudged,
    Look,
    Request,
    SetValue,
    Close,
    Names,
    /// Connections that follow are given it besides.
    Dead,
}

/// All of them, in the order of their declaration: their names, and their texts without the common beginning.
const BODIES: [(&str, &str); 12] = [
    ("open", include_str!("script/open.lua")),
    ("attach", include_str!("script/attach.lua")),
    ("renew", include_str!("script/renew.lua")),
    ("join", include_str!("script/join.lua")),
    ("leave", concat!(include_str!("script/leave.lua"), include_str!("script/leave_believed.lua"))),
    ("leave", concat!(include_str!("script/leave.lua"), include_str!("script/leave_judged.lua"))),
    ("look", include_str!("script/look.lua")),
    ("request", include_str!("script/request.lua")),
    ("set_value", include_str!("script/set_value.lua")),
    ("close", include_str!("script/close.lua")),
    ("names", include_str!("script/names.lua")),
    ("dead", include_str!("script/dead.lua")),
];

static OURS: LazyLock<Vec<connection::Script>> = LazyLock::new(|| all(Naming::Ours));
static WITH_SETNX: LazyLock<Vec<connection::Script>> = LazyLock::new(|| all(Naming::Setnx));

fn all(naming: Naming) -> Vec<connection::Script> {
    BODIES.iter().map(|(name, body)| connection::Script::new(name, text(naming, body))).collect()
}

fn text(naming: Naming, body: &str) -> String {
    match naming {
        Naming::Ours => joined(COMMON, body),
        Naming::Setnx => joined(COMMON, &format!("{SETNX}\n{body}")),
    }
}

impl Script {
    /// Returns what is sent of it.
    pub(crate) fn get(self, naming: Naming) -> &'static connection::Script {
        &every(naming)[self as usize]
    }

    /// Returns those that locks need, for a connection that is to know them.
    pub(crate) fn of_locks(naming: Naming) -> &'static [connection::Script] {
        &every(naming)[..Self::Dead as usize]
    }
}

fn every(naming: Naming) -> &'static [connection::Script] {
    match naming {
        Naming::Ours => &OURS,
        Naming::Setnx => &WITH_SETNX,
    }
}

#[cfg(test)]
mod setnx_tests;
#[cfg(test)]
mod tests;
