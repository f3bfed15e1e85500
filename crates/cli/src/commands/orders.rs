//! `revoke`, `break`, `freeze` and `thaw`: what an operator does to a lock.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::backend::decide;
use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::{ContenderInfo, ErrorKind, Keeper, LockKind, QueueName, Revocation, Wait};

use super::claim::at_most;
use super::service::{answer, block_on_closing, talk};
use crate::args::{BreakArgs, FreezeArgs, Global, Kind, RevokeArgs, ThawArgs};
use crate::config::Settings;
use crate::exit::{self, Failure};
use crate::interruption::Interruption;
use crate::log;
use crate::output::{self, Deed, Done, Who};
use crate::voice::Voice;
use crate::wait_line::narrate;

/// Asks the holders to give a lock up, and waits for it if that is asked for.
pub(super) fn revoke(global: &Global, args: RevokeArgs) -> Result<u8, Failure> {
    let order = Order::new(global, &args.name)?;
    let revocation = Revocation::new(args.reason, args.wait);
    let wait = args.wait.unwrap_or_default();
    let (asked, is_given_up) = block_on_closing(&order.keeper, async {
        let asked = order.holders().await?.into_iter().filter(|holder| holder.frozen.is_none()).collect();
        let given_up = order.patiently(order.keeper.revoke(&args.name, revocation, Wait::AtMost(wait))).await?;
        Ok::<(Vec<_>, bool), Failure>((asked, given_up?.is_some()))
    })??;
    let asked = asked.iter().map(|holder| order.who(holder)).collect();
    let printed = order.tell(Deed::Revoked { asked, given_up: is_given_up })?;
    match args.wait {
        Some(wait) if !is_given_up => Err(order.not_in_time("was not given up", wait)),
        _ => Ok(printed),
    }
}

/// Takes a lock away from the holder with the given token, and from no other.
pub(super) fn break_lock(global: &Global, args: &BreakArgs) -> Result<u8, Failure> {
    let order = Order::new(global, &args.name)?;
    let broken = block_on_closing(&order.keeper, async {
        match order.keeper.break_lock(&args.name, args.token).await {
            Err(error) if error.kind() == ErrorKind::TokenMismatch => Err(order.stale(args, &order.holders().await?)),
            broken => Ok(broken?),
        }
    })??;
    order.tell(Deed::Broken { broken: order.who(&broken) })
}

/// Keeps all contenders out of a lock.
pub(super) fn freeze(global: &Global, args: &FreezeArgs) -> Result<u8, Failure> {
    let order = Order::new(global, &args.name)?;
    let frozen = block_on_closing(&order.keeper, async {
        let queue = order.keeper.contenders(&args.name).await?;
        let kind = order.kind(args.kind, &queue)?;
        order
            .patiently(order.keeper.freeze(&args.name, kind, &args.reason, at_most(args.wait)))
            .await?
            .map_err(Failure::from)
    })??;
    match frozen {
        Some(frozen) => order.tell(Deed::Frozen { frozen: order.who(&frozen) }),
        None => Err(order.not_in_time("was not given back, and is not frozen,", args.wait.unwrap_or_default())),
    }
}

/// Lets contenders take a lock again.
pub(super) fn thaw(global: &Global, args: &ThawArgs) -> Result<u8, Failure> {
    let order = Order::new(global, &args.name)?;
    let thawed = block_on_closing(&order.keeper, order.keeper.thaw(&args.name))??;
    order.tell(Deed::Thawed { thawed: thawed.iter().map(|frozen| order.who(frozen)).collect() })
}

/// An order under way.
struct Order<'a> {
    global: &'a Global,
    name: QueueName,
    keeper: Keeper,
    voice: Arc<Voice>,
}

impl<'a> Order<'a> {
    fn new(global: &'a Global, name: &str) -> Result<Self, Failure> {
        let name = QueueName::new(name)?;
        let voice = Arc::new(Voice::new(talk(global)));
        log::listen(voice.clone());
        let keeper = Settings::load(global)?.keeper()?.observer(voice.clone()).build();
        voice.mention(&format!("using {}", keeper.service()));
        Ok(Self { global, name, keeper, voice })
    }

    async fn holders(&self) -> lockkeeper::Result<Vec<ContenderInfo>> {
        let queue = self.keeper.contenders(self.name.as_str()).await?;
        let holds = decide::holders(&queue);
        Ok(queue.into_iter().zip(holds).filter(|&(_, holds)| holds).map(|(holder, _)| holder).collect())
    }

    /// Waits for something, and says after a while what is waited for. A signal ends the wait.
    async fn patiently<Output>(&self, awaited: impl Future<Output = Output>) -> Result<Output, Failure> {
        let mut interruption = Interruption::listen()?;
        let output = tokio::select! {
            biased;
            cause = interruption.heard() => Err(Failure {
                code: exit::by_signal(cause.number),
                message: format!("{}: ended by {} while waiting", self.name, cause.name),
            }),
            output = awaited => Ok(output),
            () = narrate(&self.keeper, self.name.as_str(), &self.voice) => unreachable!("it never ends by itself"),
        };
        self.voice.hush();
        output
    }

    /// Chooses the kind of lock to freeze: the one that is named, else the one that it is used as.
    fn kind(&self, named: Option<Kind>, queue: &[ContenderInfo]) -> Result<LockKind, Failure> {
        if let Some(frozen) = queue.iter().find(|contender| contender.frozen.is_some()) {
            let who = self.who(frozen);
            let reason = who.frozen().unwrap_or_default();
            return Err(self.failure(&format!("is frozen already, by {}: {reason}", who.name())));
        }
        Ok(match (named, output::kind(queue)) {
            (Some(Kind::Mutex), _) => LockKind::Mutex,
            (Some(Kind::Rwlock), _) | (None, Some("rwlock")) => LockKind::ReadWrite,
            (Some(Kind::Semaphore), _) | (None, Some("semaphore")) => LockKind::Semaphore,
            (Some(Kind::Election), _) | (None, Some("election")) => LockKind::Election,
            (None, Some("barrier")) => return Err(self.failure("is a barrier, which cannot be frozen")),
            (None, _) => LockKind::Mutex,
        })
    }

    /// Returns the message that no holder has the given token, with the present holders.
    fn stale(&self, args: &BreakArgs, holders: &[ContenderInfo]) -> Failure {
        let present: Vec<_> = holders.iter().map(|holder| self.who(holder).in_full()).collect();
        let present = match present.as_slice() {
            [] => "it has no holder".to_owned(),
            present => format!("it is held by {}", present.join(", ")),
        };
        self.failure(&format!("nothing was changed: no holder has token {}; {present}", args.token))
    }

    fn who(&self, info: &ContenderInfo) -> Who {
        Who::new(info, SystemClock.unix_time())
    }

    fn failure(&self, what: &str) -> Failure {
        Failure::ours(format!("{} ({}) {what}", self.name, self.keeper.service()))
    }

    fn not_in_time(&self, what: &str, wait: Duration) -> Failure {
        Failure { code: exit::NOT_ACQUIRED, ..self.failure(&format!("{what} within {wait:?}")) }
    }

    fn tell(&self, deed: Deed) -> Result<u8, Failure> {
        let done = Done::new(self.name.as_str(), self.keeper.service(), deed);
        answer(self.global, &done, || done.text())
    }
}
