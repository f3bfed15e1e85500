//! The requests, one method each, and one-shot watches as futures. What holds for all requests is in the documentation
//! of [`Client`].

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use lockkeeper_zk_proto::message::{Acl, Auth, OpCode, Stat, WatchEventKind, ZkRequest, ZkResponse};
use lockkeeper_zk_proto::path::{SequentialPath, ZnodePath};

use crate::client::changes::{Created, NewNode};
use crate::client::handle::Client;
use crate::error::ClientError;
use crate::link::{ClientCall, WatchWait, if_there};

impl Client {
    /// Makes a node.
    ///
    /// Refused with `NodeExists`, with `NoNode` if there is no parent, or with `NoAuth`.
    pub fn create(&self, node: NewNode) -> impl Future<Output = Result<Created, ClientError>> + Send + use<> {
        let path = node.path.clone();
        let call = self.server_path(OpCode::Create2, &path, node.is_sequential()).map(|server_path| {
            let request = node.into_request(server_path);
            self.link().call(&request, &path)
        });
        let client = self.clone();
        async move {
            let (made, stat) = call?.created().await?;
            Ok(Created { path: client.client_path(OpCode::Create2, &made)?, stat })
        }
    }

    /// Deletes a node if it has this version; `None` for any.
    ///
    /// Refused with `NoNode`, `BadVersion`, `NotEmpty` or `NoAuth`.
    pub fn delete(
        &self,
        path: &str,
        version: Option<i32>,
    ) -> impl Future<Output = Result<(), ClientError>> + Send + use<> {
        let version = version.unwrap_or(-1);
        let call = self.call(OpCode::Delete, path, |path| ZkRequest::Delete { path, version });
        async move { call?.response().await.map(|_| ()) }
    }

    /// Asks whether there is a node: its Stat, or `None`.
    pub fn exists(&self, path: &str) -> impl Future<Output = Result<Option<Stat>, ClientError>> + Send + use<> {
        let call = self.call(OpCode::Exists, path, |path| ZkRequest::Exists { path, watch: false });
        async move { if_there(call?.stat().await) }
    }

    /// Asks whether there is a node, and watches for its creation, change or deletion.
    pub fn exists_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Option<Stat>, NodeWatch), ClientError>> + Send + use<> {
        let call = self.call_watching(OpCode::Exists, path, |path| ZkRequest::Exists { path, watch: true });
        async move {
            let (call, watch) = call?;
            Ok((if_there(call.stat().await)?, watch))
        }
    }

    /// Reads a node's data.
    ///
    /// Refused with `NoNode` or `NoAuth`.
    pub fn get_data(&self, path: &str) -> impl Future<Output = Result<(Bytes, Stat), ClientError>> + Send + use<> {
        let call = self.call(OpCode::GetData, path, |path| ZkRequest::GetData { path, watch: false });
        async move { call?.data().await }
    }

    /// Reads a node's data, and watches for its change or deletion. Without a node there is no watch.
    ///
    /// Refused with `NoNode` or `NoAuth`.
    pub fn get_data_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Bytes, Stat, NodeWatch), ClientError>> + Send + use<> {
        let call = self.call_watching(OpCode::GetData, path, |path| ZkRequest::GetData { path, watch: true });
        async move {
            let (call, watch) = call?;
            let (data, stat) = call.data().await?;
            Ok((data, stat, watch))
        }
    }

    /// Lists a node's children, in no order.
    ///
    /// Refused with `NoNode` or `NoAuth`.
    pub fn get_children(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<String>, Stat), ClientError>> + Send + use<> {
        let call = self.call(OpCode::GetChildren2, path, |path| ZkRequest::GetChildren2 { path, watch: false });
        async move { call?.read(children).await }
    }

    /// Lists a node's children, and watches for a change of their set. Without a node there is no watch.
    ///
    /// Refused with `NoNode` or `NoAuth`.
    pub fn get_children_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<String>, Stat, NodeWatch), ClientError>> + Send + use<> {
        let call = self.call_watching(OpCode::GetChildren2, path, |path| ZkRequest::GetChildren2 { path, watch: true });
        async move {
            let (call, watch) = call?;
            let (children, stat) = call.read(children).await?;
            Ok((children, stat, watch))
        }
    }

    /// Sets a node's data if it has this version; `None` for any.
    ///
    /// Refused with `NoNode`, `BadVersion` or `NoAuth`.
    pub fn set_data<Data: Into<Bytes>>(
        &self,
        path: &str,
        data: Data,
        version: Option<i32>,
    ) -> impl Future<Output = Result<Stat, ClientError>> + Send + use<Data> {
        let (data, version) = (Some(data.into()), version.unwrap_or(-1));
        let call = self.call(OpCode::SetData, path, |path| ZkRequest::SetData { path, data, version });
        async move { call?.stat().await }
    }

    /// Reads a node's access list.
    ///
    /// Refused with `NoNode` or `NoAuth`.
    pub fn get_acl(&self, path: &str) -> impl Future<Output = Result<(Vec<Acl>, Stat), ClientError>> + Send + use<> {
        let call = self.call(OpCode::GetAcl, path, |path| ZkRequest::GetAcl { path });
        let read = |response| match response {
            ZkResponse::GetAcl { acl, stat } => Some((acl, stat)),
            _ => None,
        };
        async move { call?.read(read).await }
    }

    /// Sets a node's access list if its access version is this; `None` for any.
    ///
    /// Refused with `NoNode`, `BadVersion`, `InvalidACL` or `NoAuth`.
    pub fn set_acl(
        &self,
        path: &str,
        acl: Vec<Acl>,
        version: Option<i32>,
    ) -> impl Future<Output = Result<Stat, ClientError>> + Send + use<> {
        let version = version.unwrap_or(-1);
        let call = self.call(OpCode::SetAcl, path, |path| ZkRequest::SetAcl { path, acl, version });
        async move { call?.stat().await }
    }

    /// Has the server catch up with its leader. Later reads see all changes that any client knew before.
    pub fn sync(&self, path: &str) -> impl Future<Output = Result<(), ClientError>> + Send + use<> {
        let call = self.call(OpCode::Sync, path, |path| ZkRequest::Sync { path });
        async move { call?.response().await.map(|_| ()) }
    }

    /// Authenticates this session, on this connection and each later one.
    ///
    /// It goes before all requests that are not sent yet. If the connection is lost, it is done on the next one; it is
    /// done even if the future is dropped.
    ///
    /// # Errors
    ///
    /// The end of the session, if the credentials are refused; a limit, if there are too many.
    pub fn add_auth(
        &self,
        scheme: &str,
        credentials: &[u8],
    ) -> impl Future<Output = Result<(), ClientError>> + Send + use<> {
        let credentials = Bytes::copy_from_slice(credentials);
        let call = self.link().call_auth(Auth { scheme: scheme.to_owned(), credentials });
        async move { call.response().await.map(|_| ()) }
    }

    /// The path as the server knows it.
    pub(super) fn server_path(
        &self,
        operation: OpCode,
        path: &str,
        is_sequential: bool,
    ) -> Result<String, ClientError> {
        let chroot = &self.link().chroot;
        let server_path = match is_sequential {
            true => SequentialPath::parse(path).map(|path| chroot.join_sequential(&path).into()),
            false => ZnodePath::parse(path).map(|path| chroot.join(&path).into()),
        };
        server_path.map_err(|error| ClientError::invalid_path(operation, path, &error))
    }

    /// The client's path for one that the server sent.
    pub(super) fn client_path(&self, operation: OpCode, path: &str) -> Result<String, ClientError> {
        match self.link().chroot.strip(path) {
            Ok(Some(path)) => Ok(path.into()),
            Ok(None) | Err(_) => Err(ClientError::unexpected(operation, path)),
        }
    }

    fn call(
        &self,
        operation: OpCode,
        path: &str,
        request: impl FnOnce(String) -> ZkRequest,
    ) -> Result<ClientCall, ClientError> {
        let server_path = self.server_path(operation, path, false)?;
        Ok(self.link().call(&request(server_path), path))
    }

    fn call_watching(
        &self,
        operation: OpCode,
        path: &str,
        request: impl FnOnce(String) -> ZkRequest,
    ) -> Result<(ClientCall, NodeWatch), ClientError> {
        let server_path = self.server_path(operation, path, false)?;
        let (call, fired) = self.link().call_watching(&request(server_path), path);
        Ok((call, NodeWatch::new(fired, operation, path.to_owned())))
    }
}

fn children(response: ZkResponse) -> Option<(Vec<String>, Stat)> {
    match response {
        ZkResponse::GetChildren2 { children, stat } => Some((children, stat)),
        _ => None,
    }
}

/// What a watch saw. It does not tell what happened afterwards: read again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeEvent {
    /// The path that was watched.
    pub path: String,
    /// What happened there.
    pub kind: WatchEventKind,
}

/// A watch that was set: a future of the one event that ends it. Dropping it removes the watch.
///
/// A watch outlives connections: a change between two of them comes after the next handshake. It fails when
/// the session is over.
#[derive(Debug)]
#[must_use = "dropping it removes the watch"]
pub struct NodeWatch {
    fired: WatchWait,
    operation: OpCode,
    path: String,
}

impl NodeWatch {
    pub(super) fn new(fired: WatchWait, operation: OpCode, path: String) -> Self {
        Self { fired, operation, path }
    }
}

impl Future for NodeWatch {
    type Output = Result<NodeEvent, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.fired).poll(context)) {
            Some(happening) => Ok(NodeEvent { path: self.path.clone(), kind: happening.kind }),
            None => Err(ClientError::session_lost(self.operation, &self.path)),
        })
    }
}
