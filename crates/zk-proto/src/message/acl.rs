//! Access lists.

use std::fmt;
use std::ops::BitOr;

use crate::jute::{DecodeError, Reader, Writer};

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
    /// What is permitted.
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

    /// Reads it.
    ///
    /// # Errors
    ///
    /// Fails if the message ends first. A string that is null counts as empty: kazoo sends the id of `auth` as null.
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
    ///
    /// # Errors
    ///
    /// Fails as [`Acl::decode`] does.
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
