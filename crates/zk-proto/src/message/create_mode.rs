//! The mode of a new node: how long it lives and whether the service appends a sequence number.

/// Says how long a new node lives and whether its name gets a sequence number.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(i32)]
#[expect(clippy::exhaustive_enums, reason = "the server creates nodes of every one")]
pub enum CreateMode {
    /// Lives until it is deleted.
    #[default]
    Persistent = 0,
    /// Lives until it is deleted or its session ends; has no children.
    Ephemeral = 1,
    /// Persistent, the name ending in the next number of its parent.
    PersistentSequential = 2,
    /// Ephemeral, the name ending in the next number of its parent.
    EphemeralSequential = 3,
    /// Deleted by the service some time after its last child.
    Container = 4,
    /// Deleted by the service when unchanged and childless for a time.
    PersistentWithTtl = 5,
    /// The same, the name ending in the next number of its parent.
    PersistentSequentialWithTtl = 6,
}

impl CreateMode {
    /// Every mode.
    pub const ALL: [Self; 7] = [
        Self::Persistent,
        Self::Ephemeral,
        Self::PersistentSequential,
        Self::EphemeralSequential,
        Self::Container,
        Self::PersistentWithTtl,
        Self::PersistentSequentialWithTtl,
    ];

    /// The flags on the wire.
    pub const fn flags(self) -> i32 {
        self as i32
    }

    /// The mode with these flags, if there is one.
    pub fn from_flags(flags: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.flags() == flags)
    }

    /// Whether the service appends a sequence number to the name.
    pub const fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential | Self::PersistentSequentialWithTtl)
    }

    /// Whether the node ends with its session.
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// Whether the mode needs a time to live.
    pub const fn has_ttl(self) -> bool {
        matches!(self, Self::PersistentWithTtl | Self::PersistentSequentialWithTtl)
    }
}
