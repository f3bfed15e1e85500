//! Requests that change nothing but watches, and the watches that are set again after a reconnect.

use lockkeeper_zk_proto::message::{
    AddWatchMode, ErrorCode, MultiReadOperation, MultiResult, Permissions, SetWatches, WatchEventKind, WatcherEvent,
    ZkRequest, ZkResponse,
};

use crate::auth::{is_permitted, masked_digests};
use crate::machine::dispatch::Requester;
use crate::machine::server::ServerMachine;
use crate::session::ConnectionId;
use crate::tree::TreeNode;

impl ServerMachine {
    /// Answers a request that changes only the caller's watches.
    pub(super) fn read(&mut self, caller: &Requester, request: ZkRequest) -> Result<ZkResponse, ErrorCode> {
        match request {
            ZkRequest::Exists { path, watch } => self.exists(caller, &path, watch),
            ZkRequest::GetData { path, watch } => {
                let node = self.readable(caller, &path)?;
                let (data, stat) = (node.data.clone(), node.stat());
                if watch {
                    self.watches.watch_data(&path, caller.connection);
                }
                Ok(ZkResponse::GetData { data, stat })
            }
            ZkRequest::GetChildren { path, watch } => {
                let children = names(self.readable(caller, &path)?);
                if watch {
                    self.watches.watch_children(&path, caller.connection);
                }
                Ok(ZkResponse::GetChildren { children })
            }
            ZkRequest::GetChildren2 { path, watch } => {
                let node = self.readable(caller, &path)?;
                let (children, stat) = (names(node), node.stat());
                if watch {
                    self.watches.watch_children(&path, caller.connection);
                }
                Ok(ZkResponse::GetChildren2 { children, stat })
            }
            ZkRequest::GetAcl { path } => self.get_acl(caller, &path),
            ZkRequest::MultiRead(operations) => self.multi_read(caller, &operations).map(ZkResponse::Multi),
            ZkRequest::Sync { path } => Ok(ZkResponse::Sync { path }),
            ZkRequest::GetEphemerals { prefix } => Ok(self.get_ephemerals(caller, &prefix)),
            ZkRequest::GetAllChildrenNumber { path } => {
                self.readable(caller, &path)?;
                let total = self.state.tree.descendants_count(&path);
                Ok(ZkResponse::GetAllChildrenNumber { total: i32::try_from(total).unwrap_or(i32::MAX) })
            }
            ZkRequest::WhoAmI => Ok(Self::who_am_i(caller)),
            ZkRequest::SetWatches(wishes) => {
                self.set_watches(caller, &wishes);
                Ok(ZkResponse::Done)
            }
            ZkRequest::AddWatch { path, mode } => {
                self.watches.add(&path, caller.connection, mode);
                Ok(ZkResponse::AddWatch)
            }
            ZkRequest::RemoveWatches { path, kind } => {
                let removed = self.watches.remove(&path, caller.connection, kind);
                removed.then_some(ZkResponse::Done).ok_or(ErrorCode::NoWatcher)
            }
            ZkRequest::CheckWatches { path, kind } => {
                let there = self.watches.contains(&path, caller.connection, kind);
                there.then_some(ZkResponse::Done).ok_or(ErrorCode::NoWatcher)
            }
            ZkRequest::Ping => Ok(ZkResponse::Done),
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    /// Any client may ask whether a node exists; the watch is set even if it does not.
    fn exists(&mut self, caller: &Requester, path: &str, watch: bool) -> Result<ZkResponse, ErrorCode> {
        if path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        if watch {
            self.watches.watch_data(path, caller.connection);
        }
        let node = self.state.tree.get(path).ok_or(ErrorCode::NoNode)?;
        Ok(ZkResponse::Stat(node.stat()))
    }

    fn get_acl(&self, caller: &Requester, path: &str) -> Result<ZkResponse, ErrorCode> {
        let node = self.state.tree.get(path).ok_or(ErrorCode::NoNode)?;
        let may = |wanted| is_permitted(&node.access, wanted, &caller.identities);
        if !may(Permissions::READ | Permissions::ADMIN) {
            return Err(ErrorCode::NoAuth);
        }
        let acl = if may(Permissions::ADMIN) { node.access.to_vec() } else { masked_digests(&node.access) };
        Ok(ZkResponse::GetAcl { acl, stat: node.stat() })
    }

    fn get_ephemerals(&self, caller: &Requester, prefix: &str) -> ZkResponse {
        let is_all = matches!(prefix.trim(), "" | "/");
        let ephemerals = self
            .state
            .tree
            .ephemerals_of(caller.session_id)
            .filter(|path| is_all || path.starts_with(prefix))
            .map(str::to_owned)
            .collect();
        ZkResponse::GetEphemerals { ephemerals }
    }

    /// Performs several reads, while the answers together are not too long.
    fn multi_read(&self, caller: &Requester, operations: &[MultiReadOperation]) -> Result<Vec<MultiResult>, ErrorCode> {
        let mut results = Vec::with_capacity(operations.len());
        let mut bytes = 0;
        for operation in operations {
            let (MultiReadOperation::GetData { path } | MultiReadOperation::GetChildren { path }) = operation;
            let result = self.readable(caller, path).map(|node| match operation {
                MultiReadOperation::GetData { .. } => {
                    bytes += node.data_bytes();
                    MultiResult::GetData { data: node.data.clone(), stat: node.stat() }
                }
                MultiReadOperation::GetChildren { .. } => {
                    bytes += node.children.iter().map(|name| size_of::<String>() + name.len()).sum::<usize>();
                    MultiResult::GetChildren { children: names(node) }
                }
            });
            if bytes > self.settings.limits.multi_read_bytes_max {
                return Err(ErrorCode::ThrottledOp);
            }
            results.push(result.unwrap_or_else(MultiResult::Error));
        }
        Ok(results)
    }

    fn readable(&self, caller: &Requester, path: &str) -> Result<&TreeNode, ErrorCode> {
        let node = self.state.tree.get(path).ok_or(ErrorCode::NoNode)?;
        if is_permitted(&node.access, Permissions::READ, &caller.identities) {
            Ok(node)
        } else {
            Err(ErrorCode::NoAuth)
        }
    }
}

fn names(node: &TreeNode) -> Vec<String> {
    node.children.iter().map(|name| name.to_string()).collect()
}

impl ServerMachine {
    /// Sets watches again. Events that were missed meanwhile are sent at once instead, in the order of the request.
    pub(super) fn set_watches(&mut self, caller: &Requester, wishes: &SetWatches) {
        let since = wishes.relative_zxid;
        for path in &wishes.data {
            match self.state.tree.get(path).map(|node| node.record.mzxid) {
                None => self.tell(caller, WatchEventKind::NodeDeleted, path),
                Some(mzxid) if mzxid > since => self.tell(caller, WatchEventKind::NodeDataChanged, path),
                Some(_) => self.watches.watch_data(path, caller.connection),
            }
        }
        for path in &wishes.exist {
            if self.state.tree.get(path).is_some() {
                self.tell(caller, WatchEventKind::NodeCreated, path);
            } else {
                self.watches.watch_data(path, caller.connection);
            }
        }
        for path in &wishes.child {
            match self.state.tree.get(path).map(|node| node.record.pzxid) {
                None => self.tell(caller, WatchEventKind::NodeDeleted, path),
                Some(pzxid) if pzxid > since => self.tell(caller, WatchEventKind::NodeChildrenChanged, path),
                Some(_) => self.watches.watch_children(path, caller.connection),
            }
        }
        for path in &wishes.persistent {
            self.watches.add(path, caller.connection, AddWatchMode::Persistent);
        }
        for path in &wishes.persistent_recursive {
            self.watches.add(path, caller.connection, AddWatchMode::PersistentRecursive);
        }
    }

    /// Whether a connection's watches take more memory than they may, or it is one of those that fill it altogether.
    pub(super) fn is_over_watch_limit(&self, id: ConnectionId) -> bool {
        let (own, limits) = (self.watches.bytes_of(id), &self.settings.limits);
        own > limits.watch_bytes_per_connection_max || own > 0 && self.watches.bytes() > limits.watch_bytes_max
    }

    fn tell(&mut self, caller: &Requester, kind: WatchEventKind, path: &str) {
        self.send_event(&WatcherEvent::new(kind, path), [caller.connection]);
    }
}
