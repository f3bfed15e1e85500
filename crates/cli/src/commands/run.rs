//! `run`: takes the lock, has the command supervised under it, gives the lock back, and ends as the command did.
//!
//! How the command is kept from outliving the hold belongs to the module `run` of this crate.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper::clock::{BootInstant, Clock, SystemClock};
use lockkeeper::once::Slot;
use lockkeeper::{Hold, Keeper, Owner, QueueName, SafeUntil, Wait};
use tokio::time::timeout;

use super::claim::{Acquired, Acquiring, ClaimHold, LockClaim, wait_of};
use super::restart::{GivenUp, Pauses, RunEnd, why_again};
use super::service::{CLOSE_MAX, block_on, talk};
use crate::args::{self, RunArgs};
use crate::config::Global;
use crate::config::ServiceSettings;
use crate::exit::{self, CommandFailure};
use crate::held::{EnclosingLock, HeldLocks};
use crate::log;
use crate::output::{one_line, say};
use crate::run::hold_socket::{self, HoldAnswer, HoldSocket};
use crate::run::{CommandOutcome, LeavingWatchdog, OnLoss, StandBy, StopOrder, Supervision, settle_grace, supervise};
use crate::signals::EndingSignals;
use crate::voice::{Talk, Voice};

pub(super) fn run(global: &Global, args: RunArgs) -> Result<u8, CommandFailure> {
    let name = QueueName::new(&args.claim.name)?;
    check(&args)?;
    let settings = ServiceSettings::load(global)?;
    // Before there is a second thread or an open file.
    let stand_by = StandBy::fork(&args.command).map_err(|error| {
        CommandFailure::ours(format!("cannot start a process that watches over the command: {error}"))
    })?;
    let voice = Arc::new(Voice::new(if args.quiet { Talk::Quiet } else { talk(global) }));
    log::listen(voice.clone());
    let held = HeldLocks::around_us();
    let keeper = held.nest(settings.keeper()?).owner(owner(&args.command)).observer(voice.clone()).build();
    held.refuse(&keeper.service(), name.as_str())?;
    voice.verbose(&format!("using {}", keeper.service()));
    let wait = wait_of(&args.claim, settings.acquire_timeout);
    let claim = match slot(&args) {
        Some(slot) => LockClaim::of_slot(&keeper, &args.claim.name, slot, args.retry_failed)?,
        None => LockClaim::new(&keeper, &args.claim)?,
    };
    let run = Run { keeper, claim, voice, args, held };
    block_on(run.complete(wait, stand_by))?
}

/// The slot that the command is to be run for, if it is to be run once for each.
fn slot(args: &RunArgs) -> Option<Slot> {
    let of_time = |period| Slot::of_time(period, SystemClock.unix_time());
    args.slot.clone().or_else(|| args.once_per.map(of_time))
}

/// Refuses options that contradict one another.
fn check(args: &RunArgs) -> Result<(), CommandFailure> {
    if args.restart && args.claim.wait == Some(Duration::ZERO) {
        return Err(CommandFailure::ours("--restart queues again and again, and --wait 0 never queues"));
    }
    if args.restart && args.on_loss == OnLoss::Warn {
        return Err(CommandFailure::ours(
            "--restart ends the command when the lock is lost, and --on-loss warn lets it go on",
        ));
    }
    if args.retry_failed && args.once_per.is_none() && args.slot.is_none() {
        return Err(CommandFailure::ours("--retry-failed is for a run with --once-per or --slot"));
    }
    match (args.min_hold, args.claim.max_hold) {
        (Some(min_hold), Some(max_hold)) if min_hold > max_hold => {
            Err(CommandFailure::ours(format!("--min-hold {min_hold:?} is longer than --max-hold {max_hold:?}")))
        }
        _ => Ok(()),
    }
}

/// Describes the command to observers of the queue. Its arguments are left out: they can be secrets.
fn owner(command: &[OsString]) -> Owner {
    let mut owner = Owner::this_process();
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    owner.command = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    owner
}

struct Run {
    keeper: Keeper,
    claim: LockClaim,
    voice: Arc<Voice>,
    args: RunArgs,
    held: HeldLocks,
}

/// How all turns ended.
enum TurnsEnd {
    Ran(RunEnd),
    /// The lock was not held.
    InVain(Acquired),
}

struct Supervised {
    outcome: CommandOutcome,
    /// Why the lock was given up while the command ran, if it was.
    given_up: Option<GivenUp>,
    leaving: Option<LeavingWatchdog>,
    /// Whether a loss of the lock was told, or is told by the outcome. One that came with the command's end was not.
    is_loss_told: bool,
}

impl Run {
    async fn complete(self, wait: Wait, stand_by: StandBy) -> Result<u8, CommandFailure> {
        let ended = self.turns(wait, stand_by).await;
        let is_in_vain = matches!(ended, Ok(TurnsEnd::InVain(Acquired::TimeIsUp)));
        let frozen = if is_in_vain { self.acquiring().frozen().await } else { None };
        if self.args.restart || !matches!(ended, Ok(TurnsEnd::Ran(_))) {
            self.leave().await;
        }
        let name = self.claim.name();
        match ended? {
            TurnsEnd::Ran(ended) => end(ended, &self.args),
            TurnsEnd::InVain(Acquired::SlotTaken) => {
                self.voice.verbose(&format!("{name}: the slot was claimed before; the command was not run"));
                Ok(0)
            }
            TurnsEnd::InVain(Acquired::SlotPassed(newest)) => {
                Ok(self.conflict(&format!("{name}: the slot {newest} was claimed, which begins later than this one")))
            }
            TurnsEnd::InVain(_) => Ok(self.conflict(&self.acquiring().in_vain(wait, frozen))),
        }
    }

    /// Runs one turn after the other while the command is to be run anew.
    async fn turns(&self, wait: Wait, stand_by: StandBy) -> Result<TurnsEnd, CommandFailure> {
        let mut stand_by = Some(stand_by);
        let mut pauses = Pauses::new();
        loop {
            let acquired = self.acquiring().acquire(wait, |notice| self.grace(notice).map(drop)).await;
            self.voice.clear_status();
            let holding = match acquired? {
                Acquired::Held(holding) => holding,
                none => return Ok(TurnsEnd::InVain(none)),
            };
            let ended = self.turn(holding, stand_by.take()).await?;
            let Some(why) = why_again(&ended).filter(|_| self.args.restart) else { return Ok(TurnsEnd::Ran(ended)) };
            self.pause(&why, pauses.after(ended.lasted)).await?;
        }
    }

    async fn turn(&self, holding: ClaimHold, stand_by: Option<StandBy>) -> Result<RunEnd, CommandFailure> {
        let granted_at = SystemClock.now();
        // No await between the grant and the supervisor's own listening, so that no signal is lost.
        let mut interruption = if self.args.restart { Some(EndingSignals::listen()?) } else { None };
        let mut supervised = match self.grace(holding.hold().notice()) {
            Ok(grace) => self.supervised(holding.hold(), grace, granted_at, stand_by).await,
            Err(failure) => Err(failure),
        };
        if let Ok(Supervised {
            outcome: CommandOutcome::Exited(_) | CommandOutcome::Signaled(_),
            given_up: None,
            leaving,
            ..
        }) = &mut supervised
            && self.args.min_hold.is_some()
        {
            drop(leaving.take());
            self.keep(holding.hold(), granted_at).await;
        }
        if let Ok(Supervised { outcome: CommandOutcome::Exited(0), given_up: None, .. }) = &supervised {
            holding.note_done(&self.voice).await;
        }
        let is_loss_told = supervised.as_ref().is_ok_and(|supervised| supervised.is_loss_told);
        self.release(holding, is_loss_told).await;
        let Supervised { outcome, given_up, leaving, .. } = supervised?;
        drop(leaving);
        let heard = interruption.as_mut().and_then(EndingSignals::heard_already);
        Ok(RunEnd {
            outcome,
            given_up,
            lasted: SystemClock.now().saturating_duration_since(granted_at),
            // Many commands read their settings anew at a HUP.
            is_told_to_end: heard.is_some_and(|cause| cause.name != "SIGHUP"),
        })
    }

    /// Keeps the lock for the shortest time that it is to be held, unless a signal comes or it is lost or asked for.
    async fn keep(&self, hold: &Hold, granted_at: BootInstant) {
        let Some(until) = self.args.min_hold.map(|min_hold| granted_at.saturating_add(min_hold)) else { return };
        let left = until.saturating_duration_since(SystemClock.now());
        let Ok(mut interruption) = EndingSignals::listen() else { return };
        if left.is_zero() {
            return;
        }
        self.voice.verbose(&format!("{}: the command has ended; keeping the lock for {left:?}", hold.name()));
        tokio::select! {
            _ = interruption.heard() => {}
            _ = hold.lost() => {}
            _ = hold.revoked(), if self.args.on_revoke == args::OnRevoke::Stop => {}
            () = SystemClock.sleep_until(until) => {}
        }
    }

    /// Waits before the next turn. A signal ends the wait.
    async fn pause(&self, why: &str, pause: Duration) -> Result<(), CommandFailure> {
        let mut interruption = EndingSignals::listen()?;
        let name = self.claim.name();
        self.voice.say(&format!("{name}: {why}; queueing again in {pause:?}"));
        tokio::select! {
            biased;
            cause = interruption.heard() => Err(cause.ended(name, "before the command was run anew")),
            () = SystemClock.sleep_until(SystemClock.now().saturating_add(pause)) => Ok(()),
        }
    }

    fn acquiring(&self) -> Acquiring<'_> {
        Acquiring { keeper: &self.keeper, claim: &self.claim, voice: &self.voice }
    }

    fn conflict(&self, why: &str) -> u8 {
        let code = self.args.claim.conflict_exit_code;
        let in_vain = format!("{why}; the command was not run");
        match code {
            // To the caller that is no failure.
            0 => self.voice.verbose(&in_vain),
            _ if self.voice.is_quiet() => {}
            _ => say(&in_vain),
        }
        code
    }

    /// Chooses the grace, once the session's timeout is known. A command that outlives its lock is not ended for it, so
    /// nothing has to fit.
    fn grace(&self, notice: Option<Duration>) -> Result<Duration, CommandFailure> {
        let notice = notice.filter(|_| self.args.on_loss == OnLoss::Stop);
        settle_grace(self.args.grace, notice).map_err(|too_long| {
            let (name, service) = (self.claim.name(), self.keeper.service());
            CommandFailure::ours(format!("{name} ({service}): {too_long}; the command was not run"))
        })
    }

    /// Runs the command; returns when it has ended, and says why the lock is given up if that ended it.
    async fn supervised(
        &self,
        hold: &Hold,
        grace: Duration,
        granted_at: BootInstant,
        stand_by: Option<StandBy>,
    ) -> Result<Supervised, CommandFailure> {
        let failed = |error| CommandFailure::ours(format!("cannot run the command: {error}"));
        let socket = HoldSocket::bind().map_err(failed)?;
        let address = socket.address();
        let supervision = Supervision {
            stand_by,
            command: self.args.command.clone(),
            environment: self.environment(hold, address),
            lifeline: hold.standing().and_then(lockkeeper::lifeline),
            safe_until: Box::new({
                let hold = hold.clone();
                move || hold.liveness().safe_until().unwrap_or_else(|| SafeUntil::At(SystemClock.now()))
            }),
            grace,
            on_loss: self.args.on_loss,
        };
        let (given_up, loss_told) = (OnceLock::new(), OnceLock::new());
        // The supervisor tells of it at once.
        let lost = async {
            let reason = hold.lost().await;
            loss_told.get_or_init(|| ());
            reason.to_string()
        };
        let stop = async {
            let (why, stop) = self.stop(hold, granted_at).await;
            given_up.get_or_init(|| why);
            stop
        };
        let (outcome, leaving) = tokio::select! {
            biased;
            ended = supervise(supervision, lost, stop) => ended.map_err(failed)?,
            never = socket.serve(|| answer(hold)) => match never {},
        };
        // The watchdog may have found out first; then it is told when we end.
        let is_loss_told = loss_told.get().is_some() || matches!(outcome, CommandOutcome::LockLost(_));
        Ok(Supervised { outcome, given_up: given_up.get().copied(), leaving, is_loss_told })
    }

    /// Waits until the lock is to be given up though it is held.
    async fn stop(&self, hold: &Hold, granted_at: BootInstant) -> (GivenUp, StopOrder) {
        let held_too_long = async {
            match self.args.claim.max_hold {
                Some(max_hold) => SystemClock.sleep_until(granted_at.saturating_add(max_hold)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            stop = self.asked(hold) => (GivenUp::Asked, stop),
            () = held_too_long => {
                let why = format!("{}: the lock was held for as long as --max-hold allows", hold.name());
                (GivenUp::HeldTooLong, StopOrder { why, within: None })
            }
        }
    }

    /// Waits for a request to give the lock up; if requests are to be ignored, says so and waits on.
    async fn asked(&self, hold: &Hold) -> StopOrder {
        let revocation = hold.revoked().await;
        let why = revocation.why.map(|why| format!(" ({why})")).unwrap_or_default();
        let why = one_line(&format!("{}: asked to give the lock up{why}", hold.name()));
        if self.args.on_revoke == args::OnRevoke::Ignore {
            self.voice.say(&format!("{why}; the command goes on"));
            return std::future::pending().await;
        }
        StopOrder { why, within: revocation.within }
    }

    /// Tells the command what it runs under. Its own URL and config variables pass through as they are.
    fn environment(&self, hold: &Hold, address: OsString) -> Vec<(OsString, OsString)> {
        let socket = address.to_string_lossy().into_owned();
        let held = EnclosingLock::new(self.keeper.service(), hold.name().to_string(), socket, hold.ticket());
        let text = |name: &str, value: String| (OsString::from(name), OsString::from(value));
        let slot = self.claim.slot().map(|slot| text("LOCKKEEPER_SLOT", slot.to_string()));
        let always = [
            text("LOCKKEEPER_NAME", hold.name().to_string()),
            text("LOCKKEEPER_TOKEN", hold.fencing_token().to_string()),
            text("LOCKKEEPER_CONTENDER", hold.contender().to_string()),
            (OsString::from(hold_socket::VARIABLE), address),
            self.held.clone().variable_with(held),
        ];
        always.into_iter().chain(slot).collect()
    }

    /// Gives the lock back, and closes the session if it was the last turn. The end of the session is sent behind the
    /// release: over a slow way both take one round trip.
    async fn release(&self, holding: ClaimHold, is_loss_told: bool) {
        let close = || {
            let closing = (!self.args.restart).then(|| self.keeper.close());
            async move {
                if let Some(closing) = closing {
                    // A session that cannot be closed ends by itself, and nothing of ours is left in it.
                    let _ = closing.await;
                }
            }
        };
        holding.give_back(&self.voice, is_loss_told, close).await;
    }

    /// Closes the session, so that nothing of us is left there.
    async fn leave(&self) {
        // What cannot be closed in time ends by itself.
        let _ = timeout(CLOSE_MAX, self.keeper.close()).await;
    }
}

fn answer(hold: &Hold) -> HoldAnswer {
    let left = hold.safe_for();
    HoldAnswer {
        held: hold.is_held(),
        safe_for_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        token: hold.fencing_token().to_string(),
    }
}

/// Ends as the command did.
fn end(ended: RunEnd, args: &RunArgs) -> Result<u8, CommandFailure> {
    let name = &args.claim.name;
    let lost = |message| Err(CommandFailure { code: exit::LOST, message });
    match (ended.outcome, ended.given_up) {
        (CommandOutcome::NotFound(message), _) => Err(CommandFailure { code: exit::NOT_FOUND, message }),
        (CommandOutcome::NotExecutable(message), _) => Err(CommandFailure { code: exit::NOT_EXECUTABLE, message }),
        (CommandOutcome::LockLost(reason), _) => {
            lost(format!("{name}: the lock was lost ({reason}), and the command was ended"))
        }
        (_, Some(GivenUp::HeldTooLong)) => {
            let max_hold = args.claim.max_hold.unwrap_or_default();
            lost(format!("{name}: the lock was held for {max_hold:?} (--max-hold), and the command was ended"))
        }
        (CommandOutcome::Exited(code), _) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        (CommandOutcome::Signaled(signal), _) => Ok(exit::by_signal(signal)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_named_by_its_program_without_path_and_arguments() {
        for (command, shown) in [("/opt/x/backup.sh", "backup.sh"), ("make", "make"), ("..", ".."), ("", "")] {
            assert_eq!(owner(&[OsString::from(command), OsString::from("--password=x")]).command, shown);
        }
    }

    #[test]
    fn a_run_ends_as_its_command_did_unless_the_lock_was_lost_or_held_too_long() {
        let line = "lockkeeper run x -- true".split(' ').map(OsString::from);
        let Ok(args::CliRequest::Do(args::Cli { command: args::Command::Run(args), .. })) = args::parse(line) else {
            panic!("the line is right");
        };
        let code = |outcome, given_up| {
            let ended = RunEnd { outcome, given_up, lasted: Duration::ZERO, is_told_to_end: false };
            end(ended, &args).unwrap_or_else(|failure| failure.code)
        };
        assert_eq!(code(CommandOutcome::Exited(7), None), 7);
        assert_eq!(code(CommandOutcome::Signaled(9), None), 137);
        assert_eq!(code(CommandOutcome::Signaled(15), Some(GivenUp::Asked)), 143);
        assert_eq!(code(CommandOutcome::Signaled(15), Some(GivenUp::HeldTooLong)), 123);
        assert_eq!(code(CommandOutcome::LockLost("gone".to_owned()), Some(GivenUp::Asked)), 123);
        assert_eq!(code(CommandOutcome::NotFound(String::new()), None), 127);
        assert_eq!(code(CommandOutcome::NotExecutable(String::new()), None), 126);
    }
}
