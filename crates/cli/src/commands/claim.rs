//! The lock that `run` and `hold` ask for, of one kind, and how long it is waited for. After this file, all kinds are
//! alike.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::counter::SharedCounter;
use lockkeeper::once::{Once, Slot, SlotClaim, SlotGuard};
use lockkeeper::retry::RetryPolicy;
use lockkeeper::{
    Advice, Error, Guard, Hold, Keeper, Liveness, Mutex, Permits, QueueName, Result, RwLock, Semaphore, Wait,
};
use tokio::time::timeout;

use super::service::CLOSE_MAX;
use crate::args::ClaimArgs;
use crate::exit::CommandFailure;
use crate::signals::EndingSignals;
use crate::voice::Voice;
use crate::wait_line::narrate;

/// Returns how long the options, or else the configuration, say to wait.
pub(super) fn wait_of(args: &ClaimArgs, from_config: Option<Duration>) -> Wait {
    if args.no_wait { Wait::No } else { at_most(args.wait.or(from_config)) }
}

/// Reads an optional time: a time of zero is no wait, and without one the wait has no end.
pub(super) fn at_most(time: Option<Duration>) -> Wait {
    match time {
        None => Wait::Forever,
        Some(Duration::ZERO) => Wait::No,
        Some(time) => Wait::AtMost(time),
    }
}

/// A lock of the kind that the options ask for.
#[derive(Clone, Debug)]
pub(super) enum LockClaim {
    Mutex(Mutex),
    Read(RwLock),
    Write(RwLock),
    Permit(Semaphore, Option<PermitCount>),
    Slot(Once, Slot),
}

/// What came of the wait for a lock.
pub(super) enum Acquired {
    Held(ClaimHold),
    TimeIsUp,
    /// The slot was claimed before.
    SlotTaken,
    /// This slot, which begins later, was claimed before.
    SlotPassed(Slot),
}

/// A counter that is to say how many permits there are.
#[derive(Clone, Debug)]
pub(super) struct PermitCount {
    counter: SharedCounter,
    permits: i32,
}

impl PermitCount {
    /// Sets the counter, unless it says so; what may pass is tried again for as long as may be waited.
    async fn set(&self, wait: Wait) -> Result<()> {
        let attempts = RetryPolicy::default().attempts(|error: &Error| error.advice() == Advice::Transient);
        match wait {
            Wait::No => self.try_to_set().await,
            Wait::AtMost(time) => match timeout(time, attempts.run(|| self.try_to_set())).await {
                Ok(set) => set,
                Err(_) => self.try_to_set().await,
            },
            Wait::Forever | Wait::Until(_) => attempts.run(|| self.try_to_set()).await,
        }
    }

    async fn try_to_set(&self) -> Result<()> {
        if self.counter.get().await?.number() == self.permits {
            return Ok(());
        }
        self.counter.set(self.permits).await.map(drop)
    }
}

impl LockClaim {
    /// Chooses the lock and the share of it that the options ask for.
    pub(super) fn new(keeper: &Keeper, args: &ClaimArgs) -> Result<Self> {
        let name = args.name.as_str();
        Ok(match (args.permits, &args.counter) {
            (Some(permits), None) => Self::Permit(keeper.semaphore(name, permits)?, None),
            (permits, Some(counter)) => {
                let semaphore = keeper.semaphore(name, Permits::Counter(counter.clone()))?;
                // A counter has as many bits, one of which is its sign.
                let permits = permits.map(|permits| i32::try_from(permits).unwrap_or(i32::MAX));
                let counter = keeper.shared_counter(counter)?;
                Self::Permit(semaphore, permits.map(|permits| PermitCount { counter, permits }))
            }
            (None, None) if args.shared => Self::Read(keeper.rw_lock(name)?),
            (None, None) if args.exclusive => Self::Write(keeper.rw_lock(name)?),
            (None, None) => Self::Mutex(keeper.mutex(name)?),
        })
    }

    /// Chooses the slot of a job.
    pub(super) fn of_slot(keeper: &Keeper, name: &str, slot: Slot, retries: bool) -> Result<Self> {
        let once = keeper.once(name)?;
        Ok(Self::Slot(if retries { once.retry_failed() } else { once }, slot))
    }

    pub(super) const fn slot(&self) -> Option<&Slot> {
        match self {
            Self::Slot(_, slot) => Some(slot),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> &QueueName {
        match self {
            Self::Mutex(mutex) => mutex.name(),
            Self::Read(lock) | Self::Write(lock) => lock.name(),
            Self::Permit(semaphore, _) => semaphore.name(),
            Self::Slot(once, _) => once.name(),
        }
    }

    pub(super) fn in_use(&self) -> &'static str {
        match self {
            Self::Permit(..) => "has no permit left, or another contender waits for one",
            _ => "is in use",
        }
    }

    /// Takes it.
    pub(super) async fn take(&self, wait: Wait) -> Result<Acquired> {
        match self {
            Self::Mutex(mutex) => holding(mutex.lock_within(wait).await),
            Self::Read(lock) => holding(lock.read_within(wait).await),
            Self::Write(lock) => holding(lock.write_within(wait).await),
            Self::Permit(semaphore, count) => {
                if let Some(count) = count {
                    count.set(wait).await?;
                }
                holding(semaphore.acquire_within(wait).await)
            }
            Self::Slot(once, slot) => Ok(match once.claim_within(slot, wait).await? {
                SlotClaim::Granted(guard) => Acquired::Held(ClaimHold::of_slot(guard)),
                SlotClaim::Passed(newest) => Acquired::SlotPassed(newest),
                SlotClaim::TimeIsUp => Acquired::TimeIsUp,
                _ => Acquired::SlotTaken,
            }),
        }
    }
}

fn holding<Kind: 'static>(taken: Result<Option<Guard<Kind>>>) -> Result<Acquired> {
    Ok(taken?.map_or(Acquired::TimeIsUp, |guard| Acquired::Held(ClaimHold::new(guard))))
}

type Release = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Proof of holding a lock of any kind; dropping it gives the lock back in the background.
pub(super) struct ClaimHold {
    hold: Hold,
    held: HeldClaim,
}

enum HeldClaim {
    Lock(Box<dyn FnOnce() -> Release + Send + Sync>),
    Slot(SlotGuard),
}

impl ClaimHold {
    fn new<Kind: 'static>(guard: Guard<Kind>) -> Self {
        let hold = guard.hold().clone();
        Self { hold, held: HeldClaim::Lock(Box::new(move || Box::pin(guard.release()))) }
    }

    fn of_slot(guard: SlotGuard) -> Self {
        Self { hold: guard.hold().clone(), held: HeldClaim::Slot(guard) }
    }

    /// Notes that the work of a slot is done, if it is one.
    pub(super) async fn note_done(&self, voice: &Voice) {
        let HeldClaim::Slot(slot) = &self.held else { return };
        let why = match timeout(CLOSE_MAX, slot.mark_done()).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => format!("{}: it was not noted within {CLOSE_MAX:?} that the command has ended", self.hold.name()),
        };
        voice.say(&format!("{why}; it may be run again for this slot"));
    }

    pub(super) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Gives the lock back, within the bound, and says if that failed and for how long the lock stays taken. A loss is
    /// said once. What comes `then` is begun behind the release, and does not wait for its answer.
    pub(super) async fn give_back<Then: Future>(self, voice: &Voice, is_loss_told: bool, then: impl FnOnce() -> Then) {
        let lost = match self.hold.liveness() {
            Liveness::Lost(reason) => Some(reason),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => None,
        };
        let mut released = None;
        let releasing = match self.held {
            HeldClaim::Lock(release) => release(),
            HeldClaim::Slot(slot) => Box::pin(slot.release()),
        };
        let then = then();
        let releasing = async {
            released = Some(releasing.await);
            then.await;
        };
        let _ = timeout(CLOSE_MAX, releasing).await;
        // What was lost is not ours to give back; that it could not be told either is no news.
        let is_news = |error: &Error| error.advice() == Advice::Permanent;
        match (released, lost) {
            (Some(Err(error)), _) if !is_loss_told || is_news(&error) => voice.say(&format!("{error:#}")),
            (Some(_), _) => {}
            (None, _) if is_loss_told => {}
            (None, Some(reason)) => voice.say(&format!("{}: the lock was lost: {reason}", self.hold.name())),
            (None, None) => voice.say(&format!(
                "{}: giving the lock back took longer than {CLOSE_MAX:?}; it {}",
                self.hold.name(),
                voice.ends_by_itself()
            )),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Acquiring<'a> {
    pub(super) keeper: &'a Keeper,
    pub(super) claim: &'a LockClaim,
    pub(super) voice: &'a Voice,
}

impl Acquiring<'_> {
    /// Waits for the lock. A signal ends the wait, and dropping it leaves the queue.
    /// `fits` refuses a session by the notice that its holders are given.
    pub(super) async fn acquire(
        self,
        wait: Wait,
        fits: impl Fn(Option<Duration>) -> Result<(), CommandFailure>,
    ) -> Result<Acquired, CommandFailure> {
        let mut locking = pin!(self.lock(wait, fits));
        // A lock that is free costs neither signal handlers nor messages.
        if let Some(locked) = poll_once(locking.as_mut()).await {
            return locked;
        }
        let mut interruption = EndingSignals::listen()?;
        let name = self.claim.name();
        tokio::select! {
            biased;
            cause = interruption.heard() => Err(cause.ended(name, "while waiting for the lock; left the queue")),
            locked = locking => locked,
            () = narrate(self.keeper, name.as_str(), self.voice) => unreachable!("it never ends by itself"),
        }
    }

    /// Takes the lock, unless the session that it would be held under does not fit: a caller who would be refused in
    /// the end does not have to queue for it.
    async fn lock(
        self,
        wait: Wait,
        fits: impl Fn(Option<Duration>) -> Result<(), CommandFailure>,
    ) -> Result<Acquired, CommandFailure> {
        let refusal = async {
            match self.keeper.notice().await.map(fits) {
                Ok(Err(refused)) => refused,
                Err(error) if wait == Wait::No => error.at(self.claim.name()).into(),
                // The wait for the lock tries again to open a session, or says why there is none.
                Ok(Ok(())) | Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            // It opens the session, and decides before a contender joins under it.
            biased;
            failure = refusal => Err(failure),
            locked = self.claim.take(wait) => Ok(locked?),
        }
    }

    /// Finds out why the lock is frozen, if it is: a caller that does not wait for it is told too.
    pub(super) async fn frozen(self) -> Option<String> {
        /// How long the answer may take; it is not essential.
        const LOOK_TIME_MAX: Duration = Duration::from_secs(1);
        let time_is_up = SystemClock.sleep_until(SystemClock.now().saturating_add(LOOK_TIME_MAX));
        let contenders = tokio::select! {
            contenders = self.keeper.contenders(self.claim.name().as_str()) => contenders.ok()?,
            () = time_is_up => return None,
        };
        contenders.into_iter().find_map(|contender| contender.frozen)
    }

    pub(super) fn in_vain(self, wait: Wait, frozen: Option<String>) -> String {
        let (name, service) = (self.claim.name(), self.keeper.service());
        let why = match (wait, frozen) {
            (_, Some(reason)) => format!("is frozen: {reason}"),
            (Wait::AtMost(longest), None) => format!("was not free within {longest:?}"),
            (Wait::No | Wait::Until(_) | Wait::Forever, None) => self.claim.in_use().to_owned(),
        };
        format!("{name} ({service}) {why}")
    }
}

async fn poll_once<Fut: Future>(mut future: Pin<&mut Fut>) -> Option<Fut::Output> {
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::args;

    fn args(options: &str) -> ClaimArgs {
        let line = format!("lockkeeper run x {options} -- true");
        match args::parse(line.split_whitespace().map(OsString::from)) {
            Ok(args::CliRequest::Do(args::Cli { command: args::Command::Run(args), .. })) => args.claim,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_wait_of_zero_is_no_wait_and_the_option_goes_before_the_config_file() {
        let minute = Some(Duration::from_secs(60));
        for (options, from_config, expected) in [
            ("", None, Wait::Forever),
            ("-n", None, Wait::No),
            ("-n", minute, Wait::No),
            ("-w 0", minute, Wait::No),
            ("-w 2s", minute, Wait::AtMost(Duration::from_secs(2))),
            ("", minute, Wait::AtMost(Duration::from_secs(60))),
        ] {
            assert_eq!(wait_of(&args(options), from_config), expected, "{options}");
        }
    }

    #[tokio::test]
    async fn options_say_the_kind_of_lock_and_what_is_taken_of_it() {
        let keeper = Keeper::memory();
        let mut taken = Vec::new();
        for options in ["", "-s", "-x", "--permits 2"] {
            let claim = LockClaim::new(&keeper, &args(options)).unwrap();
            let Acquired::Held(holding) = claim.take(Wait::No).await.unwrap() else { panic!("it is free") };
            taken.push(keeper.contenders("x").await.unwrap()[0].mode.as_str());
            let HeldClaim::Lock(release) = holding.held else { panic!("no slot was asked for") };
            release().await.unwrap();
        }
        assert_eq!(taken, ["mutex", "read", "write", "permit"]);
    }
}
