//! Requests that change nodes: whether they are allowed, in the order in which Apache asks.

use bytes::Bytes;
use lockkeeper_zk_proto::message::{Acl, Create, CreateMode, ErrorCode, OpCode, Permissions, Request, Response, Stat};
use lockkeeper_zk_proto::path::{format_sequence, validate_path};

use crate::auth::{complete_access_list, is_permitted};
use crate::machine::dispatch::Requester;
use crate::machine::io::ClockReading;
use crate::machine::server::ServerMachine;
use crate::tree::{NodeOwner, TTL_MS_MAX, TreeChange, TreeNode, is_system_path, split_parent};

/// A version that any node has.
const ANY_VERSION: i32 = -1;
/// The time to live of a request without one.
const NO_TTL: i64 = -1;

impl ServerMachine {
    /// Makes one change in a separate transaction.
    pub(super) fn write_one(
        &mut self,
        moment: ClockReading,
        caller: &Requester,
        request: Request,
    ) -> Result<Response, ErrorCode> {
        let opcode = request.opcode();
        let change = match self.allow(caller, request) {
            Ok(change) => change,
            Err(error) => {
                // A refused write is a transaction too: it went through the same order as all others.
                self.take_zxid();
                return Err(error);
            }
        };
        let path = match &change {
            TreeChange::Create { path, .. } | TreeChange::SetData { path, .. } | TreeChange::SetAccess { path, .. } => {
                path.clone()
            }
            _ => Box::default(),
        };
        self.commit_one(moment, change);
        let stat = self.stat_of(&path);
        Ok(match opcode {
            OpCode::Create => Response::Create { path: path.into() },
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Response::Create2 { path: path.into(), stat }
            }
            OpCode::SetData | OpCode::SetAcl => Response::Stat(stat),
            _ => Response::Done,
        })
    }

    /// The change a request asks for, if it is allowed.
    fn allow(&mut self, caller: &Requester, request: Request) -> Result<TreeChange, ErrorCode> {
        match request {
            Request::Create(create) | Request::Create2(create) => self.allow_create(caller, create, CreateKind::Plain),
            Request::CreateContainer(create) => self.allow_create(caller, create, CreateKind::Container),
            Request::CreateTtl { create, ttl_ms } => self.allow_create(caller, create, CreateKind::Ttl(ttl_ms)),
            Request::Delete { path, version } => self.allow_delete(caller, path, version),
            Request::SetData { path, data, version } => self.allow_set_data(caller, path, data, version),
            Request::SetAcl { path, acl, version } => self.allow_set_acl(caller, path, acl, version),
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    pub(super) fn allow_create(
        &mut self,
        caller: &Requester,
        create: Create,
        kind: CreateKind,
    ) -> Result<TreeChange, ErrorCode> {
        let Create { path, data, acl, mode } = create;
        let owner = kind.owner(mode, caller.session_id)?;
        let (parent_path, _) = split_parent(&path).ok_or(ErrorCode::BadArguments)?;
        if path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let access = complete_access_list(acl, &caller.identities)?;
        let parent = self.node(parent_path)?;
        permit(parent, Permissions::CREATE, caller)?;
        let path = if mode.is_sequential() {
            format!("{path}{}", format_sequence(parent.record.children_created))
        } else {
            path
        };
        validate_path(&path).map_err(|_| ErrorCode::BadArguments)?;
        if self.state.tree.get(&path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(parent.record.owner, NodeOwner::Session(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        self.check_room(data.as_ref())?;
        Ok(TreeChange::Create {
            path: path.into(),
            data: data.map(owned),
            access: self.state.tree.share_access(access),
            owner,
        })
    }

    pub(super) fn allow_delete(&self, caller: &Requester, path: String, version: i32) -> Result<TreeChange, ErrorCode> {
        let (parent_path, _) = split_parent(&path).ok_or(ErrorCode::BadArguments)?;
        if path.contains('\0') || is_system_path(&path) {
            return Err(ErrorCode::BadArguments);
        }
        permit(self.node(parent_path)?, Permissions::DELETE, caller)?;
        let node = self.node(&path)?;
        check_version(version, node.record.version)?;
        if !node.children.is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        Ok(TreeChange::Delete { path: path.into() })
    }

    pub(super) fn allow_set_data(
        &self,
        caller: &Requester,
        path: String,
        data: Option<Bytes>,
        version: i32,
    ) -> Result<TreeChange, ErrorCode> {
        validate_path(&path).map_err(|_| ErrorCode::BadArguments)?;
        let node = self.node(&path)?;
        permit(node, Permissions::WRITE, caller)?;
        self.check_room(data.as_ref())?;
        check_version(version, node.record.version)?;
        Ok(TreeChange::SetData { path: path.into(), data: data.map(owned) })
    }

    pub(super) fn allow_check(&self, caller: &Requester, path: &str, version: i32) -> Result<(), ErrorCode> {
        validate_path(path).map_err(|_| ErrorCode::BadArguments)?;
        let node = self.node(path)?;
        permit(node, Permissions::READ, caller)?;
        check_version(version, node.record.version)
    }

    /// What clients are told of a node that is there.
    pub(super) fn stat_of(&self, path: &str) -> Stat {
        self.state.tree.get(path).map(TreeNode::stat).unwrap_or_default()
    }

    fn allow_set_acl(
        &mut self,
        caller: &Requester,
        path: String,
        acl: Vec<Acl>,
        version: i32,
    ) -> Result<TreeChange, ErrorCode> {
        validate_path(&path).map_err(|_| ErrorCode::BadArguments)?;
        let access = complete_access_list(acl, &caller.identities)?;
        let node = self.node(&path)?;
        permit(node, Permissions::ADMIN, caller)?;
        check_version(version, node.record.aversion)?;
        Ok(TreeChange::SetAccess { path: path.into(), access: self.state.tree.share_access(access) })
    }

    fn node(&self, path: &str) -> Result<&TreeNode, ErrorCode> {
        self.state.tree.get(path).ok_or(ErrorCode::NoNode)
    }

    fn check_room(&self, data: Option<&Bytes>) -> Result<(), ErrorCode> {
        let needed = self.state.tree.memory_bytes() + data.map_or(0, Bytes::len);
        if needed > self.settings.limits.tree_bytes_max {
            return Err(ErrorCode::QuotaExceeded);
        }
        Ok(())
    }
}

/// Which of the create requests it is; the request, not the mode, decides what the node's life depends on.
#[derive(Clone, Copy, Debug)]
pub(super) enum CreateKind {
    Plain,
    Container,
    Ttl(i64),
}

impl CreateKind {
    /// What the node's life depends on, if mode and time to live go together.
    fn owner(self, mode: CreateMode, session_id: i64) -> Result<NodeOwner, ErrorCode> {
        let ttl_ms = match self {
            Self::Ttl(ttl_ms) => ttl_ms,
            Self::Plain | Self::Container => NO_TTL,
        };
        if mode.has_ttl() != (ttl_ms >= 0) || mode.has_ttl() && !is_ttl(ttl_ms) {
            return Err(ErrorCode::BadArguments);
        }
        Ok(match self {
            Self::Ttl(ttl_ms) if mode.has_ttl() => NodeOwner::Ttl(ttl_ms),
            Self::Ttl(_) => return Err(ErrorCode::BadArguments),
            Self::Container => NodeOwner::Container,
            Self::Plain if mode.is_ephemeral() => NodeOwner::Session(session_id),
            Self::Plain => NodeOwner::Nothing,
        })
    }
}

/// Whether a time to live fits into the owner field of a node.
fn is_ttl(ttl_ms: i64) -> bool {
    (1..=TTL_MS_MAX).contains(&ttl_ms)
}

fn permit(node: &TreeNode, wanted: Permissions, caller: &Requester) -> Result<(), ErrorCode> {
    if is_permitted(&node.access, wanted, &caller.identities) { Ok(()) } else { Err(ErrorCode::NoAuth) }
}

const fn check_version(expected: i32, actual: i32) -> Result<(), ErrorCode> {
    if expected == ANY_VERSION || expected == actual { Ok(()) } else { Err(ErrorCode::BadVersion) }
}

/// A separate copy: a slice would keep the whole frame it came in.
fn owned(data: Bytes) -> Bytes {
    Bytes::copy_from_slice(&data)
}
