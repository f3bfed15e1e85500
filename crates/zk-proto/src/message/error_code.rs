//! Error codes in reply headers, as ZooKeeper's `KeeperException.Code` numbers them.

use std::fmt;

/// Tells how a request ended at the server.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorCode {
    /// It was done.
    Ok,
    /// The server failed in a way it has no code for.
    SystemError,
    /// In a multi: an operation before this one failed, or one after it.
    RuntimeInconsistency,
    /// Data was found inconsistent.
    DataInconsistency,
    /// The connection was lost; no server sends it.
    ConnectionLoss,
    /// A message could not be encoded or decoded.
    MarshallingError,
    /// The server does not know or allow the operation.
    Unimplemented,
    /// The operation took too long.
    OperationTimeout,
    /// An argument was refused, an invalid path for instance.
    BadArguments,
    /// The server does not know the session.
    UnknownSession,
    /// A reconfiguration found no quorum of the new members.
    NewConfigNoQuorum,
    /// Another reconfiguration is under way.
    ReconfigInProgress,
    /// The start of the interface's errors; not used by itself.
    ApiError,
    /// There is no node at the path.
    NoNode,
    /// The access list refuses it.
    NoAuth,
    /// The version named is not the node's.
    BadVersion,
    /// An ephemeral node may not have children.
    NoChildrenForEphemerals,
    /// There is a node at the path.
    NodeExists,
    /// The node has children.
    NotEmpty,
    /// The session is over.
    SessionExpired,
    /// A callback was refused.
    InvalidCallback,
    /// The access list is malformed or names no user.
    InvalidAcl,
    /// The credentials were refused; the session is of no more use.
    AuthFailed,
    /// The session is attached to another server; not done.
    SessionMoved,
    /// The server only serves reads.
    NotReadOnly,
    /// A local session may not own ephemeral nodes.
    EphemeralOnLocalSession,
    /// There is no such watch.
    NoWatcher,
    /// The request was not completed in the time the server allows.
    RequestTimeout,
    /// Reconfiguration is switched off.
    ReconfigDisabled,
    /// The server closed the session because it requires an authentication that did not succeed.
    SessionClosedRequireSaslAuth,
    /// A quota on the path would be exceeded.
    QuotaExceeded,
    /// The server is overloaded and did not do it.
    ThrottledOp,
    /// A number that has no name in ZooKeeper 3.8.
    Other(i32),
}

/// Every code that has a name, by its number.
const KNOWN: [(i32, ErrorCode); 32] = [
    (0, ErrorCode::Ok),
    (-1, ErrorCode::SystemError),
    (-2, ErrorCode::RuntimeInconsistency),
    (-3, ErrorCode::DataInconsistency),
    (-4, ErrorCode::ConnectionLoss),
    (-5, ErrorCode::MarshallingError),
    (-6, ErrorCode::Unimplemented),
    (-7, ErrorCode::OperationTimeout),
    (-8, ErrorCode::BadArguments),
    (-12, ErrorCode::UnknownSession),
    (-13, ErrorCode::NewConfigNoQuorum),
    (-14, ErrorCode::ReconfigInProgress),
    (-100, ErrorCode::ApiError),
    (-101, ErrorCode::NoNode),
    (-102, ErrorCode::NoAuth),
    (-103, ErrorCode::BadVersion),
    (-108, ErrorCode::NoChildrenForEphemerals),
    (-110, ErrorCode::NodeExists),
    (-111, ErrorCode::NotEmpty),
    (-112, ErrorCode::SessionExpired),
    (-113, ErrorCode::InvalidCallback),
    (-114, ErrorCode::InvalidAcl),
    (-115, ErrorCode::AuthFailed),
    (-118, ErrorCode::SessionMoved),
    (-119, ErrorCode::NotReadOnly),
    (-120, ErrorCode::EphemeralOnLocalSession),
    (-121, ErrorCode::NoWatcher),
    (-122, ErrorCode::RequestTimeout),
    (-123, ErrorCode::ReconfigDisabled),
    (-124, ErrorCode::SessionClosedRequireSaslAuth),
    (-125, ErrorCode::QuotaExceeded),
    (-127, ErrorCode::ThrottledOp),
];

impl ErrorCode {
    /// The code with this number; [`ErrorCode::Other`] if there is none.
    pub fn from_code(number: i32) -> Self {
        KNOWN.iter().find(|(known, _)| *known == number).map_or(Self::Other(number), |(_, code)| *code)
    }

    /// The number on the wire.
    pub fn code(self) -> i32 {
        match self {
            Self::Other(number) => number,
            _ => KNOWN.iter().find(|(_, known)| *known == self).map_or(0, |(number, _)| *number),
        }
    }

    /// Whether the request reached the place where its kind is decided: the tree of the server for reads, the quorum
    /// for writes.
    ///
    /// True for success and for the refusals that depend on the state of the tree; Apache gives each failed write a
    /// separate transaction. Refusals that a server makes by itself (an unknown operation, an overload, a missing
    /// authentication) prove nothing about the quorum.
    pub const fn is_verdict(self) -> bool {
        matches!(
            self,
            Self::Ok
                | Self::NoNode
                | Self::NoAuth
                | Self::BadVersion
                | Self::NoChildrenForEphemerals
                | Self::NodeExists
                | Self::NotEmpty
        )
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(number) => write!(formatter, "unknown error {number}"),
            known => write!(formatter, "{known:?} ({})", known.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_the_way_there_and_back() {
        for number in -200..=1 {
            assert_eq!(ErrorCode::from_code(number).code(), number);
        }
        assert_eq!(ErrorCode::from_code(-120), ErrorCode::EphemeralOnLocalSession);
        assert_eq!(ErrorCode::from_code(-126), ErrorCode::Other(-126));
        assert_eq!(ErrorCode::SessionExpired.to_string(), "SessionExpired (-112)");
    }
}
