//! The scripts that run in the server, each behind what it needs of the common beginning. What each takes and answers,
//! its own file says.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use crate::connection;

/// The common beginning of scripts, as far as they need it.
const COMMON: &str = include_str!("script/common.lua");

/// The line behind which a script goes on where it seldom comes to. What of the common beginning is needed only there,
/// stands there too: a server makes all of a script's functions anew for each call.
const REST: &str = "-- The rest.\n";

/// The next part where the first contender of a lock takes a plain lock too.
const SETNX: &str = include_str!("script/setnx.lua");

/// The keys of a lock's holders.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum KeyScheme {
    /// Keys below the base alone.
    Ours,
    /// Also the key with the lock's name, which other clients set by `SET key random NX PX`.
    Setnx,
}

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
    /// Only for connections of followers.
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

static OURS: LazyLock<Vec<connection::LoadedScript>> = LazyLock::new(|| all(KeyScheme::Ours));
static WITH_SETNX: LazyLock<Vec<connection::LoadedScript>> = LazyLock::new(|| all(KeyScheme::Setnx));

fn all(naming: KeyScheme) -> Vec<connection::LoadedScript> {
    BODIES.iter().map(|(name, body)| connection::LoadedScript::new(name, text(naming, body))).collect()
}

fn text(naming: KeyScheme, body: &str) -> String {
    match naming {
        KeyScheme::Ours => {
            let (first, rest) = body.split_once(REST).unwrap_or((body, ""));
            let first = joined(COMMON, first);
            let left: String = parts(COMMON).into_iter().filter(|part| !first.contains(part)).collect();
            format!("{first}{}", joined(&left, rest))
        }
        KeyScheme::Setnx => joined(COMMON, &format!("{SETNX}\n{body}")),
    }
}

impl Script {
    pub(crate) fn get(self, naming: KeyScheme) -> &'static connection::LoadedScript {
        &every(naming)[self as usize]
    }

    /// Returns those that locks need, for a connection that is to know them.
    pub(crate) fn of_locks(naming: KeyScheme) -> &'static [connection::LoadedScript] {
        &every(naming)[..Self::Dead as usize]
    }
}

fn every(naming: KeyScheme) -> &'static [connection::LoadedScript] {
    match naming {
        KeyScheme::Ours => &OURS,
        KeyScheme::Setnx => &WITH_SETNX,
    }
}

/// Joins a script to those parts of the beginning that it needs, in their order. A part begins with each `local` at
/// the left margin, with the comment above it; a script needs a part if it, or another part that it needs, has a name
/// of it.
fn joined(beginning: &str, script: &str) -> String {
    let mut text = script.to_owned();
    for part in parts(beginning).iter().rev() {
        if names(part).any(|name| words(&text).any(|word| word == name)) {
            text = format!("{part}{text}");
        }
    }
    text
}

fn parts(beginning: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    // Comments that may belong to the next part.
    let mut comments = String::new();
    for line in beginning.split_inclusive('\n') {
        if line.starts_with("--") {
            comments.push_str(line);
            continue;
        }
        if line.starts_with("local ") {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(&std::mem::take(&mut comments));
            part.push_str(line);
        }
    }
    parts
}

/// The names that a part gives to what is behind it.
fn names(part: &str) -> impl Iterator<Item = &str> {
    let line = part.lines().find_map(|line| line.strip_prefix("local ")).unwrap_or_default();
    let listed = line.strip_prefix("function ").map_or(line, |function| function.split('(').next().unwrap_or_default());
    words(listed.split('=').next().unwrap_or_default())
}

/// The words of a text, without its comments.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    code.flat_map(|line| line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_'))
        .filter(|word| !word.is_empty())
}
