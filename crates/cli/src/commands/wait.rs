//! `wait`: until a lock is free and has no waiters.

use std::sync::Arc;

use lockkeeper::{QueueName, Wait};

use super::service::{block_on_closing, talk};
use crate::args::Global;
use crate::config::ServiceSettings;
use crate::exit::{CommandFailure, NOT_ACQUIRED};
use crate::log;
use crate::voice::Voice;
use crate::wait_line::narrate;

/// Waits for as long as `wait` says, and tells by the exit code whether the lock was left.
pub(super) fn wait(global: &Global, name: &str, wait: Wait) -> Result<u8, CommandFailure> {
    let name = QueueName::new(name)?;
    let keeper = ServiceSettings::load(global)?.keeper()?.build();
    let voice = Arc::new(Voice::new(talk(global)));
    log::listen(voice.clone());
    voice.verbose(&format!("using {}", keeper.service()));
    let is_vacant = block_on_closing(&keeper, async {
        tokio::select! {
            biased;
            vacant = keeper.until_vacant(name.as_str(), wait) => vacant,
            () = narrate(&keeper, name.as_str(), &voice) => unreachable!("it never ends by itself"),
        }
    })?;
    voice.clear_status();
    if is_vacant?.is_some() {
        Ok(0)
    } else {
        let message = format!("{name} ({}) is still in use", keeper.service());
        Err(CommandFailure { code: NOT_ACQUIRED, message })
    }
}
