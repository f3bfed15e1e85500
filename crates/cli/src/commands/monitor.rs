//! `monitor`: what is known of all locks, by HTTP, until a signal ends it.

use lockkeeper_console::args::MonitorArgs;
use lockkeeper_console::monitor::Monitor;

use super::service::{block_on_closing, open};
use crate::args::Global;
use crate::config::monitor_settings;
use crate::exit::CommandFailure;
use crate::interruption::EndingSignals;

/// Serves until TERM, INT or HUP.
pub(crate) fn monitor(global: &Global, args: MonitorArgs) -> Result<u8, CommandFailure> {
    let monitor = Monitor::new(args)?;
    let settings = monitor_settings(global)?;
    let keeper = open(global)?;
    block_on_closing(&keeper, async {
        let mut interruption = EndingSignals::listen()?;
        let stopping = async { interruption.heard().await.name };
        monitor.serve(&keeper, settings, global.orders(), stopping).await
    })?
}
