//! `hold`: takes a lock, prints its token, and holds it until its stdin ends. There is no command to end with it.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::{Hold, Keeper, LossReason, QueueName, Wait};
use tokio::time::timeout;

use super::claim::{Acquired, Acquiring, LockClaim, wait_of};
use super::service::{CLOSE_MAX, block_on, talk};
use crate::args::ClaimArgs;
use crate::config::Global;
use crate::config::ServiceSettings;
use crate::exit::{self, CommandFailure};
use crate::held::HeldLocks;
use crate::log;
use crate::output;
use crate::signals::{EndingSignal, EndingSignals};
use crate::stdin_end::StdinEnd;
use crate::voice::Voice;

pub(super) fn hold(global: &Global, args: &ClaimArgs) -> Result<u8, CommandFailure> {
    let name = QueueName::new(&args.name)?;
    let stdin_end = StdinEnd::watch()?;
    let settings = ServiceSettings::load(global)?;
    let voice = Arc::new(Voice::new(talk(global)));
    log::listen(voice.clone());
    let held = HeldLocks::around_us();
    let keeper = held.nest(settings.keeper()?).observer(voice.clone()).build();
    held.refuse(&keeper.service(), name.as_str())?;
    voice.verbose(&format!("using {}", keeper.service()));
    let wait = wait_of(args, settings.acquire_timeout);
    let claim = LockClaim::new(&keeper, args)?;
    let holder = Holder { keeper, claim, voice, args, stdin_end };
    block_on(holder.complete(wait))?
}

struct Holder<'a> {
    keeper: Keeper,
    claim: LockClaim,
    voice: Arc<Voice>,
    args: &'a ClaimArgs,
    stdin_end: StdinEnd,
}

enum HoldEnd {
    StdinEnded,
    Signal(EndingSignal),
    /// A request to give the lock up came; its reason, if it has one.
    Revoked(Option<String>),
    HeldTooLong(Duration),
    Lost(LossReason),
}

impl Holder<'_> {
    async fn complete(mut self, wait: Wait) -> Result<u8, CommandFailure> {
        let ended = self.hold(wait).await;
        self.voice.clear_status();
        // What cannot be closed in time ends by itself.
        let _ = timeout(CLOSE_MAX, self.keeper.close()).await;
        ended
    }

    async fn hold(&mut self, wait: Wait) -> Result<u8, CommandFailure> {
        let acquiring = Acquiring { keeper: &self.keeper, claim: &self.claim, voice: &self.voice };
        let acquired = tokio::select! {
            biased;
            () = self.stdin_end.come() => {
                let name = self.claim.name();
                let what = format!("{name}: stdin ended while waiting for the lock; left the queue");
                return Err(CommandFailure::ours(what));
            }
            acquired = acquiring.acquire(wait, |_| Ok(())) => acquired,
        };
        self.voice.clear_status();
        let Acquired::Held(holding) = acquired? else {
            let message = acquiring.in_vain(wait, acquiring.frozen().await);
            return match self.args.conflict_exit_code {
                // To the caller that is no failure.
                0 => {
                    self.voice.verbose(&message);
                    Ok(0)
                }
                code => Err(CommandFailure { code, message }),
            };
        };
        // Before the token is printed: a reader of it may send a signal.
        let mut interruption = EndingSignals::listen()?;
        if !output::write(&format!("{}\n", holding.hold().fencing_token()))? {
            holding.give_back(&self.voice, false, || std::future::ready(())).await;
            let name = self.claim.name();
            return Err(CommandFailure::ours(format!(
                "{name}: stdout is closed, so the token cannot be told; the lock was given back"
            )));
        }
        let end = self.end(holding.hold(), &mut interruption).await;
        if let HoldEnd::Lost(reason) = end {
            let _ = output::write(&format!("lost {reason}\n"))?;
        } else {
            holding.give_back(&self.voice, false, || std::future::ready(())).await;
        }
        self.told(end)
    }

    async fn end(&mut self, hold: &Hold, interruption: &mut EndingSignals) -> HoldEnd {
        let max_hold = self.args.max_hold;
        let held_too_long = async {
            match max_hold {
                Some(max_hold) => {
                    SystemClock.sleep_until(SystemClock.now().saturating_add(max_hold)).await;
                    max_hold
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            reason = hold.lost() => HoldEnd::Lost(reason),
            () = self.stdin_end.come() => HoldEnd::StdinEnded,
            cause = interruption.heard() => HoldEnd::Signal(cause),
            revocation = hold.revoked() => HoldEnd::Revoked(revocation.why),
            max_hold = held_too_long => HoldEnd::HeldTooLong(max_hold),
        }
    }

    /// Puts the end into words and an exit code.
    fn told(&self, end: HoldEnd) -> Result<u8, CommandFailure> {
        let name = self.claim.name();
        match end {
            HoldEnd::StdinEnded => Ok(0),
            HoldEnd::Signal(cause) => {
                self.voice.verbose(&format!("{name}: ended by {}; the lock was given back", cause.name));
                Ok(exit::by_signal(cause.number))
            }
            HoldEnd::Revoked(why) => {
                let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
                let message = format!("{name}: asked to give the lock up{why}; it was given back");
                Err(CommandFailure { code: exit::by_signal(rustix::process::Signal::TERM.as_raw()), message })
            }
            HoldEnd::HeldTooLong(max_hold) => {
                let message = format!("{name}: the lock was held for {max_hold:?} (--max-hold), and was given back");
                Err(CommandFailure { code: exit::LOST, message })
            }
            HoldEnd::Lost(reason) => {
                Err(CommandFailure { code: exit::LOST, message: format!("{name}: the lock was lost ({reason})") })
            }
        }
    }
}
