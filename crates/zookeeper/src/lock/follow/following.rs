//! The task that follows: its own session, watches on it, a whole look after each reconnection, and the changes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    Advice, Backoff, Error, ErrorKind, EventSender, FollowEvent, Follower, LockSnapshot, LossReason, Operation, Scope,
};
use lockkeeper_session::or_never;
use lockkeeper_zk_proto::message::ErrorCode;

use crate::client::{Client, ClientOpener};
use crate::error::ClientError;
use crate::link::{LinkPhase, SessionLink};
use crate::lock::follow::model::NodeModel;
use crate::lock::follow::path_scheme::PathScheme;
use crate::lock::follow::reading::{NodeMarks, PacedReader, note, snapshot, take_in};
use crate::lock::trial::require_fit;

/// Where the service does not tell of all changes, looks take this part of the time at most.
const LOOKS_TIME_PART: u32 = 100;

/// The least time between two such looks.
const LOOK_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The greatest time between two such looks.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Follows in a task of the runtime that this is called in.
pub(in crate::lock) fn follow(access: ClientOpener, scope: Scope) -> Follower {
    Follower::run(|telling| {
        let teller = FollowSender { telling, is_lost: false, backoff: Backoff::CONNECTING };
        Following { access, teller }.run(scope)
    })
}

struct Following {
    access: ClientOpener,
    teller: FollowSender,
}

impl Following {
    /// Opens one session after the other, until no caller hears or the service refuses.
    async fn run(mut self, scope: Scope) {
        loop {
            let end = match self.access.open().await {
                Ok(client) => self.follow(&client, &scope).await,
                Err(error) => error.into(),
            };
            let FollowEnd::Lost(error) = end else {
                return;
            };
            if !self.goes_on(error).await {
                return;
            }
        }
    }

    /// Tells of a loss, and pauses; whether anything follows.
    async fn goes_on(&mut self, error: Error) -> bool {
        let is_heard = self.teller.tell_lost(error).await;
        if is_heard {
            self.teller.backoff.rest(&*self.access.clock).await;
        }
        is_heard
    }

    async fn follow(&mut self, client: &Client, scope: &Scope) -> FollowEnd {
        let (link, config) = (client.link(), &self.access.config);
        let scheme = match PathScheme::new(config, &link.chroot, scope) {
            Ok(scheme) => Arc::new(scheme),
            Err(error) => return FollowEnd::Lost(error),
        };
        let reader = PacedReader::new(link.clone(), config.base.as_str().to_owned());
        let mut session = FollowedSession { link: link.clone(), scheme, reader, pending: Arc::default(), tells: None };
        loop {
            let Err(end) = session.follow_connection(&mut self.teller).await;
            match end {
                FollowEnd::Lost(error) if error.advice() != Advice::Permanent && !link.is_over() => {
                    if !self.goes_on(error).await {
                        return FollowEnd::Unheard;
                    }
                }
                end => return end,
            }
        }
    }
}

/// Why a session, or a connection, is followed no more.
enum FollowEnd {
    /// No caller hears the events any more.
    Unheard,
    /// For this reason.
    Lost(Error),
}

impl From<ClientError> for FollowEnd {
    fn from(error: ClientError) -> Self {
        Self::Lost(error.into_core(Operation::Inspect, None))
    }
}

struct FollowSender {
    telling: EventSender,
    /// Whether a loss was the last event.
    is_lost: bool,
    /// The pauses between attempts since all was told last.
    backoff: Backoff,
}

impl FollowSender {
    /// Tells of a loss, once until all is told; whether anything follows.
    async fn tell_lost(&mut self, error: Error) -> bool {
        let is_permanent = error.advice() == Advice::Permanent;
        if self.is_lost && !is_permanent {
            return true;
        }
        self.is_lost = true;
        self.telling.tell(FollowEvent::Lost(error)).await && !is_permanent
    }

    async fn tell_all(&mut self, locks: Vec<LockSnapshot>) -> Result<(), FollowEnd> {
        (self.is_lost, self.backoff) = (false, Backoff::CONNECTING);
        self.tell(FollowEvent::All(locks)).await
    }

    async fn tell(&self, event: FollowEvent) -> Result<(), FollowEnd> {
        if self.telling.tell(event).await { Ok(()) } else { Err(FollowEnd::Unheard) }
    }
}

/// The followed scope over one session.
struct FollowedSession {
    link: Arc<SessionLink>,
    scheme: Arc<PathScheme>,
    reader: PacedReader,
    pending: Arc<NodeMarks>,
    /// Whether its watches are set, and the service tells of changes; unknown before that was asked.
    tells: Option<bool>,
}

enum FollowStep {
    TakeIn,
    LookAgain,
}

impl FollowedSession {
    /// Follows over the present connection, or the next one, until its end.
    async fn follow_connection(&mut self, teller: &mut FollowSender) -> Result<Infallible, FollowEnd> {
        let status = self.link.until(|status| status.phase == LinkPhase::Restored).await;
        if status.phase == LinkPhase::Over {
            return Err(self.loss());
        }
        let epoch = status.epoch;
        self.watch().await?;
        let (mut model, mut look_at) = self.look(epoch).await?;
        teller.tell_all(model.all()).await?;
        loop {
            let is_told_all = self.tells == Some(true) && !model.has_refusals();
            let next = self.next(epoch, (!is_told_all).then_some(look_at)).await?;
            // Meanwhile, more may change.
            if !teller.telling.until_taken().await {
                return Err(FollowEnd::Unheard);
            }
            let changes = match next {
                FollowStep::TakeIn => self.pending.take(),
                FollowStep::LookAgain => None,
            };
            match changes {
                Some(changes) => take_in(&mut self.reader, &mut model, changes).await?,
                None => {
                    let (newer, next_at) = self.look(epoch).await?;
                    model.renew(newer);
                    look_at = next_at;
                }
            }
            let changed = model.take_changed();
            if !changed.is_empty() {
                teller.tell(FollowEvent::Changed(changed)).await?;
            }
        }
    }

    /// Sets the watches, which live as long as the session.
    async fn watch(&mut self) -> Result<(), FollowEnd> {
        if self.tells.is_some() {
            return Ok(());
        }
        require_fit(&self.link).await?;
        for root in self.scheme.roots() {
            let pending = self.pending.clone();
            let watching = self.link.watch_below(root, Box::new(move |event| note(&pending, event)));
            match watching.response().await {
                Ok(_) => {}
                // Such a server closes the connection then, so that it is asked once a session.
                Err(error) if error.is(ErrorCode::Unimplemented) => {
                    self.tells = Some(false);
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.tells = Some(true);
        Ok(())
    }

    /// Reads all; returns it, and when to look next where the service does not tell of all.
    async fn look(&mut self, epoch: u64) -> Result<(NodeModel, BootInstant), FollowEnd> {
        let clock = self.link.clock.clone();
        let begun = clock.now();
        // The reading may lack changes that watches show from now on.
        drop(self.pending.take());
        let model = snapshot(&mut self.reader, &self.scheme).await?;
        if !self.is_on(epoch) {
            return Err(self.loss());
        }
        let ended = clock.now();
        let took = ended.saturating_duration_since(begun);
        let interval = took.saturating_mul(LOOKS_TIME_PART).clamp(LOOK_INTERVAL_MIN, LOOK_INTERVAL_MAX);
        Ok((model, ended.saturating_add(interval)))
    }

    /// Waits for changes, or for the time of the next look.
    async fn next(&self, epoch: u64, look_at: Option<BootInstant>) -> Result<FollowStep, FollowEnd> {
        let look_time = or_never(look_at.map(|at| self.link.clock.sleep_until(at)));
        // A look is not put off by changes, however many come.
        tokio::select! {
            biased;
            _ = self.link.until(|status| status.epoch != epoch || !status.phase.is_online()) => Err(self.loss()),
            () = look_time => Ok(FollowStep::LookAgain),
            () = self.pending.until_any() => Ok(FollowStep::TakeIn),
        }
    }

    fn is_on(&self, epoch: u64) -> bool {
        let status = self.link.status_now();
        status.epoch == epoch && status.phase.is_online()
    }

    fn loss(&self) -> FollowEnd {
        let kind = match self.link.is_over() {
            true => ErrorKind::Lost(LossReason::Expired),
            false => ErrorKind::ConnectionLost,
        };
        let error = Error::transient(kind, Operation::Inspect, "");
        FollowEnd::Lost(match self.link.trouble() {
            Some(trouble) => error.caused_by(trouble),
            None => error,
        })
    }
}
