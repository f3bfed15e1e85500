//! `top`: the busiest locks on a terminal, live, until a key or a signal ends it.
//!
//! A build without the feature `top` has the same command, which names the feature.

#[cfg(feature = "top")]
mod shown {
    use std::io::{IsTerminal as _, stdin, stdout};
    use std::sync::Arc;

    use lockkeeper::clock::SystemClock;
    use lockkeeper::follow::Scope;
    use lockkeeper_monitor::Collector;

    use crate::args::Global;
    use crate::commands::service::{block_on_closing, open};
    use crate::config::MonitorSettings;
    use crate::exit::Failure;
    use crate::output::Orders;
    use crate::top;

    /// Shows the locks of the service on this terminal.
    pub(crate) fn top(global: &Global) -> Result<u8, Failure> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            return Err(Failure::ours("top: stdin and stdout are no terminal; `lockkeeper ls` prints the locks"));
        }
        if std::env::var_os("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb") {
            return Err(Failure::ours("top: TERM names no terminal with a screen; `lockkeeper ls` prints the locks"));
        }
        let settings = MonitorSettings::load(global)?;
        let keeper = open(global)?;
        let orders = Orders::new(global);
        block_on_closing(&keeper, async {
            let collector = Collector::new(keeper.clone(), Arc::new(SystemClock), Scope::default());
            let collector = match settings.interval() {
                Some(interval) => collector.looking_each(interval),
                None => collector,
            };
            top::run(&keeper, &collector, &settings, &orders).await
        })?
    }
}

#[cfg(not(feature = "top"))]
mod refused {
    use crate::args::Global;
    use crate::exit::Failure;

    /// Says what is missing.
    pub(crate) fn top(_: &Global) -> Result<u8, Failure> {
        Err(Failure::ours("top: this lockkeeper was built without the feature `top`; build it with `--features top`"))
    }
}

#[cfg(not(feature = "top"))]
pub(super) use refused::top;
#[cfg(feature = "top")]
pub(super) use shown::top;
