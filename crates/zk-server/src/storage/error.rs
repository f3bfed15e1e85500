//! Why a data directory could not be used.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What can be done about damage if no more is known.
const CURE_DEFAULT: &str = "restore the directory from a backup, or name an empty directory to begin anew";

/// Says why a data directory could not be used, and which file of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StorageError {
    /// Another server uses the directory.
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory has data of Apache ZooKeeper, which this server does not read. Name an empty directory, and copy
    /// the nodes over with a client.
    Apache {
        /// What was found.
        path: PathBuf,
    },
    /// A file could not be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// A file is damaged where only a failing disk or another program can damage it: going on would lose what was
    /// acknowledged.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What can be done, in one clause.
        cure: String,
    },
}

impl StorageError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source: Arc::new(source) }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into(), cure: CURE_DEFAULT.to_owned() }
    }

    /// Says what can be done about damage.
    pub(super) fn with_cure(mut self, better: String) -> Self {
        if let Self::Damaged { cure, .. } = &mut self {
            *cure = better;
        }
        self
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { directory } => write!(formatter, "another server uses {}", directory.display()),
            Self::Apache { path } => write!(
                formatter,
                "{} is data of Apache ZooKeeper, which this server does not read; name an empty directory, start both \
                 servers and copy the nodes with a client (see \"Apache ZooKeeper's data\" in docs/server.md)",
                path.display()
            ),
            Self::Io { path, .. } => write!(formatter, "{} cannot be used", path.display()),
            Self::Damaged { path, what, cure } => {
                write!(formatter, "{} is damaged: {what}; {cure}", path.display())
            }
        }
    }
}

impl Error for StorageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(&**source),
            Self::InUse { .. } | Self::Apache { .. } | Self::Damaged { .. } => None,
        }
    }
}
