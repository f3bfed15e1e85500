//! The follower of all locks of a scope, over a separate connection: the server reports each change of a queue or a
//! record (`CLIENT TRACKING` with `BCAST`), and the follower looks at their locks again. It looks at all locks where a
//! report may be missing: after the end of the connection, another master, FLUSHALL or too many changes.
//!
//! Plain locks of other clients lie anywhere. So a second connection reads them, which gets reports of these keys
//! alone. The death of a session changes no key before another session removes its contenders, so the follower asks for
//! it.
//!
//! `known` knows the followed locks, `passed` counts the contenders that no look has shown.

mod known;
mod passed;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Backoff, EventSender, FollowEvent, LockSnapshot, PassedBetween, QueueName, Scope};
use lockkeeper_session::{Effect, Failure, Finder, Follow, Lookable as _, Server, SessionTiming as _, or_never};
use redis::cmd;

use crate::connection::{Batch, Connection, KeyMarks, Marked, answer, list, number, only, texts, until_replaced};
use crate::follow::known::FollowedNames;
use crate::follow::passed::PassedTickets;
use crate::layout::KeySubject;
use crate::look;
use crate::look::RedisLook;
use crate::script::Script;
use crate::session::{Timing, taught, teach};
use crate::url::RedisSite;

/// How many locks are looked at in one batch: others wait for the server meanwhile, a millisecond or two.
const LOOKS_AT_ONCE: usize = 20;

/// The least time from one look to the next, so that a lock which never rests costs a bounded number of looks. What
/// changes meanwhile is looked at together.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(5);

/// The greatest, at which looks may cost more than their share.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause after a look as a multiple of its time: a look at a busy queue of thousands takes long.
const LOOK_SHARE: u32 = 10;

/// The interval of questions for dead sessions, and whether the server is still a master.
const QUESTION_INTERVAL: Duration = Duration::from_secs(1);

/// How many dead sessions are named at once. If there are more, all locks are looked at.
const DEAD_MAX: usize = 1_000;

pub(crate) struct Following {
    site: RedisSite,
    scope: Scope,
    timing: Timing,
    finder: Finder,
}

/// The connections of a follower, and the changes that they report.
struct Connections {
    connection: Connection,
    /// The connection that reads plain locks; `None` where there are none.
    plain: Option<Connection>,
    marks: Arc<KeyMarks>,
}

impl Following {
    pub(crate) fn new(site: RedisSite, scope: Scope) -> Self {
        let timing = Timing { timeout: site.config.session_timeout() };
        Self { finder: site.config.finder(&site.clock), site, scope, timing }
    }

    /// Follows one server until it can be followed no more, or there is no reader.
    async fn until_over(
        &self,
        connections: Connections,
        telling: &EventSender,
        backoff: &mut Backoff,
    ) -> Result<(), Failure> {
        let mut known = FollowedNames::new(self.scope.clone());
        let mut passed = PassedTickets::default();
        if !telling.tell(FollowEvent::All(self.look_at_all(&connections, &mut known, &mut passed).await?)).await {
            return Ok(());
        }
        *backoff = Backoff::CONNECTING;
        let mut lost = std::pin::pin!(self.lost(&connections));
        let (mut look_at, mut ask_at) = (self.site.clock.now(), self.site.clock.now());
        loop {
            let is_marked = async {
                connections.marks.until_any().await;
                self.site.clock.sleep_until(look_at).await;
            };
            let marked = tokio::select! {
                biased;
                failure = &mut lost => return Err(failure),
                () = self.site.clock.sleep_until(ask_at) => {
                    ask_at = self.site.clock.now().saturating_add(QUESTION_INTERVAL);
                    passed.forget_old();
                    self.of_the_dead(&connections, &known).await?
                }
                () = is_marked => {
                    // More may be marked meanwhile.
                    if !telling.until_taken().await {
                        return Ok(());
                    }
                    self.of_keys(&connections, &known, &mut passed).await?
                }
            };
            let began = self.site.clock.now();
            let told = match marked {
                Some(locks) => {
                    let mut changed = self.look_at(&connections, &locks, &mut known, &mut passed).await?;
                    count(&mut changed, &known, &mut passed);
                    FollowEvent::Changed(changed)
                }
                None => FollowEvent::All(self.look_at_all(&connections, &mut known, &mut passed).await?),
            };
            let ended = self.site.clock.now();
            look_at = ended.saturating_add(pause_after(ended.saturating_duration_since(began)));
            // The question may make the follower look at all locks.
            ask_at = ask_at.max(look_at);
            let is_news = !matches!(&told, FollowEvent::Changed(locks) if locks.is_empty());
            if is_news && !telling.tell(told).await {
                return Ok(());
            }
        }
    }

    /// Waits until the connections are of no use any more.
    async fn lost(&self, connections: &Connections) -> Failure {
        let (RedisSite { config, clock, .. }, server) = (&self.site, connections.connection.server());
        let of_plain = or_never(connections.plain.as_ref().map(|plain| plain.over()));
        tokio::select! {
            () = connections.connection.over() => Failure::broken(Effect::None),
            () = of_plain => Failure::broken(Effect::None),
            failure = until_replaced(config, clock, server, self.timing.holding_interval()) => failure,
        }
    }

    fn deadline(&self) -> BootInstant {
        self.site.clock.now().saturating_add(self.timing.patience())
    }

    fn looking<'a>(&'a self, connections: &'a Connections) -> RedisLook<'a> {
        RedisLook { connection: &connections.connection, layout: &self.site.layout, deadline: self.deadline() }
    }

    /// Names the locks of which keys have changed; `None` if any may have.
    async fn of_keys(
        &self,
        connections: &Connections,
        known: &FollowedNames,
        passed: &mut PassedTickets,
    ) -> Result<Option<Vec<QueueName>>, Failure> {
        let taken: Option<Marked> = connections.marks.take();
        let Some(keys) = taken else { return Ok(None) };
        let mut locks = BTreeSet::new();
        let keys = keys.iter().filter_map(|(key, reports)| Some((str::from_utf8(key).ok()?, reports)));
        for (key, reports) in keys {
            let subject = self.site.layout.subject(key);
            let lock = match known.lock_of(subject) {
                known::LockOfKey::Lock(name) => Some(name),
                known::LockOfKey::Digest(digest) => {
                    let name = look::long_name(self.looking(connections), digest).await?;
                    name.filter(|name| known.is_followed(name))
                }
                known::LockOfKey::None => None,
            };
            match subject {
                KeySubject::Record(ticket) if lock.is_none() => passed.report(ticket, reports),
                KeySubject::Lock(_) => passed.report_queue(lock.as_ref(), reports),
                _ => {}
            }
            locks.extend(lock);
        }
        Ok(Some(locks.into_iter().collect()))
    }

    /// Names the locks with dead contenders that no session has removed yet; `None` if any may be.
    async fn of_the_dead(
        &self,
        connections: &Connections,
        known: &FollowedNames,
    ) -> Result<Option<Vec<QueueName>>, Failure> {
        let batch = Batch::new().script(
            self.site.layout.script(Script::Dead),
            &[self.site.layout.base()],
            DEAD_MAX.to_string(),
        );
        let answers = connections.connection.send_to_master(batch, self.deadline()).await?;
        if let Some(plain) = &connections.plain {
            // A connection that was cut off silently reports nothing.
            plain.send_until(Batch::new().command(cmd("PING")), self.deadline()).await?;
        }
        let mut answers = list(answer(only(answers)?, "dead")?)?;
        let dead: BTreeSet<_> = texts(answers.pop().ok_or_else(Failure::unexpected)?)?.into_iter().collect();
        if dead.len() >= DEAD_MAX {
            return Ok(None);
        }
        let has_sessions = number(answers.first().ok_or_else(Failure::unexpected)?)? > 0;
        // Without the list of living sessions, all are taken for dead.
        Ok(Some(known.locks_with(|session| !has_sessions || dead.contains(session))))
    }

    /// Looks at all locks with contenders, and at those that are asked for.
    async fn look_at_all(
        &self,
        connections: &Connections,
        known: &mut FollowedNames,
        passed: &mut PassedTickets,
    ) -> Result<Vec<LockSnapshot>, Failure> {
        // Changes from now on may be missing in the look.
        drop(connections.marks.take());
        let mut names: BTreeSet<_> =
            look::names(self.looking(connections), &self.scope.prefix).await?.into_iter().collect();
        names.extend(self.scope.also.iter().filter(|name| self.site.layout.refusal(name).is_none()).cloned());
        *known = FollowedNames::new(self.scope.clone());
        let names: Vec<_> = names.into_iter().collect();
        let shown = self.look_at(connections, &names, known, passed).await;
        *passed = PassedTickets::default();
        shown
    }

    /// Looks at locks, and shows those that are not as they were.
    async fn look_at(
        &self,
        connections: &Connections,
        names: &[QueueName],
        known: &mut FollowedNames,
        passed: &mut PassedTickets,
    ) -> Result<Vec<LockSnapshot>, Failure> {
        let mut changed = Vec::new();
        for some in names.chunks(LOOKS_AT_ONCE) {
            if let Some(plain) = &connections.plain {
                let keys = some.iter().filter_map(|name| self.site.layout.plain(name));
                let batch = keys.fold(Batch::new(), |batch, key| batch.tracked("GET", key.as_bytes()));
                plain.send_until(batch, self.deadline()).await?;
            }
            let seen = look::inspect_each(self.looking(connections), some).await?;
            for (name, contenders) in some.iter().zip(seen) {
                let contenders: Vec<_> = contenders.into_iter().map(Arc::new).collect();
                passed.see(known.contenders(name), &contenders);
                changed.extend(known.see(name, contenders));
            }
        }
        Ok(changed)
    }
}

impl Follow for Following {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.site.clock
    }

    async fn until_lost(&mut self, telling: &EventSender, backoff: &mut Backoff) -> Result<(), Failure> {
        let deadline = self.site.clock.now().saturating_add(self.site.config.connect_timeout);
        let Self { site, finder, .. } = self;
        let site = &*site;
        let connections = finder.round(deadline, |server, attempt_ends| open(site, server, attempt_ends)).await?;
        self.until_over(connections, telling, backoff).await
    }
}

/// Connects to a server, and asks it to report changes from then on.
async fn open(site: &RedisSite, server: Server, deadline: BootInstant) -> Result<Connections, Failure> {
    let marks = Arc::<KeyMarks>::default();
    let connection = Connection::open(&server, &site.config.access, &site.clock, deadline).await?;
    site.config.check(&connection)?;
    connection.mark(marks.clone());
    let (mut off, mut on, mut probe) = (cmd("CLIENT"), cmd("CLIENT"), cmd("HGET"));
    off.arg("TRACKING").arg("OFF");
    on.arg("TRACKING").arg("ON").arg("BCAST");
    for prefix in site.layout.shown_keys() {
        on.arg("PREFIX").arg(prefix);
    }
    // A server of a cluster that does not have the keys says so.
    probe.arg(site.layout.base()).arg("tok");
    let batch = teach(&site.layout).load(site.layout.script(Script::Dead));
    let mut answers = connection.send_until(batch.command(probe).command(off).command(on), deadline).await?;
    for tracking in answers.split_off(answers.len().saturating_sub(2)) {
        answer(tracking, "CLIENT TRACKING")?;
    }
    taught(answers, "HGET")?;
    let plain = match site.layout.has_plain() {
        true => Some(Connection::open(&server, &site.config.access, &site.clock, deadline).await?),
        false => None,
    };
    if let Some(plain) = &plain {
        plain.mark(marks.clone());
    }
    Ok(Connections { connection, plain, marks })
}

/// Adds to the locks that have changed how many contenders came and went unseen.
fn count(changed: &mut Vec<LockSnapshot>, known: &FollowedNames, passed: &mut PassedTickets) {
    let mut counts = passed.settle();
    for now in changed.iter_mut() {
        now.between = counts.remove(&now.lock).map(PassedBetween::counted).unwrap_or_default();
    }
    let as_before = |(lock, count)| {
        let contenders = known.contenders(&lock).to_vec();
        LockSnapshot::new(lock, contenders).after(PassedBetween::counted(count))
    };
    changed.extend(counts.into_iter().map(as_before));
}

/// The pause after a look that took so long.
fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(LOOK_SHARE).clamp(LOOK_PAUSE_MIN, LOOK_PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_what_never_rests_take_a_tenth_of_the_time() {
        for (took_ms, pause_ms) in [(0, 5), (2, 20), (70, 700), (5_000, 1_000)] {
            assert_eq!(pause_after(Duration::from_millis(took_ms)), Duration::from_millis(pause_ms));
        }
    }
}
