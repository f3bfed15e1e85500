//! Follows all locks of a scope, over its own connection. No database tells an onlooker of them, so they are looked at
//! again and again, by one statement for all: the longer that takes, the less often, so that looks cost a hundredth of
//! the time. What has changed is told, and how old that is.
//!
//! `look_pauses` says when the next look is made; `signs` knows which sessions are silent, and which were ended for
//! that.

mod look_pauses;
mod signs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Backoff, ContenderInfo, EventSender, FollowEvent, LockSnapshot, QueueName, Scope};
use lockkeeper_session::{Effect, Failure, Follow, until};

use crate::engine::{Intent, Wire};
use crate::follow::look_pauses::LookPauses;
use crate::follow::signs::{LookTime, Signs};
use crate::look::{AllLocks, inspect_all};
use crate::site::SqlSite;

/// All locks with contenders.
type SeenLocks = BTreeMap<QueueName, Vec<ContenderInfo>>;

pub(crate) struct Following {
    site: SqlSite,
    scope: Scope,
    look_pauses: LookPauses,
}

impl Follow for Following {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.site.clock
    }

    /// Looks over one connection until that is of no use any more, or there is no reader.
    async fn until_lost(&mut self, telling: &EventSender, backoff: &mut Backoff) -> Result<(), Failure> {
        let mut wire = self.connect().await?;
        let mut known: Option<SeenLocks> = None;
        let mut signs = Signs::default();
        loop {
            let began = self.site.clock.now();
            let AllLocks { locks: seen, beats } = self.look(&*wire).await?;
            let ended = self.site.clock.now();
            signs.take(beats, LookTime { began, ended });
            let told = match &known {
                None => FollowEvent::All(all(&seen)),
                Some(known) => FollowEvent::Changed(changes(known, &seen, &signs)),
            };
            known = Some(seen);
            *backoff = Backoff::CONNECTING;
            let is_news = !matches!(&told, FollowEvent::Changed(locks) if locks.is_empty());
            let look_pause = self.look_pauses.pause_after(ended.saturating_duration_since(began), self.scope.pause_min);
            let looked = FollowEvent::Looked { began, pause: look_pause, silent: signs.silent() };
            if is_news && !telling.tell(told).await || !telling.tell(looked).await {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = wire.over(), if wire.missing().is_none() => return Err(Failure::broken(Effect::None)),
                () = self.site.clock.sleep_until(ended.saturating_add(look_pause)) => {}
            }
            // What changes until then is seen by the same look.
            if !telling.until_taken().await {
                return Ok(());
            }
            if wire.missing().is_some() {
                wire = self.connect().await?;
            }
        }
    }
}

impl Following {
    pub(crate) fn new(site: SqlSite, scope: Scope) -> Self {
        Self { site, scope, look_pauses: LookPauses::default() }
    }

    /// Tries each server once.
    async fn connect(&self) -> Result<Arc<dyn Wire>, Failure> {
        self.site.connect(Intent::Look).await.map(|(_, connected)| connected.wire)
    }

    async fn look(&self, wire: &dyn Wire) -> Result<AllLocks, Failure> {
        let deadline = self.site.clock.now().saturating_add(self.site.config.operation_timeout);
        let looking = inspect_all(wire, &self.scope.prefix, &self.scope.also);
        until(&*self.site.clock, deadline, Effect::None, looking).await.inspect_err(|_| wire.shut())
    }
}

fn all(seen: &SeenLocks) -> Vec<LockSnapshot> {
    seen.iter().map(|(lock, contenders)| LockSnapshot::new(lock.clone(), contenders.clone())).collect()
}

/// The locks that were not seen so before, and those that have no contenders any more.
fn changes(known: &SeenLocks, seen: &SeenLocks, signs: &Signs) -> Vec<LockSnapshot> {
    let names: BTreeSet<_> = known.keys().chain(seen.keys()).collect();
    let changed = names.into_iter().filter(|name| known.get(name) != seen.get(name));
    let now = |name: &QueueName| {
        let lost = known.get(name).map(|before| signs.lost(before)).unwrap_or_default();
        LockSnapshot::new(name.clone(), seen.get(name).cloned().unwrap_or_default()).losing(lost)
    };
    changed.map(now).collect()
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{ContenderId, Mode};

    use super::*;

    fn seen(locks: &[(&str, &[&str])]) -> SeenLocks {
        let contender = |id: &&str| ContenderInfo::new(ContenderId::new(*id), Mode::Mutex);
        let lock =
            |&(name, ids): &(&str, &[&str])| (QueueName::new(name).unwrap(), ids.iter().map(contender).collect());
        locks.iter().map(lock).collect()
    }

    #[test]
    fn what_looks_otherwise_than_before_is_told_and_nothing_else() {
        let before = seen(&[("a", &["1"]), ("b", &["2"]), ("c", &["3", "4"])]);
        let after = seen(&[("b", &["2"]), ("c", &["4"]), ("d", &["5"])]);
        let told = changes(&before, &after, &Signs::default());
        let told: Vec<_> = told.iter().map(|now| (now.lock.as_str(), now.contenders.len())).collect();
        assert_eq!(told, [("a", 0), ("c", 1), ("d", 1)]);
        assert!(changes(&after, &after, &Signs::default()).is_empty());
        assert_eq!(all(&after).len(), 3);
    }
}
