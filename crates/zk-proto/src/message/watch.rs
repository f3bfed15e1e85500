//! Watch events, and what requests about watches carry.

use crate::jute::{DecodeError, DecodeErrorKind, Reader, Writer};

/// Says what happened to a watched node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(i32)]
#[expect(missing_docs, reason = "each is the protocol's own word for the event")]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum WatchEventKind {
    /// Nothing happened to a node; the event is about the session.
    None = -1,
    NodeCreated = 1,
    NodeDeleted = 2,
    NodeDataChanged = 3,
    NodeChildrenChanged = 4,
    DataWatchRemoved = 5,
    ChildWatchRemoved = 6,
    PersistentWatchRemoved = 7,
}

impl WatchEventKind {
    const ALL: [Self; 8] = [
        Self::None,
        Self::NodeCreated,
        Self::NodeDeleted,
        Self::NodeDataChanged,
        Self::NodeChildrenChanged,
        Self::DataWatchRemoved,
        Self::ChildWatchRemoved,
        Self::PersistentWatchRemoved,
    ];

    /// The number on the wire.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The kind with this number, if there is one.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.code() == code)
    }
}

/// How a session stands in an event about a node, `SyncConnected`; other states are in events about the session.
const SYNC_CONNECTED: i32 = 3;

/// Tells a client that something it watched happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WatcherEvent {
    /// What happened.
    pub kind: WatchEventKind,
    /// The node it happened to; empty for events about the session.
    pub path: String,
}

impl WatcherEvent {
    /// An event about a node.
    pub fn new(kind: WatchEventKind, path: impl Into<String>) -> Self {
        Self { kind, path: path.into() }
    }

    /// Writes it.
    pub fn encode(&self, writer: &mut Writer) {
        writer.i32(self.kind.code());
        writer.i32(SYNC_CONNECTED);
        writer.string(&self.path);
    }

    /// Reads it.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let kind = known(reader, "event type", WatchEventKind::from_code)?;
        reader.i32("event state")?;
        Ok(Self { kind, path: reader.string_or_empty("path")? })
    }
}

/// Says which watches on a node a request to check or remove watches is about.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(i32)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum WatcherKind {
    /// One-shot watches on the set of children.
    Children = 1,
    /// One-shot watches on the data and on existence.
    Data = 2,
    /// All watches of this connection on the node, persistent ones too.
    Any = 3,
    /// Persistent watches; not known to ZooKeeper 3.8.
    Persistent = 4,
    /// Persistent recursive watches; not known to ZooKeeper 3.8.
    PersistentRecursive = 5,
}

impl WatcherKind {
    const ALL: [Self; 5] = [Self::Children, Self::Data, Self::Any, Self::Persistent, Self::PersistentRecursive];

    /// The number on the wire.
    pub const fn code(self) -> i32 {
        self as i32
    }

    pub(crate) fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        known(reader, "watcher type", |code| Self::ALL.into_iter().find(|known| known.code() == code))
    }
}

/// Says what a persistent watch covers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(i32)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum AddWatchMode {
    /// The node: its data, its existence and its set of children.
    Persistent = 0,
    /// The node and everything below it: data and existence of each.
    PersistentRecursive = 1,
}

impl AddWatchMode {
    const ALL: [Self; 2] = [Self::Persistent, Self::PersistentRecursive];

    /// The number on the wire.
    pub const fn code(self) -> i32 {
        self as i32
    }

    pub(crate) fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        known(reader, "watch mode", |code| Self::ALL.into_iter().find(|known| known.code() == code))
    }
}

/// Sets watches again after a reconnect; the server sends at once the events that were missed.
///
/// Without persistent watches it goes out as `setWatches`, which every server knows, else as `setWatches2` (3.6).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SetWatches {
    /// The newest transaction the client has seen: what changed later was missed.
    pub relative_zxid: i64,
    /// Paths watched for changes of their data.
    pub data: Vec<String>,
    /// Paths watched for coming into being.
    pub exist: Vec<String>,
    /// Paths watched for changes of their set of children.
    pub child: Vec<String>,
    /// Paths under a persistent watch.
    pub persistent: Vec<String>,
    /// Paths under a persistent recursive watch.
    pub persistent_recursive: Vec<String>,
}

impl SetWatches {
    /// Whether the old form of the request can carry it.
    pub fn fits_old_form(&self) -> bool {
        self.persistent.is_empty() && self.persistent_recursive.is_empty()
    }

    /// Writes it in the shortest form that can carry it.
    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.i64(self.relative_zxid);
        writer.strings(&self.data);
        writer.strings(&self.exist);
        writer.strings(&self.child);
        if !self.fits_old_form() {
            writer.strings(&self.persistent);
            writer.strings(&self.persistent_recursive);
        }
    }

    pub(crate) fn decode_old(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            relative_zxid: reader.i64("relativeZxid")?,
            data: reader.strings("dataWatches")?,
            exist: reader.strings("existWatches")?,
            child: reader.strings("childWatches")?,
            ..Self::default()
        })
    }

    pub(crate) fn decode_new(reader: &mut Reader) -> Result<Self, DecodeError> {
        let old = Self::decode_old(reader)?;
        Ok(Self {
            persistent: reader.strings("persistentWatches")?,
            persistent_recursive: reader.strings("persistentRecursiveWatches")?,
            ..old
        })
    }
}

fn known<T>(
    reader: &mut Reader,
    field: &'static str,
    from_code: impl FnOnce(i32) -> Option<T>,
) -> Result<T, DecodeError> {
    let start = reader.position();
    let code = reader.i32(field)?;
    from_code(code).ok_or_else(|| DecodeError::new(DecodeErrorKind::UnknownValue(code), field, start))
}
