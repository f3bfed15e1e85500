//! Requests that change nodes: whether they are allowed, in the order in which Apache asks; and transactions of several
//! of them, which all take effect under one number, or none does.

use bytes::Bytes;
use lockkeeper_zk_proto::message::{
    Acl, Create, CreateMode, ErrorCode, MultiOperation, MultiResult, OpCode, Permissions, Stat, ZkRequest, ZkResponse,
};
use lockkeeper_zk_proto::path::{format_sequence, validate_path};

use crate::auth::{complete_access_list, is_permitted};
use crate::machine::dispatch::Requester;
use crate::machine::io::ClockReading;
use crate::machine::server::{AppliedChange, ServerMachine};
use crate::tree::{NodeOwner, TTL_MS_MAX, TreeChange, TreeNode, Undo, is_system_path, split_parent};

const ANY_VERSION: i32 = -1;
/// The time to live of a request without one.
const NO_TTL: i64 = -1;

impl ServerMachine {
    /// Makes one change in a separate transaction.
    pub(super) fn write_one(
        &mut self,
        moment: ClockReading,
        caller: &Requester,
        request: ZkRequest,
    ) -> Result<ZkResponse, ErrorCode> {
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
            OpCode::Create => ZkResponse::Create { path: path.into() },
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                ZkResponse::Create2 { path: path.into(), stat }
            }
            OpCode::SetData | OpCode::SetAcl => ZkResponse::Stat(stat),
            _ => ZkResponse::Done,
        })
    }

    fn allow(&mut self, caller: &Requester, request: ZkRequest) -> Result<TreeChange, ErrorCode> {
        match request {
            ZkRequest::Create(create) | ZkRequest::Create2(create) => {
                self.allow_create(caller, create, CreateKind::Plain)
            }
            ZkRequest::CreateContainer(create) => self.allow_create(caller, create, CreateKind::Container),
            ZkRequest::CreateTtl { create, ttl_ms } => self.allow_create(caller, create, CreateKind::Ttl(ttl_ms)),
            ZkRequest::Delete { path, version } => self.allow_delete(caller, path, version),
            ZkRequest::SetData { path, data, version } => self.allow_set_data(caller, path, data, version),
            ZkRequest::SetAcl { path, acl, version } => self.allow_set_acl(caller, path, acl, version),
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

/// The answer to an operation when all of them took effect.
#[derive(Clone, Copy, Debug)]
enum StepAnswer {
    Create,
    Create2,
    Delete,
    SetData,
}

impl ServerMachine {
    /// Does all operations or none; each sees what those before it did.
    pub(super) fn multi(
        &mut self,
        moment: ClockReading,
        caller: &Requester,
        operations: Vec<MultiOperation>,
    ) -> Result<Vec<MultiResult>, ErrorCode> {
        let zxid = self.take_zxid();
        let count = operations.len();
        let (mut done, mut undos, mut results) = (Vec::new(), Vec::new(), Vec::with_capacity(count));
        for operation in operations {
            match self.step(moment, caller, operation, zxid, &mut done, &mut undos) {
                Ok(result) => results.push(result),
                Err(error) => {
                    undos.into_iter().rev().for_each(|undo| self.state.tree.undo(undo));
                    return match error {
                        ErrorCode::MarshallingError => Err(error),
                        _ => Ok(failed(count, results.len(), error)),
                    };
                }
            }
        }
        // A transaction that only checks changes nothing, so there is nothing to store.
        if !done.is_empty() {
            self.publish(moment, zxid, done);
        }
        Ok(results)
    }

    /// Does one operation, noting the change and how to take it back.
    fn step(
        &mut self,
        moment: ClockReading,
        caller: &Requester,
        operation: MultiOperation,
        zxid: i64,
        done: &mut Vec<AppliedChange>,
        undos: &mut Vec<Undo>,
    ) -> Result<MultiResult, ErrorCode> {
        let Some((change, answer)) = self.allow_step(caller, operation)? else {
            return Ok(MultiResult::Check);
        };
        let path = match &change {
            TreeChange::Create { path, .. } | TreeChange::SetData { path, .. } => path.clone(),
            _ => Box::default(),
        };
        let (one, undo) = self.apply(moment, zxid, change).map_err(|_| ErrorCode::DataInconsistency)?;
        done.push(one);
        undos.push(undo);
        Ok(match answer {
            StepAnswer::Create => MultiResult::Create { path: path.into() },
            StepAnswer::Create2 => MultiResult::Create2 { stat: self.stat_of(&path), path: path.into() },
            StepAnswer::Delete => MultiResult::Delete,
            StepAnswer::SetData => MultiResult::SetData { stat: self.stat_of(&path) },
        })
    }

    /// The change an operation asks for and how it is answered; `None` for a check that holds.
    fn allow_step(
        &mut self,
        caller: &Requester,
        operation: MultiOperation,
    ) -> Result<Option<(TreeChange, StepAnswer)>, ErrorCode> {
        Ok(Some(match operation {
            MultiOperation::CreateTtl { create, ttl_ms } if create.mode.has_ttl() => {
                (self.allow_create(caller, create, CreateKind::Ttl(ttl_ms))?, StepAnswer::Create2)
            }
            // Within a transaction the mode decides in 3.8, not which of the requests it was, and the answer to a plain
            // creation never has a Stat.
            MultiOperation::Create(create)
            | MultiOperation::Create2(create)
            | MultiOperation::CreateContainer(create)
            | MultiOperation::CreateTtl { create, .. } => {
                if create.mode.has_ttl() {
                    // Apache fails here in a way that fails the request and not the transaction.
                    return Err(ErrorCode::MarshallingError);
                }
                let is_container = create.mode == CreateMode::Container;
                let (kind, answer) = if is_container {
                    (CreateKind::Container, StepAnswer::Create2)
                } else {
                    (CreateKind::Plain, StepAnswer::Create)
                };
                (self.allow_create(caller, create, kind)?, answer)
            }
            MultiOperation::Delete { path, version } => (self.allow_delete(caller, path, version)?, StepAnswer::Delete),
            MultiOperation::SetData { path, data, version } => {
                (self.allow_set_data(caller, path, data, version)?, StepAnswer::SetData)
            }
            MultiOperation::Check { path, version } => {
                self.allow_check(caller, &path, version)?;
                return Ok(None);
            }
        }))
    }
}

/// The results of a transaction that failed at the operation `at`: that one has the error, those before it say OK
/// without having taken effect, those after it were not tried.
fn failed(count: usize, at: usize, error: ErrorCode) -> Vec<MultiResult> {
    let code = |index: usize| match index.cmp(&at) {
        std::cmp::Ordering::Less => ErrorCode::Ok,
        std::cmp::Ordering::Equal => error,
        std::cmp::Ordering::Greater => ErrorCode::RuntimeInconsistency,
    };
    (0..count).map(|index| MultiResult::Error(code(index))).collect()
}
