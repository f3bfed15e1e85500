//! Operation codes, and what each operation does to the service.

/// Names a request's operation, as ZooKeeper's `ZooDefs.OpCode` numbers it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
#[repr(i32)]
#[expect(missing_docs, reason = "each is the protocol's own word for the operation")]
pub enum OpCode {
    Create = 1,
    Delete = 2,
    Exists = 3,
    GetData = 4,
    SetData = 5,
    GetAcl = 6,
    SetAcl = 7,
    GetChildren = 8,
    Sync = 9,
    Ping = 11,
    GetChildren2 = 12,
    Check = 13,
    Multi = 14,
    Create2 = 15,
    Reconfig = 16,
    CheckWatches = 17,
    RemoveWatches = 18,
    CreateContainer = 19,
    DeleteContainer = 20,
    CreateTtl = 21,
    MultiRead = 22,
    Auth = 100,
    SetWatches = 101,
    Sasl = 102,
    GetEphemerals = 103,
    GetAllChildrenNumber = 104,
    SetWatches2 = 105,
    AddWatch = 106,
    WhoAmI = 107,
    CreateSession = -10,
    CloseSession = -11,
}

/// What an operation does to the service; decides what a lost reply means.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "an operation changes something, or nothing")]
pub enum RequestEffect {
    /// It goes through the quorum and may change something: after a lost reply the client cannot know whether it did.
    Write,
    /// It changes nothing that outlives the connection: it can be asked again.
    Read,
}

impl OpCode {
    const ALL: [Self; 31] = [
        Self::Create,
        Self::Delete,
        Self::Exists,
        Self::GetData,
        Self::SetData,
        Self::GetAcl,
        Self::SetAcl,
        Self::GetChildren,
        Self::Sync,
        Self::Ping,
        Self::GetChildren2,
        Self::Check,
        Self::Multi,
        Self::Create2,
        Self::Reconfig,
        Self::CheckWatches,
        Self::RemoveWatches,
        Self::CreateContainer,
        Self::DeleteContainer,
        Self::CreateTtl,
        Self::MultiRead,
        Self::Auth,
        Self::SetWatches,
        Self::Sasl,
        Self::GetEphemerals,
        Self::GetAllChildrenNumber,
        Self::SetWatches2,
        Self::AddWatch,
        Self::WhoAmI,
        Self::CreateSession,
        Self::CloseSession,
    ];

    /// The number on the wire.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The operation with this number, if there is one.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.code() == code)
    }

    /// What the operation does to the service.
    pub const fn effect(self) -> RequestEffect {
        match self {
            Self::Create
            | Self::Create2
            | Self::CreateContainer
            | Self::CreateTtl
            | Self::Delete
            | Self::DeleteContainer
            | Self::SetData
            | Self::SetAcl
            | Self::Check
            | Self::Multi
            | Self::Reconfig
            | Self::CreateSession
            | Self::CloseSession => RequestEffect::Write,
            Self::Exists
            | Self::GetData
            | Self::GetAcl
            | Self::GetChildren
            | Self::GetChildren2
            | Self::MultiRead
            | Self::Sync
            | Self::Ping
            | Self::CheckWatches
            | Self::RemoveWatches
            | Self::Auth
            | Self::SetWatches
            | Self::SetWatches2
            | Self::Sasl
            | Self::GetEphemerals
            | Self::GetAllChildrenNumber
            | Self::AddWatch
            | Self::WhoAmI => RequestEffect::Read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_operations_correspond_one_to_one() {
        for operation in OpCode::ALL {
            assert_eq!(OpCode::from_code(operation.code()), Some(operation));
        }
        assert_eq!(OpCode::from_code(10), None);
        assert_eq!((OpCode::MultiRead.code(), OpCode::WhoAmI.code(), OpCode::CloseSession.code()), (22, 107, -11));
    }
}
