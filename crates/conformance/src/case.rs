//! One case of the suite: a sentence, a function, and its needs.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use lockkeeper_core::{Capabilities, Modes};
use lockkeeper_recipes::Handoff;

use crate::fixture::{FaultKind, Fixture, Sessions};

type Running = Pin<Box<dyn Future<Output = ()>>>;

/// One thing that every backend must do, and the function that panics if it does not.
#[derive(Clone)]
pub struct Case {
    name: &'static str,
    needs: &'static [FaultKind],
    uses: Modes,
    promised: fn(&Capabilities) -> bool,
    handoffs: Handoffs,
    runtime: Runtime,
    sessions: Sessions,
    start: Arc<dyn Fn(Arc<dyn Fixture>) -> Running + Send + Sync>,
}

/// Under which policies a case holds.
#[derive(Clone, Copy, Debug)]
enum Handoffs {
    Any,
    GivenBack,
    Strict,
}

/// The runtime that a case runs in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Runtime {
    /// Two worker threads, so that tasks really run at the same time.
    TwoWorkers,
    /// One thread, for cases that count polls.
    CurrentThread,
}

impl Case {
    /// Makes a case that runs with two workers, takes no place and needs no harm to be done.
    pub fn new<Function>(name: &'static str, function: Function) -> Self
    where
        Function: AsyncFn(&dyn Fixture) + Copy + Send + Sync + 'static,
    {
        let start = move |fixture: Arc<dyn Fixture>| -> Running { Box::pin(async move { function(&*fixture).await }) };
        Self {
            name,
            needs: &[],
            uses: Modes::NONE,
            promised: |_| true,
            handoffs: Handoffs::Any,
            runtime: Runtime::TwoWorkers,
            sessions: Sessions::Lasting,
            start: Arc::new(start),
        }
    }

    /// Makes such a case of a function that is told what to do it with.
    pub(crate) fn with<With, Function>(name: &'static str, with: With, function: Function) -> Self
    where
        With: Copy + Send + Sync + 'static,
        Function: AsyncFn(&dyn Fixture, With) + Copy + Send + Sync + 'static,
    {
        Self::new(name, async move |fixture: &dyn Fixture| function(fixture, with).await)
    }

    /// Names the harm that the case does.
    #[must_use]
    pub const fn needs(mut self, needs: &'static [FaultKind]) -> Self {
        self.needs = needs;
        self
    }

    /// Names kinds of lock that the case uses, besides those that were named before: it is limited to services that
    /// carry all of them.
    #[must_use]
    pub const fn uses(mut self, modes: Modes) -> Self {
        self.uses = self.uses.with(modes);
        self
    }

    /// Limits the case to services that promise this.
    #[must_use]
    pub const fn promised(mut self, promised: fn(&Capabilities) -> bool) -> Self {
        self.promised = promised;
        self
    }

    /// Limits the case to parties whose calls are each a contender: it counts several of one keeper, or is about what
    /// is asked of a service for each.
    #[must_use]
    pub const fn strict(mut self) -> Self {
        self.handoffs = Handoffs::Strict;
        self
    }

    /// Limits the case to parties that give a lock back as soon as no task of theirs wants it: it looks whether the
    /// service knows.
    #[must_use]
    pub const fn given_back(mut self) -> Self {
        self.handoffs = Handoffs::GivenBack;
        self
    }

    /// Says that the case waits until a session ends by itself, or until its holders are warned of that; or until a
    /// service that was started again grants anew, which may be once the sessions of before have ended.
    #[must_use]
    pub const fn outlives_sessions(mut self) -> Self {
        self.sessions = Sessions::Brief;
        self
    }

    /// Makes the case run in this runtime.
    #[must_use]
    pub const fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = runtime;
        self
    }

    /// Returns the sentence that it proves.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the kinds of lock that it uses.
    pub const fn used(&self) -> Modes {
        self.uses
    }

    /// Tells how long its clients' sessions should live that are cut off.
    pub const fn sessions(&self) -> Sessions {
        self.sessions
    }

    /// Tells whether it is about a service with these capabilities: one that carries the kinds of lock that the case
    /// uses and promises what it shows, and to which can happen, or can be done, what the case needs.
    pub fn applies_to(&self, fixture: &dyn Fixture, capabilities: &Capabilities) -> bool {
        let is_possible = |&need: &FaultKind| fixture.can_inflict(need) || need.can_happen(capabilities);
        let is_carried = capabilities.modes.has_all(self.uses) && self.applies_under(fixture.handoff());
        is_carried && (self.promised)(capabilities) && self.needs.iter().all(is_possible)
    }

    /// Tells whether it is about locks that go from task to task in this way. What no hand-off takes part in is shown
    /// under `Strict` alone.
    fn applies_under(&self, handoff: Handoff) -> bool {
        let has_handoff = self.uses.has_all(Modes::MUTEX) || self.uses.has_all(Modes::READ_WRITE);
        match (self.handoffs, handoff) {
            (_, Handoff::Strict) => true,
            (Handoffs::Strict, _) | (Handoffs::GivenBack, Handoff::Sticky { .. }) => false,
            (Handoffs::GivenBack | Handoffs::Any, _) => has_handoff,
        }
    }

    /// Says why it cannot run on this fixture, if it cannot.
    pub fn reason_to_skip(&self, fixture: &dyn Fixture) -> Option<String> {
        let missing = self.needs.iter().find(|&&need| !fixture.can_inflict(need))?;
        Some(format!("the fixture cannot {missing}"))
    }

    /// Tells whether no other case may run meanwhile: it strikes a service that other cases may use too.
    pub(crate) fn runs_alone(&self) -> bool {
        self.needs.contains(&FaultKind::Restart) || self.needs.contains(&FaultKind::Wipe)
    }

    pub(crate) const fn runs_in(&self) -> Runtime {
        self.runtime
    }

    pub(crate) fn start(&self, fixture: Arc<dyn Fixture>) -> Running {
        (self.start)(fixture)
    }
}

/// Names kinds of lock that all of these cases use.
pub(crate) fn using(modes: Modes, cases: Vec<Case>) -> Vec<Case> {
    cases.into_iter().map(|case| case.uses(modes)).collect()
}

impl fmt::Debug for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Case").field(&self.name).finish()
    }
}
