//! Orders that meet the contender that was seen, and no other: a page or a screen may be old by the time it is obeyed.

use std::time::Duration;

use lockkeeper::{
    ContenderId, ContenderInfo, Error, ErrorKind, FencingToken, Keeper, LockKind, QueueName, Revocation, Wait,
};

use super::Operator;
use crate::output::{Deed, OrderReport};

/// A contender as the giver of an order saw it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SeenContender {
    pub(crate) id: ContenderId,
    /// Its token, if the service shows it.
    pub(crate) token: Option<FencingToken>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum OperatorOrder {
    /// To ask one holder to give it up.
    Revoke { holder: SeenContender, reason: Option<String> },
    /// To take it away from one holder, whose token must have been seen.
    Break { holder: SeenContender },
    /// To keep all contenders out, if none does yet. It meets no contender: it waits its turn for so long at most.
    /// While nothing in its queue tells as what it is used, it is frozen as `kind`, or else as a mutex: clients that
    /// use it as another kind fail then, and do not wait.
    Freeze { reason: String, wait: Duration, kind: Option<LockKind> },
    /// To remove one contender that freezes it, or waits to.
    Thaw { freezer: SeenContender },
}

/// Why nothing was done, in one sentence that names the lock and the service.
#[derive(Debug)]
pub(crate) enum Undone {
    /// The lock is not as it was seen any more.
    Stale(String),
    /// What was waited for did not come in time.
    NotInTime(String),
    /// The service refuses it, cannot do it, or cannot be reached; only here something may have been done, and then the
    /// error's advice says so.
    Failed(Error),
}

impl OperatorOrder {
    /// Returns its word, as the command for it is called.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Revoke { .. } => "revoke",
            Self::Break { .. } => "break",
            Self::Freeze { .. } => "freeze",
            Self::Thaw { .. } => "thaw",
        }
    }

    /// Returns the contender that it is meant for; a freeze is meant for none.
    pub(crate) const fn seen(&self) -> Option<&SeenContender> {
        match self {
            Self::Revoke { holder: seen, .. } | Self::Break { holder: seen } | Self::Thaw { freezer: seen } => {
                Some(seen)
            }
            Self::Freeze { .. } => None,
        }
    }

    /// Does it. Dropping the future of a freeze that waits leaves the queue; another order may take effect all the
    /// same.
    pub(crate) async fn carry_out(&self, keeper: &Keeper, lock: &QueueName) -> Result<OrderReport, Undone> {
        let operator = Operator::new(keeper, lock);
        let deed = match self {
            Self::Revoke { holder, reason } => revoke(keeper, lock, holder, reason.clone()).await,
            Self::Break { holder } => break_lock(keeper, lock, holder).await,
            Self::Freeze { reason, wait, kind } => freeze(keeper, lock, reason, *wait, *kind).await,
            Self::Thaw { freezer } => thaw(keeper, lock, freezer).await,
        };
        deed.map(|deed| operator.done(deed))
    }
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Undone {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Stale(text) | Self::NotInTime(text) => text.clone(),
            Self::Failed(error) => format!("{error:#}"),
        }
    }
}

impl SeenContender {
    fn is(&self, info: &ContenderInfo) -> bool {
        info.id == self.id && info.token == self.token
    }
}

async fn revoke(
    keeper: &Keeper,
    lock: &QueueName,
    seen: &SeenContender,
    reason: Option<String>,
) -> Result<Deed, Undone> {
    let operator = Operator::new(keeper, lock);
    let holders = operator.holders().await?;
    if !holders.iter().any(|one| seen.is(one)) {
        return Err(gone(&operator, seen, &holders));
    }
    match keeper.admin().revoke_holder(lock.as_str(), &seen.id, Revocation::new(reason, None)).await? {
        Some(asked) => Ok(Deed::Revoked { asked: vec![operator.who(&asked)], given_up: false }),
        None => Err(gone(&operator, seen, &operator.holders().await?)),
    }
}

async fn break_lock(keeper: &Keeper, lock: &QueueName, seen: &SeenContender) -> Result<Deed, Undone> {
    let operator = Operator::new(keeper, lock);
    let Some(token) = seen.token else {
        let message = "the service shows no token of this holder, and only one with a token can be removed";
        return Err(Undone::Stale(operator.says(message)));
    };
    match keeper.admin().break_holder(lock.as_str(), &seen.id, token).await {
        Err(error) if error.kind() == ErrorKind::TokenMismatch => {
            Err(gone(&operator, seen, &operator.holders().await?))
        }
        broken => Ok(Deed::Broken { broken: operator.who(&broken?) }),
    }
}

async fn freeze(
    keeper: &Keeper,
    lock: &QueueName,
    reason: &str,
    wait: Duration,
    named: Option<LockKind>,
) -> Result<Deed, Undone> {
    let operator = Operator::new(keeper, lock);
    let queue = keeper.contenders(lock.as_str()).await?;
    let named = named.filter(|_| queue.is_empty());
    let kind = operator.kind(named, &queue).map_err(Undone::Stale)?;
    let bounded = if wait.is_zero() { Wait::No } else { Wait::AtMost(wait) };
    match keeper.admin().freeze(lock.as_str(), kind, reason, bounded).await? {
        Some(frozen) => Ok(Deed::Frozen { frozen: operator.who(&frozen) }),
        None => Err(Undone::NotInTime(operator.not_in_time("was not given back, and is not frozen,", wait))),
    }
}

async fn thaw(keeper: &Keeper, lock: &QueueName, seen: &SeenContender) -> Result<Deed, Undone> {
    let operator = Operator::new(keeper, lock);
    let queue = keeper.contenders(lock.as_str()).await?;
    let is_there = queue.iter().any(|one| one.frozen.is_some() && seen.is(one));
    let thawed = if is_there { keeper.admin().thaw_frozen(lock.as_str(), &seen.id).await? } else { None };
    match thawed {
        Some(thawed) => Ok(Deed::Thawed { thawed: vec![operator.who(&thawed)] }),
        None => {
            let what = anew(seen, &queue).unwrap_or_else(|| format!("{} does not freeze it any more", seen.id));
            Err(Undone::Stale(operator.says(&format!("nothing was changed: {what}"))))
        }
    }
}

/// Says that the holder that was seen is gone, and who holds the lock now.
fn gone(operator: &Operator<'_>, seen: &SeenContender, holders: &[ContenderInfo]) -> Undone {
    let token = seen.token.map(|token| format!(" with token {token}")).unwrap_or_default();
    let what = anew(seen, holders).unwrap_or_else(|| format!("{}{token} does not hold it any more", seen.id));
    let present = operator.present(holders);
    Undone::Stale(operator.says(&format!("nothing was changed: {what}; {present}")))
}

/// Says that a contender is there still, and has another token than the one that was seen.
fn anew(seen: &SeenContender, contenders: &[ContenderInfo]) -> Option<String> {
    let known = contenders.iter().find(|one| one.id == seen.id && one.token != seen.token)?;
    let shown = |token: Option<FencingToken>| token.map_or_else(|| "none".to_owned(), |token| token.to_string());
    Some(format!(
        "the token of {} has changed since it was seen, from {} to {}: look again",
        seen.id,
        shown(seen.token),
        shown(known.token)
    ))
}

#[cfg(test)]
mod tests;
