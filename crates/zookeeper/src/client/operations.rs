//! The requests, one method each. What holds for all of them is in the documentation of [`Client`].

use bytes::Bytes;
use lockkeeper_zk_proto::message::{Acl, Auth, ErrorCode, OpCode, Request, Response, Stat};
use lockkeeper_zk_proto::path::{SequentialPath, ZnodePath};

use crate::client::{Client, Created, NewNode, Watch};
use crate::error::ClientError;
use crate::link::{Call, Fired};

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
            match call?.response().await? {
                Response::Create2 { path: made, stat } => {
                    Ok(Created { path: client.client_path(OpCode::Create2, &made)?, stat })
                }
                _ => Err(ClientError::unexpected(OpCode::Create2, &path)),
            }
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
        let call = self.call(OpCode::Delete, path, |path| Request::Delete { path, version });
        async move { call?.response().await.map(|_| ()) }
    }

    /// Asks whether there is a node: its Stat, or `None`.
    pub fn exists(&self, path: &str) -> impl Future<Output = Result<Option<Stat>, ClientError>> + Send + use<> {
        let call = self.call(OpCode::Exists, path, |path| Request::Exists { path, watch: false });
        let path = path.to_owned();
        async move { existence(call?.response().await, &path) }
    }

    /// Asks whether there is a node, and watches for its creation, change or deletion.
    pub fn exists_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Option<Stat>, Watch), ClientError>> + Send + use<> {
        let call = self.call_watching(OpCode::Exists, path, |path| Request::Exists { path, watch: true });
        let path = path.to_owned();
        async move {
            let (call, fired) = call?;
            let stat = existence(call.response().await, &path)?;
            Ok((stat, Watch::new(fired, OpCode::Exists, path)))
        }
    }

    /// Reads a node's data.
    ///
    /// Refused with `NoNode` or `NoAuth`.
    pub fn get_data(&self, path: &str) -> impl Future<Output = Result<(Bytes, Stat), ClientError>> + Send + use<> {
        let call = self.call(OpCode::GetData, path, |path| Request::GetData { path, watch: false });
        let path = path.to_owned();
        async move { data(call?.response().await?, &path) }
    }

    /// Reads a node's data, and watches for its change or deletion. Without a node there is no watch.
    ///
    /// Refused with `NoNode` or `NoAuth`.
    pub fn get_data_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Bytes, Stat, Watch), ClientError>> + Send + use<> {
        let call = self.call_watching(OpCode::GetData, path, |path| Request::GetData { path, watch: true });
        let path = path.to_owned();
        async move {
            let (call, fired) = call?;
            let (data, stat) = data(call.response().await?, &path)?;
            Ok((data, stat, Watch::new(fired, OpCode::GetData, path)))
        }
    }

    /// Lists a node's children, in no order.
    ///
    /// Refused with `NoNode` or `NoAuth`.
    pub fn get_children(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<String>, Stat), ClientError>> + Send + use<> {
        let call = self.call(OpCode::GetChildren2, path, |path| Request::GetChildren2 { path, watch: false });
        let path = path.to_owned();
        async move { children(call?.response().await?, &path) }
    }

    /// Lists a node's children, and watches for a change of their set. Without a node there is no watch.
    ///
    /// Refused with `NoNode` or `NoAuth`.
    pub fn get_children_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<String>, Stat, Watch), ClientError>> + Send + use<> {
        let call = self.call_watching(OpCode::GetChildren2, path, |path| Request::GetChildren2 { path, watch: true });
        let path = path.to_owned();
        async move {
            let (call, fired) = call?;
            let (children, stat) = children(call.response().await?, &path)?;
            Ok((children, stat, Watch::new(fired, OpCode::GetChildren2, path)))
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
        let call = self.call(OpCode::SetData, path, |path| Request::SetData { path, data, version });
        let path = path.to_owned();
        async move { stat(call?.response().await?, OpCode::SetData, &path) }
    }

    /// Reads a node's access list.
    ///
    /// Refused with `NoNode` or `NoAuth`.
    pub fn get_acl(&self, path: &str) -> impl Future<Output = Result<(Vec<Acl>, Stat), ClientError>> + Send + use<> {
        let call = self.call(OpCode::GetAcl, path, |path| Request::GetAcl { path });
        let path = path.to_owned();
        async move {
            match call?.response().await? {
                Response::GetAcl { acl, stat } => Ok((acl, stat)),
                _ => Err(ClientError::unexpected(OpCode::GetAcl, &path)),
            }
        }
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
        let call = self.call(OpCode::SetAcl, path, |path| Request::SetAcl { path, acl, version });
        let path = path.to_owned();
        async move { stat(call?.response().await?, OpCode::SetAcl, &path) }
    }

    /// Has the server catch up with its leader. Reads asked for after it see what was acknowledged before.
    pub fn sync(&self, path: &str) -> impl Future<Output = Result<(), ClientError>> + Send + use<> {
        let call = self.call(OpCode::Sync, path, |path| Request::Sync { path });
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
        let chroot = self.link().chroot();
        let server_path = match is_sequential {
            true => SequentialPath::parse(path).map(|path| chroot.join_sequential(&path).into()),
            false => ZnodePath::parse(path).map(|path| chroot.join(&path).into()),
        };
        server_path.map_err(|error| ClientError::invalid_path(operation, path, &error))
    }

    /// The client's path for one that the server sent.
    pub(super) fn client_path(&self, operation: OpCode, path: &str) -> Result<String, ClientError> {
        match self.link().chroot().strip(path) {
            Ok(Some(path)) => Ok(path.into()),
            Ok(None) | Err(_) => Err(ClientError::unexpected(operation, path)),
        }
    }

    fn call(
        &self,
        operation: OpCode,
        path: &str,
        request: impl FnOnce(String) -> Request,
    ) -> Result<Call, ClientError> {
        let server_path = self.server_path(operation, path, false)?;
        Ok(self.link().call(&request(server_path), path))
    }

    fn call_watching(
        &self,
        operation: OpCode,
        path: &str,
        request: impl FnOnce(String) -> Request,
    ) -> Result<(Call, Fired), ClientError> {
        let server_path = self.server_path(operation, path, false)?;
        Ok(self.link().call_watching(&request(server_path), path))
    }
}

fn existence(response: Result<Response, ClientError>, path: &str) -> Result<Option<Stat>, ClientError> {
    match response {
        Ok(response) => stat(response, OpCode::Exists, path).map(Some),
        Err(error) if error.is(ErrorCode::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

fn stat(response: Response, operation: OpCode, path: &str) -> Result<Stat, ClientError> {
    match response {
        Response::Stat(stat) => Ok(stat),
        _ => Err(ClientError::unexpected(operation, path)),
    }
}

fn data(response: Response, path: &str) -> Result<(Bytes, Stat), ClientError> {
    match response {
        Response::GetData { data, stat } => Ok((data.unwrap_or_default(), stat)),
        _ => Err(ClientError::unexpected(OpCode::GetData, path)),
    }
}

fn children(response: Response, path: &str) -> Result<(Vec<String>, Stat), ClientError> {
    match response {
        Response::GetChildren2 { children, stat } => Ok((children, stat)),
        _ => Err(ClientError::unexpected(OpCode::GetChildren2, path)),
    }
}
