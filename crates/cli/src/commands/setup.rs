//! `setup`: what a service must have before the first lock. What that is, the service's backend knows.

use std::time::Duration;

use super::service::{block_on_closing, open};
use crate::args::Global;
use crate::exit::CommandFailure;
use crate::output;
use crate::output::say;

pub(super) fn setup(global: &Global, only_print: bool, timeout_max: Option<Duration>) -> Result<u8, CommandFailure> {
    let keeper = open(global)?;
    let Some(text) = keeper.admin().set_up_text() else {
        say(&format!("{} needs no setup", keeper.service()));
        return Ok(0);
    };
    if only_print {
        return output::print(&text).map(|()| 0);
    }
    block_on_closing(&keeper, async {
        keeper.admin().set_up().await?;
        match timeout_max {
            Some(timeout_max) => keeper.admin().limit_session_timeout(timeout_max).await,
            None => Ok(()),
        }
    })??;
    say(&format!("{} is set up", keeper.service()));
    Ok(0)
}
