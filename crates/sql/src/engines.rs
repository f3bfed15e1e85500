//! Which kinds of database are compiled in.

#[cfg(all(test, feature = "mysql", feature = "postgres", feature = "tls"))]
mod tests;

use std::sync::Arc;

use lockkeeper_core::Result;
use lockkeeper_core::clock::Clock;
#[cfg(not(all(feature = "postgres", feature = "mysql")))]
use lockkeeper_core::{Error, ErrorKind, Operation};

use crate::engine::Engine;
use crate::url::{Config, Dialect};

/// The database that a URL names.
#[cfg_attr(not(any(feature = "postgres", feature = "mysql")), expect(unused_variables, reason = "none is compiled in"))]
pub(crate) fn of(config: &Arc<Config>, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Engine>> {
    match config.dialect {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => Ok(Arc::new(crate::postgres::Postgres::new(config.clone(), clock.clone()))),
        #[cfg(not(feature = "postgres"))]
        Dialect::Postgres => Err(missing("postgres")),
        #[cfg(feature = "mysql")]
        Dialect::Mysql => Ok(Arc::new(crate::mysql::Mysql::new(config.clone(), clock.clone()))),
        #[cfg(not(feature = "mysql"))]
        Dialect::Mysql => Err(missing("mysql")),
    }
}

#[cfg(not(all(feature = "postgres", feature = "mysql")))]
fn missing(feature: &str) -> Error {
    let message = format!("lockkeeper-sql was built without the feature `{feature}`");
    Error::permanent(ErrorKind::Unsupported, Operation::Configure, message)
}
