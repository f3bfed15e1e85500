//! The service's facts about a node.

use crate::jute::{DecodeError, Reader, Writer};

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
    ///
    /// # Errors
    ///
    /// Fails if the message ends first.
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
