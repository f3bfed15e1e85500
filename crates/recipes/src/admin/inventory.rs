//! Findings about the locks of any service that its users should know: what blocks them for long, whose clock is wrong,
//! and what dead users have left.

#[cfg(test)]
mod tests;

use std::time::Duration;

use lockkeeper_core::{
    AdminBackend, Advice, ContenderInfo, Finding, Mode, QueueName, Remnant, RemnantKind, Result, Severity, UNUSED_FOR,
};
use tokio::task::JoinSet;

use crate::decide;

/// How long a lock may be frozen before that is told: the work that it was frozen for is mostly done within a day.
const FROZEN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a lock may be held while others wait, where the service shows the grant: as for an alert of the monitor.
const HELD_MAX: Duration = Duration::from_secs(5 * 60);

/// How long ago a holder may have joined while others wait, where nothing tells when it was granted the lock: of that
/// time it may have waited the most.
const JOINED_MAX: Duration = Duration::from_secs(60 * 60);

/// How far a contender's clock may be ahead of ours before that is told: clocks that are set by one time server differ
/// by milliseconds.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(1);

/// How many locks of a kind are named one by one; an operator who has more has forgotten all of them.
const NAMED_MAX: usize = 20;

/// How many locks are looked at at once: enough that few round trips are waited for, and little work for a service at a
/// time.
const LOOKS_AT_ONCE_MAX: usize = 16;

/// Looks at all locks. What this user may not see is not told.
pub(crate) async fn examine_locks(admin: &dyn AdminBackend, now_unix: Duration) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for outcome in [seen(admin, now_unix).await, left(admin).await] {
        match outcome {
            Ok(found) => findings.extend(found),
            // Why it is refused, the backend's own examination says.
            Err(error) if error.advice() == Advice::Permanent => {}
            Err(error) => return Err(error),
        }
    }
    Ok(findings)
}

/// What the contenders of all locks show.
async fn seen(admin: &dyn AdminBackend, now_unix: Duration) -> Result<Vec<Finding>> {
    let (mut frozen, mut held, mut ahead) = (Vec::new(), Vec::new(), Duration::ZERO);
    let mut fast = None;
    let mut locks = admin.queues("").await?.into_iter().enumerate();
    let mut looks = JoinSet::new();
    loop {
        for (number, lock) in locks.by_ref().take(LOOKS_AT_ONCE_MAX.saturating_sub(looks.len())) {
            let look = admin.inspect(&lock);
            looks.spawn(async move { (number, lock, look.await) });
        }
        let (number, lock, contenders) = match looks.join_next().await {
            Some(Ok((number, lock, Ok(contenders)))) => (number, lock, contenders),
            // One lock that this user may not see hides no other.
            Some(Ok((_, _, Err(error)))) if error.advice() == Advice::Permanent => continue,
            Some(Ok((_, lock, Err(error)))) => return Err(error.at(&lock)),
            Some(Err(ended)) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            // The runtime ends.
            Some(Err(_)) | None => break,
        };
        frozen.extend(frozen_for_long(&lock, &contenders, now_unix).map(|finding| (number, finding)));
        held.extend(held_for_long(&lock, &contenders, now_unix).map(|finding| (number, finding)));
        if let Some((by, contender)) = fastest(contenders, now_unix).filter(|(by, _)| *by > ahead) {
            (ahead, fast) = (by, Some((lock, contender)));
        }
    }
    let told =
        named(frozen, "locks are frozen for as long").into_iter().chain(named(held, "locks are held for as long"));
    Ok(told.chain(fast.map(|(lock, contender)| clock_ahead(ahead, &lock, &contender))).collect())
}

/// The findings by the order of their locks, which were looked at in any order, and how many more there are.
fn named(mut found: Vec<(usize, Finding)>, what: &str) -> Vec<Finding> {
    found.sort_by_key(|(number, _)| *number);
    let more = found.len().saturating_sub(NAMED_MAX);
    let mut findings: Vec<_> = found.into_iter().take(NAMED_MAX).map(|(_, finding)| finding).collect();
    if more > 0 {
        findings.push(Finding::new(Severity::Warning, format!("{more} more {what}"), "see `lockkeeper ls`"));
    }
    findings
}

fn frozen_for_long(lock: &QueueName, contenders: &[ContenderInfo], now_unix: Duration) -> Option<Finding> {
    contenders.iter().find_map(|contender| {
        let reason = contender.frozen.as_ref()?;
        let stood = now_unix.saturating_sub(contender.since_unix?);
        (stood > FROZEN_MAX).then(|| {
            let what = format!("{lock} has been frozen for {}: {reason}", span(stood));
            let cure = "if that is over, let contenders in again with `lockkeeper thaw`";
            Finding::new(Severity::Warning, what, cure)
        })
    })
}

/// Finds the first holder that keeps others waiting for long. A leader leads for as long as it can, members of a
/// barrier exclude no client, and of a frozen lock something else is to be told.
fn held_for_long(lock: &QueueName, contenders: &[ContenderInfo], now_unix: Duration) -> Option<Finding> {
    let is_of_no_hold = |it: &ContenderInfo| matches!(it.mode, Mode::Candidate | Mode::Member) || it.frozen.is_some();
    if contenders.iter().any(is_of_no_hold) {
        return None;
    }
    let holds = decide::holders(contenders);
    let waiters = holds.iter().filter(|&&holds| !holds).count();
    if waiters == 0 {
        return None;
    }
    contenders.iter().zip(holds).filter(|&(_, holds)| holds).find_map(|(holder, _)| {
        let since = |moment: Duration| now_unix.saturating_sub(moment);
        let told = match (holder.granted_unix.map(since), holder.since_unix.map(since)) {
            (Some(held), _) => (held > HELD_MAX).then(|| format!("has held {lock} for {}", span(held)))?,
            (None, joined) => joined
                .filter(|&joined| joined > JOINED_MAX)
                .map(|joined| format!("holds {lock}, for which it joined {} ago", span(joined)))?,
        };
        let verb = if waiters == 1 { "waits" } else { "wait" };
        let what = format!("{} {told}, and {waiters} {verb}", who(holder));
        let cure = "see what it does, or ask it to give up with `lockkeeper revoke`";
        Some(Finding::new(Severity::Warning, what, cure))
    })
}

/// Finds the contender that has joined in our future, the latest of them, and how far ahead that was.
fn fastest(contenders: Vec<ContenderInfo>, now_unix: Duration) -> Option<(Duration, ContenderInfo)> {
    let ahead = contenders.into_iter().filter_map(|contender| {
        let by = contender.since_unix?.checked_sub(now_unix).filter(|&by| by > CLOCKS_APART_MAX)?;
        Some((by, contender))
    });
    ahead.max_by_key(|(by, _)| *by)
}

fn clock_ahead(by: Duration, lock: &QueueName, contender: &ContenderInfo) -> Finding {
    let what = format!(
        "{} joined {lock} by a clock that is {:.1} s ahead of this machine's",
        who(contender),
        by.as_secs_f64()
    );
    let cure = "set the clocks of all machines by one time server; ages that are shown are wrong by it";
    Finding::new(Severity::Warning, what, cure)
}

/// Names a contender by its owner, or by what its client has written or called it.
fn who(contender: &ContenderInfo) -> String {
    match (&contender.owner, &contender.label) {
        (Some(owner), _) => owner.to_string(),
        (None, Some(label)) if !label.is_empty() => label.clone(),
        _ => contender.id.to_string(),
    }
}

/// `25 hours`, or less than two of them in minutes.
fn span(span: Duration) -> String {
    match span.as_secs() / 60 {
        minutes if minutes < 120 => format!("{minutes} minutes"),
        minutes => format!("{} hours", minutes / 60),
    }
}

async fn left(admin: &dyn AdminBackend) -> Result<Vec<Finding>> {
    let remnants = admin.remnants(UNUSED_FOR).await?;
    let of_kind = |kind| {
        let mut all = remnants.iter().filter(move |remnant| remnant.kind == kind);
        let first = all.next();
        first.map(|first| (first, 1 + all.count()))
    };
    let as_of = |first: &Remnant, count: usize| match count {
        1 => first.place.clone(),
        count => format!("{} and {} more", first.place, count - 1),
    };
    let unbound = of_kind(RemnantKind::Unbound).map(|(first, count)| {
        let what = format!(
            "a contender depends on no session and says no reason, so it blocks its lock for ever: {}",
            as_of(first, count)
        );
        let cure = "if it is no client's, remove it with `lockkeeper gc --yes --force`";
        Finding::new(Severity::Error, what, cure)
    });
    let note = |kind, what: &str| {
        of_kind(kind).map(|(first, count)| {
            let what = format!("{what}: {}", as_of(first, count));
            Finding::new(Severity::Note, what, "`lockkeeper gc` lists all of it, and removes it with --yes")
        })
    };
    let dead = note(RemnantKind::Dead, "a dead contender was left");
    let empty = note(RemnantKind::Empty, "a queue is empty, and no client has used it for ten minutes");
    Ok(unbound.into_iter().chain(dead).chain(empty).collect())
}
