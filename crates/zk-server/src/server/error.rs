//! Why a server could not be started, or has stopped.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::storage::StorageError;

/// Says why a server could not be started or asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The address could not be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The data directory could not be used.
    Storage(StorageError),
    /// The system gave no randomness to make passwords from.
    Randomness,
    /// The server has stopped.
    Stopped,
    /// The system gave no thread.
    Thread {
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The server stopped by itself, since what it acknowledges would not be safe any more.
    Unstorable {
        /// The file, the system's error and what follows from it.
        reason: String,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, .. } => write!(formatter, "cannot listen on {address}"),
            Self::Storage(_) => formatter.write_str("the data directory cannot be used"),
            Self::Randomness => formatter.write_str("the system gave no randomness"),
            Self::Stopped => formatter.write_str("the server has stopped"),
            Self::Thread { .. } => formatter.write_str("the thread of the server cannot be started"),
            Self::Unstorable { reason } => {
                write!(formatter, "the server has stopped: {reason}; look to the disk and start it again")
            }
        }
    }
}

impl Error for ServerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Listen { source, .. } | Self::Thread { source } => Some(&**source),
            Self::Storage(source) => Some(source),
            Self::Randomness | Self::Stopped | Self::Unstorable { .. } => None,
        }
    }
}

impl From<StorageError> for ServerError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
