//! One round: a holder, a waiter behind it, and a fault.

use std::time::Duration;

use lockkeeper_faults::{Result, wait};
use tokio::time;

use crate::contender::{Contender, now};
use crate::fault::Fault;
use crate::measure::Outcome;
use crate::rivals::{Place, Rival};
use crate::stage::{Service, Stage, Way};

/// How long both contenders stand in the queue before the fault: all have renewed what they hold.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// How long the next grant is waited for. All that end by a session or a lease end within twice its timeout, and the
/// election of a leader takes three seconds more.
const NEXT_WITHIN: Duration = Duration::from_secs(15);

/// How long it is waited for where the holder was told and no other has the lock: PostgreSQL under Lockkeeper grants
/// nothing for a minute after a promotion.
const NEXT_WITHIN_MAX: Duration = Duration::from_secs(75);

/// The pause before a waiter that gave up asks again, as its caller would.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How long a stopped holder stands still beyond the next grant.
const STOPPED_ON: Duration = Duration::from_secs(1);

/// How long a holder that still believes is watched beyond the next grant, or beyond the moment at which it goes on.
const WATCHED_FOR: Duration = Duration::from_secs(10);

/// How long a holder has to say no to have been told: some say yes again when they are connected again.
const TOLD_FOR: Duration = Duration::from_secs(2);

/// The lock that both contend for, and the one of a contender before them.
const LOCK: &str = "rivals";
const FORERUNNERS_LOCK: &str = "forerunner";

/// Plays a round.
pub(crate) async fn play(rival: &Rival, fault: Fault) -> Result<Outcome> {
    let mut stage = Stage::start(rival.service, fault).await?;
    if stage.wants_forerunner() {
        let mut forerunner = start(rival, &stage, &stage.waiters, FORERUNNERS_LOCK)?;
        forerunner.granted(wait::PATIENCE).await?;
    }
    stage.lag().await?;
    let mut holder = start(rival, &stage, &stage.holders, LOCK)?;
    holder.granted(wait::PATIENCE).await?;
    // A file that is removed is not the one that a waiter has open: there the next comes behind the fault.
    let mut waiter = None;
    if (rival.service, fault) != (Service::Files, Fault::Emptied) {
        waiter.insert(start(rival, &stage, &stage.waiters, LOCK)?).waiting().await?;
    }
    time::sleep(SETTLED_AFTER).await;
    let struck_at = now();
    strike(fault, &mut stage, &mut holder).await?;
    let mut waiter = match waiter {
        Some(waiter) => waiter,
        None => start(rival, &stage, &stage.waiters, LOCK)?,
    };
    let restart = || start(rival, &stage, &stage.waiters, LOCK);
    let is_granted = next_grant(&holder, &mut waiter, restart).await?;
    watch(fault, &mut holder, is_granted).await?;
    // Both are heard before either ends: the end of one would be a grant to the other.
    let (held, waited) = (holder.testimony(), waiter.testimony());
    Ok(Outcome::of(struck_at, fault == Fault::Killed, &held, &waited))
}

fn start(rival: &Rival, stage: &Stage, way: &Way, lock: &str) -> Result<Contender> {
    let (addresses, folder, lock) = (way.addresses(), stage.folder(), lock.to_owned());
    let place = Place { service: rival.service, addresses, folder, lock };
    Contender::start((rival.program)(&place)?)
}

async fn strike(fault: Fault, stage: &mut Stage, holder: &mut Contender) -> Result<()> {
    match fault {
        Fault::Killed => holder.kill(),
        Fault::Stopped => holder.stop()?,
        Fault::CutOff => stage.holders.cut_off(),
        Fault::Replaced => stage.replace_leader().await?,
        Fault::Emptied => stage.empty().await?,
    }
    Ok(())
}

/// Waits for the next grant; answers whether it came.
async fn next_grant(
    holder: &Contender,
    waiter: &mut Contender,
    restart: impl Fn() -> Result<Contender> + Send,
) -> Result<bool> {
    let begun = now();
    loop {
        let within = if holder.is_told() { NEXT_WITHIN_MAX } else { NEXT_WITHIN };
        let left = within.saturating_sub(now().saturating_duration_since(begun));
        if waiter.granted(left).await.is_ok() {
            return Ok(true);
        }
        if waiter.has_ended() {
            time::sleep(AGAIN_AFTER).await;
            *waiter = restart()?;
        } else if now().saturating_duration_since(begun) >= NEXT_WITHIN_MAX || !holder.is_told() {
            return Ok(false);
        }
    }
}

/// Lets a stopped holder go on, and waits until the holder is told.
async fn watch(fault: Fault, holder: &mut Contender, is_granted: bool) -> Result<()> {
    if fault == Fault::Stopped {
        time::sleep(STOPPED_ON).await;
        holder.go_on()?;
    }
    if fault != Fault::Killed && (is_granted || fault == Fault::Stopped) {
        // Not within the time: it never was.
        let _ = holder.told(TOLD_FOR, WATCHED_FOR).await;
    }
    Ok(())
}
