//! The scripts that run in the server, each with the common beginning joined to it. What each takes and answers, its own
//! file says.

use std::sync::LazyLock;

/// What all scripts begin with.
const COMMON: &str = include_str!("script/common.lua");

/// A script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Script {
    Open,
    Attach,
    Renew,
    Join,
    Leave,
    Look,
    Why,
    Request,
    SetValue,
    Close,
    Names,
}

/// All of them, in the order of their declaration, without their common beginning.
const BODIES: [&str; 11] = [
    include_str!("script/open.lua"),
    include_str!("script/attach.lua"),
    include_str!("script/renew.lua"),
    include_str!("script/join.lua"),
    include_str!("script/leave.lua"),
    include_str!("script/look.lua"),
    include_str!("script/why.lua"),
    include_str!("script/request.lua"),
    include_str!("script/set_value.lua"),
    include_str!("script/close.lua"),
    include_str!("script/names.lua"),
];

static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| BODIES.iter().map(|body| format!("{COMMON}\n{body}")).collect());

impl Script {
    /// Returns the whole text.
    pub(crate) fn text(self) -> &'static str {
        &TEXTS[self as usize]
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
