//! `top`: the busiest locks on a terminal, live, until a key or a signal ends it.

use std::io::{IsTerminal as _, stdin, stdout};

use lockkeeper::follow::Scope;

use super::service::{block_on_closing, open};
use crate::args::Global;
use crate::config::MonitorSettings;
use crate::exit::Failure;
use crate::output::Orders;
use crate::top;

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
        let collector = settings.collector(&keeper, Scope::default());
        top::run(&keeper, &collector, &settings, &orders).await
    })?
}
