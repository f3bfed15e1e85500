//! Changes that are asked for: nodes to be made, and transactions whose changes take effect together or not at all.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::message::{Acl, Create, CreateMode, MultiOperation, MultiResult, OpCode, Stat, ZkRequest};

use crate::client::handle::Client;
use crate::error::ClientError;

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

    pub(super) fn into_request(self, path: String) -> ZkRequest {
        let ttl_ms = i64::try_from(self.ttl.as_millis()).unwrap_or(i64::MAX);
        let mode = self.mode;
        let create = self.into_create(path);
        match mode {
            CreateMode::Container => ZkRequest::CreateContainer(create),
            mode if mode.has_ttl() => ZkRequest::CreateTtl { create, ttl_ms },
            _ => ZkRequest::Create2(create),
        }
    }

    pub(super) fn into_create(self, path: String) -> Create {
        Create { path, data: Some(self.data), acl: self.acl, mode: self.mode }
    }

    pub(super) const fn mode(&self) -> CreateMode {
        self.mode
    }
}

/// A transaction in the making. [`Transaction::commit`] sends it.
#[derive(Debug)]
#[must_use = "nothing is sent before `commit`"]
pub struct Transaction<'a> {
    client: &'a Client,
    operations: Vec<MultiOperation>,
    /// The client's path of each operation.
    paths: Vec<String>,
    /// The error of the first path that is not valid.
    refused: Option<ClientError>,
}

/// What one operation of a transaction did.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TransactionResult {
    /// The node is there, with the version that was asked for.
    Checked,
    /// A node was made at this path. (Its Stat is left out: some servers send a wrong one in a transaction.)
    Created(String),
    /// The node was deleted.
    Deleted,
    /// The data was set.
    DataSet(Stat),
}

impl Client {
    /// Starts a transaction.
    pub const fn transaction(&self) -> Transaction<'_> {
        Transaction { client: self, operations: Vec::new(), paths: Vec::new(), refused: None }
    }
}

impl Transaction<'_> {
    /// Requires that the node is there and has this version; `None` for any.
    pub fn check(self, path: &str, version: Option<i32>) -> Self {
        let version = version.unwrap_or(-1);
        self.push(OpCode::Check, path, false, |path| MultiOperation::Check { path, version })
    }

    /// Makes a node. Nodes with a time to live cannot be made in a transaction here.
    pub fn create(self, node: NewNode) -> Self {
        let path = node.path.clone();
        let is_sequential = node.is_sequential();
        self.push(OpCode::Create2, &path, is_sequential, |path| match node.mode() {
            CreateMode::Container => MultiOperation::CreateContainer(node.into_create(path)),
            _ => MultiOperation::Create2(node.into_create(path)),
        })
    }

    /// Deletes a node if it has this version; `None` for any.
    pub fn delete(self, path: &str, version: Option<i32>) -> Self {
        let version = version.unwrap_or(-1);
        self.push(OpCode::Delete, path, false, |path| MultiOperation::Delete { path, version })
    }

    /// Sets a node's data if it has this version; `None` for any.
    pub fn set_data(self, path: &str, data: impl Into<Bytes>, version: Option<i32>) -> Self {
        let (data, version) = (Some(data.into()), version.unwrap_or(-1));
        self.push(OpCode::SetData, path, false, |path| MultiOperation::SetData { path, data, version })
    }

    fn push(
        mut self,
        operation: OpCode,
        path: &str,
        is_sequential: bool,
        make: impl FnOnce(String) -> MultiOperation,
    ) -> Self {
        match self.client.server_path(operation, path, is_sequential) {
            Ok(server_path) => {
                self.operations.push(make(server_path));
                self.paths.push(path.to_owned());
            }
            Err(error) => {
                self.refused.get_or_insert(error);
            }
        }
        self
    }

    /// Sends the transaction, and returns what each operation did. The rules for all requests of [`Client`] apply.
    ///
    /// # Errors
    ///
    /// The refusal of the first operation that could not be done, with its path; then no operation took effect. Unknown
    /// if the answer was lost; the transaction may then have taken effect.
    pub fn commit(self) -> impl Future<Output = Result<Vec<TransactionResult>, ClientError>> + Send + use<> {
        let Self { client, operations, paths, refused } = self;
        let call = match refused {
            Some(error) => Err(error),
            None => Ok(client.link().call(&ZkRequest::Multi(operations), "")),
        };
        let client = client.clone();
        async move {
            let results = call?.results().await?;
            if let Some((at, code)) = MultiResult::blamed(&results) {
                let path = paths.get(at).map_or("", String::as_str);
                return Err(ClientError::of_refusal(code, OpCode::Multi, path));
            }
            results.into_iter().map(|result| done(&client, result)).collect()
        }
    }
}

fn done(client: &Client, result: MultiResult) -> Result<TransactionResult, ClientError> {
    Ok(match result {
        MultiResult::Check => TransactionResult::Checked,
        MultiResult::Create { path } | MultiResult::Create2 { path, .. } => {
            TransactionResult::Created(client.client_path(OpCode::Multi, &path)?)
        }
        MultiResult::Delete => TransactionResult::Deleted,
        MultiResult::SetData { stat } => TransactionResult::DataSet(stat),
        _ => return Err(ClientError::unexpected(OpCode::Multi, "")),
    })
}
