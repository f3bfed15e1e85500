//! Which kinds of database are compiled in.

use std::sync::Arc;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Error, ErrorKind, Operation, Result};

use crate::engine::Engine;
use crate::url::{Config, Dialect};

/// The database that a URL names.
pub(crate) fn of(config: &Arc<Config>, _clock: &Arc<dyn Clock>) -> Result<Arc<dyn Engine>> {
    match config.dialect {
        Dialect::Postgres => Err(missing("postgres")),
        Dialect::Mysql => Err(missing("mysql")),
    }
}

fn missing(feature: &str) -> Error {
    let message = format!("lockkeeper-sql was built without the feature `{feature}`");
    Error::permanent(ErrorKind::Unsupported, Operation::Configure, message)
}
