//! `run`: takes the lock, has the command supervised under it, gives the lock back, and ends as the command did.
//!
//! How the command is kept from outliving the hold belongs to the module `run` of this crate.

use std::ffi::OsString;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::{ErrorKind, Hold, Keeper, Mutex, MutexGuard, Owner, QueueName, SafeUntil};
use tokio::time::timeout;

use super::dispatch::{CLOSE_MAX, block_on, talk};
use crate::args::{self, Global, RunArgs};
use crate::config::Settings;
use crate::exit::{self, Failure};
use crate::held::{Held, HeldLocks};
use crate::interruption::Interruption;
use crate::log;
use crate::run::hold_socket::{self, Answer, HoldSocket};
use crate::run::{OnLoss, Outcome, Supervision, settle_grace, supervise};
use crate::voice::{Talk, Voice, say};
use crate::wait_line::narrate;

/// Runs a command under a lock.
pub(super) fn run(global: &Global, args: RunArgs) -> Result<u8, Failure> {
    let name = QueueName::new(&args.name)?;
    let settings = Settings::load(global)?;
    let voice = Arc::new(Voice::new(if args.quiet { Talk::Quiet } else { talk(global) }));
    log::listen(voice.clone());
    let keeper = settings.keeper()?.owner(owner(&args.command)).observer(voice.clone()).build();
    let held = HeldLocks::around_us();
    held.refuse(&keeper.service(), name.as_str())?;
    voice.mention(&format!("using {}", keeper.service()));
    let patience = Patience::new(&args, settings.acquire_timeout);
    let mutex = keeper.mutex(name.as_str())?;
    let run = Run { keeper, mutex, voice, args, held };
    block_on(run.complete(patience))?
}

/// How long the lock is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Patience {
    None,
    AtMost(Duration),
    Endless,
}

impl Patience {
    fn new(args: &RunArgs, from_config: Option<Duration>) -> Self {
        match args.wait.or(from_config) {
            _ if args.no_wait => Self::None,
            None => Self::Endless,
            Some(Duration::ZERO) => Self::None,
            Some(longest) => Self::AtMost(longest),
        }
    }

    async fn lock(self, mutex: &Mutex) -> lockkeeper::Result<Option<MutexGuard>> {
        match self {
            Self::None => mutex.try_lock().await,
            Self::AtMost(longest) => mutex.lock_timeout(longest).await,
            Self::Endless => mutex.lock().await.map(Some),
        }
    }
}

/// Describes the command to those who look at the queue. Its arguments are left out: they can be secrets.
fn owner(command: &[OsString]) -> Owner {
    let mut owner = Owner::this_process();
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    owner.command = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    owner
}

/// A run on its way.
struct Run {
    keeper: Keeper,
    mutex: Mutex,
    voice: Arc<Voice>,
    args: RunArgs,
    held: HeldLocks,
}

impl Run {
    async fn complete(mut self, patience: Patience) -> Result<u8, Failure> {
        let acquired = self.acquire(patience).await;
        self.voice.hush();
        let guard = match acquired {
            Ok(Some(guard)) => guard,
            Ok(None) => {
                self.leave().await;
                return Ok(self.conflict(patience));
            }
            Err(failure) => {
                self.leave().await;
                return Err(failure);
            }
        };
        // No await between the grant and the supervisor's own listening, so that no signal is lost.
        let outcome = match self.grace(guard.hold()) {
            Ok(grace) => self.supervised(guard.hold(), grace).await,
            Err(failure) => Err(failure),
        };
        let is_loss_told = matches!(outcome, Ok(Outcome::LockLost(_))) || self.args.on_loss == args::OnLoss::Warn;
        self.release(guard, is_loss_told).await;
        end(outcome?, self.mutex.name())
    }

    /// Waits for the lock. A signal ends the wait, and the queue is left by dropping it.
    async fn acquire(&self, patience: Patience) -> Result<Option<MutexGuard>, Failure> {
        let mut locking = pin!(patience.lock(&self.mutex));
        // A lock that is free costs neither signal handlers nor words.
        if let Some(locked) = poll_once(locking.as_mut()).await {
            return Ok(locked?);
        }
        let mut interruption =
            Interruption::listen().map_err(|error| Failure::ours(format!("cannot listen for signals: {error}")))?;
        let name = self.mutex.name();
        tokio::select! {
            biased;
            cause = interruption.heard() => Err(Failure {
                code: exit::by_signal(cause.number),
                message: format!("{name}: ended by {} while waiting for the lock; left the queue", cause.name),
            }),
            locked = locking => Ok(locked?),
            () = narrate(&self.keeper, name.as_str(), &self.voice) => unreachable!("it never ends by itself"),
        }
    }

    fn conflict(&self, patience: Patience) -> u8 {
        if !self.voice.is_quiet() {
            let (name, service) = (self.mutex.name(), self.keeper.service());
            let why = match patience {
                Patience::AtMost(longest) => format!("was not free within {longest:?}"),
                Patience::None | Patience::Endless => "is in use".to_owned(),
            };
            say(&format!("{name} ({service}) {why}; the command was not run"));
        }
        self.args.conflict_exit_code
    }

    /// Settles on the grace, now that the session's timeout is known. A command that outlives its lock is not ended for
    /// it, so nothing has to fit.
    fn grace(&self, hold: &Hold) -> Result<Duration, Failure> {
        let notice = if self.args.on_loss == args::OnLoss::Stop { hold.notice() } else { None };
        settle_grace(self.args.grace, notice).map_err(|too_long| {
            let (name, service) = (self.mutex.name(), self.keeper.service());
            Failure::ours(format!("{name} ({service}): {too_long}; the command was not run"))
        })
    }

    /// Runs the command; comes back when it has ended.
    async fn supervised(&mut self, hold: &Hold, grace: Duration) -> Result<Outcome, Failure> {
        let failed = |error| Failure::ours(format!("cannot run the command: {error}"));
        let socket = HoldSocket::bind().map_err(failed)?;
        let address = socket.address();
        let supervision = Supervision {
            command: std::mem::take(&mut self.args.command),
            environment: self.environment(hold, address),
            lifeline: hold.lifeline(),
            safe_until: Box::new({
                let hold = hold.clone();
                move || hold.liveness().safe_until().unwrap_or_else(|| SafeUntil::At(SystemClock.now()))
            }),
            grace,
            on_loss: match self.args.on_loss {
                args::OnLoss::Stop => OnLoss::Stop,
                args::OnLoss::Warn => OnLoss::Warn,
            },
        };
        let lost = async { hold.lost().await.to_string() };
        tokio::select! {
            biased;
            outcome = supervise(supervision, lost) => outcome.map_err(failed),
            never = socket.serve(|| answer(hold)) => match never {},
        }
    }

    /// Tells the command what it runs under. Its own URL and config variables pass through as they are.
    fn environment(&mut self, hold: &Hold, address: OsString) -> Vec<(OsString, OsString)> {
        let held = Held {
            service: self.keeper.service(),
            name: hold.name().to_string(),
            hold: address.to_string_lossy().into_owned(),
        };
        let text = |name: &str, value: String| (OsString::from(name), OsString::from(value));
        vec![
            text("LOCKKEEPER_NAME", hold.name().to_string()),
            text("LOCKKEEPER_TOKEN", hold.fencing_token().to_string()),
            text("LOCKKEEPER_CONTENDER", hold.contender().to_string()),
            (OsString::from(hold_socket::VARIABLE), address),
            std::mem::take(&mut self.held).variable_with(held),
        ]
    }

    /// Gives the lock back and closes the session, within the bound.
    async fn release(&self, guard: MutexGuard, is_loss_told: bool) {
        let mut released = None;
        let releasing = async {
            released = Some(guard.release().await);
            // A session that cannot be closed ends by itself, and nothing of ours is left in it.
            let _ = self.keeper.close().await;
        };
        let _ = timeout(CLOSE_MAX, releasing).await;
        match released {
            Some(Err(error)) if is_loss_told && matches!(error.kind(), ErrorKind::Lost(_)) => {}
            Some(Err(error)) => self.voice.say(&error.to_string()),
            Some(Ok(())) => {}
            None => self.voice.say(&format!(
                "{}: giving the lock back took longer than {CLOSE_MAX:?}; it ends with the session",
                self.mutex.name()
            )),
        }
    }

    /// Closes the session, so that nothing of us is left there.
    async fn leave(&self) {
        // What cannot be closed in time ends by itself.
        let _ = timeout(CLOSE_MAX, self.keeper.close()).await;
    }
}

fn answer(hold: &Hold) -> Answer {
    let left = hold.safe_for();
    Answer {
        held: hold.is_held(),
        safe_for_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        token: hold.fencing_token().to_string(),
    }
}

async fn poll_once<Fut: Future>(mut future: Pin<&mut Fut>) -> Option<Fut::Output> {
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Ends as the command did.
fn end(outcome: Outcome, name: &QueueName) -> Result<u8, Failure> {
    match outcome {
        Outcome::Exited(code) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        Outcome::Signaled(signal) => Ok(exit::by_signal(signal)),
        Outcome::LockLost(reason) => {
            let message = format!("{name}: the lock was lost ({reason}), and the command was ended");
            Err(Failure { code: exit::LOST, message })
        }
        Outcome::NotFound(message) => Err(Failure { code: exit::NOT_FOUND, message }),
        Outcome::NotExecutable(message) => Err(Failure { code: exit::NOT_EXECUTABLE, message }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> RunArgs {
        match args::parse(line.split(' ').map(OsString::from)) {
            Ok(args::Request::Do(args::Cli { command: args::Command::Run(args), .. })) => args,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_wait_of_zero_is_no_wait_and_the_option_goes_before_the_config_file() {
        let minute = Some(Duration::from_secs(60));
        for (options, from_config, expected) in [
            ("-x", None, Patience::Endless),
            ("-n", None, Patience::None),
            ("-n", minute, Patience::None),
            ("-w 0", minute, Patience::None),
            ("-w 2s", minute, Patience::AtMost(Duration::from_secs(2))),
            ("-x", minute, Patience::AtMost(Duration::from_secs(60))),
        ] {
            let args = args(&format!("lockkeeper run x {options} -- true"));
            assert_eq!(Patience::new(&args, from_config), expected, "{options}");
        }
    }

    #[test]
    fn an_owner_is_named_by_its_program_without_path_and_arguments() {
        for (command, shown) in [("/opt/x/backup.sh", "backup.sh"), ("make", "make"), ("..", ".."), ("", "")] {
            assert_eq!(owner(&[OsString::from(command), OsString::from("--password=x")]).command, shown);
        }
    }

    #[test]
    fn a_run_ends_as_its_command_did() {
        let name = QueueName::new("x").unwrap();
        let code = |outcome| end(outcome, &name).unwrap_or_else(|failure| failure.code);
        assert_eq!(code(Outcome::Exited(7)), 7);
        assert_eq!(code(Outcome::Signaled(9)), 137);
        assert_eq!(code(Outcome::LockLost("gone".to_owned())), 123);
        assert_eq!(code(Outcome::NotFound(String::new())), 127);
        assert_eq!(code(Outcome::NotExecutable(String::new())), 126);
    }
}
