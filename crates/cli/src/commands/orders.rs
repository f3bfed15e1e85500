//! `revoke`, `break`, `freeze` and `thaw`: what an operator does to a lock, from a shell. What they share with other
//! givers of orders is in `lockkeeper_console::ordering`.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{ErrorKind, Keeper, QueueName, Revocation, Wait};
use lockkeeper_console::args::{BreakArgs, FreezableKind, FreezeArgs, RevokeArgs, ThawArgs};
use lockkeeper_console::ordering::Operator;

use super::claim::at_most;
use super::service::{answer, block_on_closing, talk};
use crate::config::Global;
use crate::config::ServiceSettings;
use crate::exit::{self, CommandFailure};
use crate::log;
use crate::output::Deed;
use crate::signals::EndingSignals;
use crate::voice::Voice;
use crate::wait_line::narrate;

/// Asks the holders to give a lock up, and waits for it if that is asked for.
pub(super) fn revoke(global: &Global, args: RevokeArgs) -> Result<u8, CommandFailure> {
    let order = OperatorCommand::new(global, &args.name)?;
    let revocation = Revocation::new(args.reason, args.wait);
    let wait = args.wait.unwrap_or_default();
    let (asked, is_given_up) = block_on_closing(&order.keeper, async {
        let asked = order.operator().holders().await?.into_iter().filter(|holder| holder.frozen.is_none()).collect();
        let given_up = order.patiently(order.keeper.admin().revoke(&args.name, revocation, Wait::AtMost(wait))).await?;
        Ok::<(Vec<_>, bool), CommandFailure>((asked, given_up?.is_some()))
    })??;
    let operator = order.operator();
    let asked = asked.iter().map(|holder| operator.who(holder)).collect();
    let printed = order.tell(Deed::Revoked { asked, given_up: is_given_up })?;
    match args.wait {
        Some(wait) if !is_given_up => Err(not_in_time(&operator, "was not given up", wait)),
        _ => Ok(printed),
    }
}

/// Takes a lock away from the holder with the given token, and from no other.
pub(super) fn break_lock(global: &Global, args: &BreakArgs) -> Result<u8, CommandFailure> {
    let order = OperatorCommand::new(global, &args.name)?;
    let broken = block_on_closing(&order.keeper, async {
        match order.keeper.admin().break_lock(&args.name, args.token).await {
            Err(error) if error.kind() == ErrorKind::TokenMismatch => {
                let operator = order.operator();
                Err(CommandFailure::ours(operator.stale(args.token, &operator.holders().await?)))
            }
            broken => Ok(broken?),
        }
    })??;
    order.tell(Deed::Broken { broken: order.operator().who(&broken) })
}

pub(super) fn freeze(global: &Global, args: &FreezeArgs) -> Result<u8, CommandFailure> {
    let order = OperatorCommand::new(global, &args.name)?;
    let frozen = block_on_closing(&order.keeper, async {
        let queue = order.keeper.contenders(&args.name).await?;
        let kind =
            order.operator().kind(args.kind.map(FreezableKind::of_lock), &queue).map_err(CommandFailure::ours)?;
        order
            .patiently(order.keeper.admin().freeze(&args.name, kind, &args.reason, at_most(args.wait)))
            .await?
            .map_err(CommandFailure::from)
    })??;
    let operator = order.operator();
    match frozen {
        Some(frozen) => order.tell(Deed::Frozen { frozen: operator.who(&frozen) }),
        None => Err(not_in_time(&operator, "was not given back, and is not frozen,", args.wait.unwrap_or_default())),
    }
}

pub(super) fn thaw(global: &Global, args: &ThawArgs) -> Result<u8, CommandFailure> {
    let order = OperatorCommand::new(global, &args.name)?;
    let thawed = block_on_closing(&order.keeper, order.keeper.admin().thaw(&args.name))??;
    let operator = order.operator();
    order.tell(Deed::Thawed { thawed: thawed.iter().map(|frozen| operator.who(frozen)).collect() })
}

fn not_in_time(operator: &Operator<'_>, what: &str, wait: Duration) -> CommandFailure {
    CommandFailure { code: exit::NOT_ACQUIRED, message: operator.not_in_time(what, wait) }
}

struct OperatorCommand<'a> {
    global: &'a Global,
    name: QueueName,
    keeper: Keeper,
    voice: Arc<Voice>,
}

impl<'a> OperatorCommand<'a> {
    fn new(global: &'a Global, name: &str) -> Result<Self, CommandFailure> {
        let name = QueueName::new(name)?;
        let voice = Arc::new(Voice::new(talk(global)));
        log::listen(voice.clone());
        let keeper = ServiceSettings::load(global)?.keeper()?.observer(voice.clone()).build();
        voice.verbose(&format!("using {}", keeper.service()));
        Ok(Self { global, name, keeper, voice })
    }

    fn operator(&self) -> Operator<'_> {
        Operator::new(&self.keeper, &self.name)
    }

    /// Waits for something, and says after a while what is waited for. A signal ends the wait.
    async fn patiently<Output>(&self, awaited: impl Future<Output = Output>) -> Result<Output, CommandFailure> {
        let mut interruption = EndingSignals::listen()?;
        let output = tokio::select! {
            biased;
            cause = interruption.heard() => Err(cause.ended(&self.name, "while waiting")),
            output = awaited => Ok(output),
            () = narrate(&self.keeper, self.name.as_str(), &self.voice) => unreachable!("it never ends by itself"),
        };
        self.voice.clear_status();
        output
    }

    fn tell(&self, deed: Deed) -> Result<u8, CommandFailure> {
        let done = self.operator().done(deed);
        answer(self.global, &done, || done.text())
    }
}
