//! Several changes that take effect together or not at all.

use bytes::Bytes;
use lockkeeper_zk_proto::message::{CreateMode, MultiOperation, MultiResult, OpCode, Request, Stat};

use crate::client::{Client, NewNode};
use crate::error::ClientError;

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
            None => Ok(client.link().call(&Request::Multi(operations), "")),
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
