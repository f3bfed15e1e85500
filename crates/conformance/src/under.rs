//! A fixture whose parties hand their locks off within the process.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{BoxFuture, Result};
use lockkeeper_recipes::Handoff;

use crate::fixture::{Client, FaultKind, Fixture, Sessions};

/// Another fixture, with this policy.
#[derive(Debug)]
pub(crate) struct Under {
    pub(crate) fixture: Arc<dyn Fixture>,
    pub(crate) handoff: Handoff,
}

impl Fixture for Under {
    fn prepare(&self, sessions: Sessions) {
        self.fixture.prepare(sessions);
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn Client>>> {
        self.fixture.client()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.fixture.clock()
    }

    fn handoff(&self) -> Handoff {
        self.handoff
    }

    fn can_inflict(&self, kind: FaultKind) -> bool {
        self.fixture.can_inflict(kind)
    }

    fn session_timeout(&self) -> Option<Duration> {
        self.fixture.session_timeout()
    }

    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        self.fixture.leftovers()
    }
}
