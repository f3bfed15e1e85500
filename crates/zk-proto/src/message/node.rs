//! Nodes on the wire: how a new one is made, what the service knows of one, and the access list.

use std::fmt;
use std::ops::BitOr;

use bytes::Bytes;

use crate::jute::{DecodeError, DecodeErrorKind, Reader, Writer};

/// Creates a node; the body that all create requests share.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Create {
    /// The path; for a sequential node the number is appended to it.
    pub path: String,
    /// The data; null is not the same as empty.
    pub data: Option<Bytes>,
    /// Its access list.
    pub acl: Vec<Acl>,
    /// How long it lives.
    pub mode: CreateMode,
}

impl Create {
    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.string(&self.path);
        writer.buffer(self.data.as_deref());
        Acl::encode_list(&self.acl, writer);
        writer.i32(self.mode.flags());
    }

    pub(crate) fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let path = reader.string("path")?;
        let data = reader.buffer("data")?;
        let acl = Acl::decode_list(reader)?;
        let start = reader.position();
        let flags = reader.i32("flags")?;
        let mode = CreateMode::from_flags(flags)
            .ok_or_else(|| DecodeError::new(DecodeErrorKind::UnknownValue(flags), "flags", start))?;
        Ok(Self { path, data, acl, mode })
    }
}

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

/// Describes a node; the fields carry the protocol's own names.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Stat {
    /// The transaction that created the node; grows over the life of an ensemble.
    pub czxid: i64,
    /// The transaction that last changed the data.
    pub mzxid: i64,
    /// When it was created, by the leader's wall clock, in milliseconds since 1970.
    pub ctime: i64,
    /// When the data was last changed, likewise.
    pub mtime: i64,
    /// How often the data was changed.
    pub version: i32,
    /// How often the set of children was changed.
    pub cversion: i32,
    /// How often the access list was changed.
    pub aversion: i32,
    /// The session that owns an ephemeral node; 0 for a persistent one; other values mark containers and TTL nodes.
    pub ephemeral_owner: i64,
    /// The length of the data in bytes.
    pub data_length: i32,
    /// How many children there are.
    pub num_children: i32,
    /// The transaction that last changed the set of children.
    pub pzxid: i64,
}

impl Stat {
    /// Writes it.
    pub fn encode(&self, writer: &mut Writer) {
        writer.i64(self.czxid);
        writer.i64(self.mzxid);
        writer.i64(self.ctime);
        writer.i64(self.mtime);
        writer.i32(self.version);
        writer.i32(self.cversion);
        writer.i32(self.aversion);
        writer.i64(self.ephemeral_owner);
        writer.i32(self.data_length);
        writer.i32(self.num_children);
        writer.i64(self.pzxid);
    }

    /// Reads it.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            czxid: reader.i64("czxid")?,
            mzxid: reader.i64("mzxid")?,
            ctime: reader.i64("ctime")?,
            mtime: reader.i64("mtime")?,
            version: reader.i32("version")?,
            cversion: reader.i32("cversion")?,
            aversion: reader.i32("aversion")?,
            ephemeral_owner: reader.i64("ephemeralOwner")?,
            data_length: reader.i32("dataLength")?,
            num_children: reader.i32("numChildren")?,
            pzxid: reader.i64("pzxid")?,
        })
    }
}

/// Says what an entry of an access list permits, as a set of bits.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Permissions(i32);

impl Permissions {
    /// Read the data and list the children.
    pub const READ: Self = Self(1);
    /// Set the data.
    pub const WRITE: Self = Self(2);
    /// Create children.
    pub const CREATE: Self = Self(4);
    /// Delete children.
    pub const DELETE: Self = Self(8);
    /// Set the access list.
    pub const ADMIN: Self = Self(16);
    /// All of them.
    pub const ALL: Self = Self(31);

    /// Takes the bits as they come; unknown ones are kept.
    pub const fn from_bits(bits: i32) -> Self {
        Self(bits)
    }

    /// The bits on the wire.
    pub const fn bits(self) -> i32 {
        self.0
    }

    /// Whether all of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Permissions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, bit) in
            [('c', Self::CREATE), ('d', Self::DELETE), ('r', Self::READ), ('w', Self::WRITE), ('a', Self::ADMIN)]
        {
            write!(formatter, "{}", if self.contains(bit) { letter } else { '-' })?;
        }
        Ok(())
    }
}

/// Names one user or group of users within an authentication scheme.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Id {
    /// The scheme: `world`, `digest`, `ip`, `auth`, `x509`, `sasl`, `super`.
    pub scheme: String,
    /// The user, in the scheme's own form.
    pub id: String,
}

/// Permits something to one user or group: one entry of an access list.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Acl {
    /// The permissions.
    pub permissions: Permissions,
    /// Which user or group it is permitted to.
    pub id: Id,
}

impl Acl {
    /// The fewest bytes an entry takes on the wire.
    pub const ENCODED_BYTES_MIN: usize = 12;

    /// Permits everything to all users.
    pub fn open() -> Self {
        Self::new(Permissions::ALL, "world", "anyone")
    }

    /// Permits everything to the users that this connection has authenticated as.
    pub fn creator() -> Self {
        Self::new(Permissions::ALL, "auth", "")
    }

    /// Permits reading to all users.
    pub fn readable() -> Self {
        Self::new(Permissions::READ, "world", "anyone")
    }

    /// Permits `permissions` to `id` within `scheme`.
    pub fn new(permissions: Permissions, scheme: impl Into<String>, id: impl Into<String>) -> Self {
        Self { permissions, id: Id { scheme: scheme.into(), id: id.into() } }
    }

    /// Writes it.
    pub fn encode(&self, writer: &mut Writer) {
        writer.i32(self.permissions.bits());
        writer.string(&self.id.scheme);
        writer.string(&self.id.id);
    }

    /// Reads it. A string that is null counts as empty: kazoo sends the id of `auth` as null.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            permissions: Permissions::from_bits(reader.i32("perms")?),
            id: Id { scheme: reader.string_or_empty("scheme")?, id: reader.string_or_empty("id")? },
        })
    }

    /// Writes a whole access list.
    pub fn encode_list(list: &[Self], writer: &mut Writer) {
        writer.vector(list, |writer, acl| acl.encode(writer));
    }

    /// Reads a whole access list; null is the empty list, which servers refuse as invalid either way.
    pub fn decode_list(reader: &mut Reader) -> Result<Vec<Self>, DecodeError> {
        reader.vector("acl", Self::ENCODED_BYTES_MIN, Self::decode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_show_as_their_letters() {
        assert_eq!(format!("{:?}", Permissions::ALL), "cdrwa");
        assert_eq!(format!("{:?}", Permissions::READ | Permissions::CREATE), "c-r--");
        assert!(Permissions::ALL.contains(Permissions::ADMIN));
        assert!(!Permissions::READ.contains(Permissions::ADMIN));
    }
}
