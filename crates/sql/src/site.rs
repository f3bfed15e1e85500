//! The database that a backend and its sessions use, and what they use it with.

use std::sync::Arc;

use lockkeeper_core::Result;
use lockkeeper_core::clock::Clock;
use lockkeeper_session::Testing;

use crate::engine::Engine;
use crate::engines;
use crate::url::Config;

/// A database. Its clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) testing: Testing,
}

impl Site {
    pub(crate) fn new(config: Config, clock: Arc<dyn Clock>) -> Result<Self> {
        let config = Arc::new(config);
        Ok(Self { engine: engines::of(&config, &clock)?, config, clock, testing: Testing::default() })
    }
}
