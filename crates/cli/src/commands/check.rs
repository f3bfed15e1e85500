//! `check`: a command under a lock asks its runner whether the lock is still held.
//!
//! The service is not asked: only its runner knows until when a hold may be believed.

use crate::args::Global;
use crate::exit::CommandFailure;
use crate::held;
use crate::output::say;
use crate::output::{self, Checked};
use crate::run::hold_socket::{self, HoldAnswer};

/// The exit code of a lock that is not held any more.
const NOT_HELD: u8 = 1;

pub(super) fn check(global: &Global) -> Result<u8, CommandFailure> {
    let Some(address) = std::env::var_os(hold_socket::VARIABLE) else {
        let variable = hold_socket::VARIABLE;
        return Err(CommandFailure::ours(format!(
            "{variable} is not set: `check` works in a command under `lockkeeper run`"
        )));
    };
    let answer = held::ask(&address.to_string_lossy()).map_err(|error| {
        CommandFailure::ours(format!("cannot tell whether the lock is held; its runner does not answer: {error}"))
    })?;
    let checked = match answer {
        Some(HoldAnswer { held, safe_for_ms, token }) => Checked { held, safe_for_ms, token: Some(token) },
        None => Checked { held: false, safe_for_ms: None, token: None },
    };
    if global.json {
        output::print_json(&checked)?;
    }
    if global.verbose {
        say(if checked.held { "the lock is held" } else { "the lock is not held any more" });
    }
    Ok(if checked.held { 0 } else { NOT_HELD })
}
