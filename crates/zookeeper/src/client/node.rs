//! Describes a node that is to be made.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::message::{Acl, Create, CreateMode, Request, Stat};

/// A node to be made. By default it is empty and open to all users, as with other clients.
#[derive(Clone, Debug)]
pub struct NewNode {
    pub(super) path: String,
    mode: CreateMode,
    data: Bytes,
    acl: Vec<Acl>,
    ttl: Duration,
}

/// A node that was made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Created {
    /// Its path, with the sequence number if it has one.
    pub path: String,
    /// What the server says of it; its `czxid` orders all nodes of the service.
    pub stat: Stat,
}

impl NewNode {
    /// Asks for a node of this mode.
    pub fn new(path: impl Into<String>, mode: CreateMode) -> Self {
        Self { path: path.into(), mode, data: Bytes::new(), acl: vec![Acl::open()], ttl: Duration::ZERO }
    }

    /// Asks for a node that lives until it is deleted.
    pub fn persistent(path: impl Into<String>) -> Self {
        Self::new(path, CreateMode::Persistent)
    }

    /// Asks for a node that ends with the session.
    pub fn ephemeral(path: impl Into<String>) -> Self {
        Self::new(path, CreateMode::Ephemeral)
    }

    /// Asks for a node that ends with the session and whose name is continued with a number that grows.
    pub fn ephemeral_sequential(prefix: impl Into<String>) -> Self {
        Self::new(prefix, CreateMode::EphemeralSequential)
    }

    /// Asks for a node that the service deletes some time after its last child was deleted.
    pub fn container(path: impl Into<String>) -> Self {
        Self::new(path, CreateMode::Container)
    }

    /// Gives it data.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        Self { data: data.into(), ..self }
    }

    /// Gives it this access list instead of the open one.
    #[must_use]
    pub fn with_acl(self, acl: Vec<Acl>) -> Self {
        Self { acl, ..self }
    }

    /// Has the service delete it when it was unchanged and had no children for this long. Only for modes with a time to
    /// live.
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    pub(super) fn is_sequential(&self) -> bool {
        self.mode.is_sequential()
    }

    /// The request, with the path as the server knows it.
    pub(super) fn into_request(self, path: String) -> Request {
        let ttl_ms = i64::try_from(self.ttl.as_millis()).unwrap_or(i64::MAX);
        let mode = self.mode;
        let create = self.into_create(path);
        match mode {
            CreateMode::Container => Request::CreateContainer(create),
            mode if mode.has_ttl() => Request::CreateTtl { create, ttl_ms },
            _ => Request::Create2(create),
        }
    }

    pub(super) fn into_create(self, path: String) -> Create {
        Create { path, data: Some(self.data), acl: self.acl, mode: self.mode }
    }

    pub(super) const fn mode(&self) -> CreateMode {
        self.mode
    }
}
