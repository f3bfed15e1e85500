//! Requests: ranges, conditions and transactions made of keys, and the path and the answer of each call. Pure.

use prost::Message;

use lockkeeper_session::Failure;

use crate::proto::{
    AuthenticateRequest, AuthenticateResponse, Compare, CompareResult, CompareTarget, DeleteRangeRequest,
    LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse, MemberListRequest,
    MemberListResponse, OpRequest, OpResponse, PutRequest, RangeRequest, RangeResponse, RequestOp, ResponseHeader,
    ResponseOp, StatusRequest, StatusResponse, TargetUnion, TxnRequest, TxnResponse,
};

/// The end of the range of all keys that begin with `prefix`.
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // All keys from here on.
    vec![0]
}

pub(crate) fn key_range(key: impl Into<Vec<u8>>) -> RangeRequest {
    RangeRequest { key: key.into(), ..RangeRequest::default() }
}

pub(crate) fn prefix_range(prefix: impl Into<Vec<u8>>) -> RangeRequest {
    let key = prefix.into();
    let range_end = prefix_end(&key);
    RangeRequest { key, range_end, ..RangeRequest::default() }
}

/// Writes a key that goes with a lease; 0 is none.
pub(crate) fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>, lease: i64) -> RequestOp {
    operation(OpRequest::Put(PutRequest { key: key.into(), value: value.into(), lease, ignore_lease: false }))
}

pub(crate) fn delete(key: impl Into<Vec<u8>>) -> RequestOp {
    operation(OpRequest::DeleteRange(DeleteRangeRequest { key: key.into() }))
}

/// Groups several operations as one, since the server limits their number side by side.
pub(crate) fn group(operations: Vec<RequestOp>) -> RequestOp {
    operation(OpRequest::Txn(txn(Vec::new(), operations, Vec::new())))
}

pub(crate) const fn operation(request: OpRequest) -> RequestOp {
    RequestOp { request: Some(request) }
}

impl From<RangeRequest> for RequestOp {
    fn from(range: RangeRequest) -> Self {
        operation(OpRequest::Range(range))
    }
}

pub(crate) const fn txn(compare: Vec<Compare>, success: Vec<RequestOp>, failure: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { compare, success, failure }
}

pub(crate) fn absent(key: impl Into<Vec<u8>>) -> Compare {
    created_at(key, 0)
}

pub(crate) fn exists(key: impl Into<Vec<u8>>) -> Compare {
    Compare { result: CompareResult::Greater.into(), ..created_at(key, 0) }
}

/// Reads the answer to a range among those of a transaction.
pub(crate) fn range_of(answer: &ResponseOp) -> Result<&RangeResponse, Failure> {
    match &answer.response {
        Some(OpResponse::Range(range)) => Ok(range),
        _ => Err(Failure::unexpected()),
    }
}

/// The key was created at this revision; 0 says that it is not there.
pub(crate) fn created_at(key: impl Into<Vec<u8>>, revision: i64) -> Compare {
    compare(key, CompareTarget::Create, TargetUnion::CreateRevision(revision))
}

/// The key was last written at this revision; 0 says that it is not there.
pub(crate) fn modified_at(key: impl Into<Vec<u8>>, revision: i64) -> Compare {
    compare(key, CompareTarget::Mod, TargetUnion::ModRevision(revision))
}

fn compare(key: impl Into<Vec<u8>>, target: CompareTarget, value: TargetUnion) -> Compare {
    let result = CompareResult::Equal.into();
    Compare { result, target: target.into(), key: key.into(), target_union: Some(value), range_end: Vec::new() }
}

pub(crate) trait UnaryCall: Message + 'static {
    type Answer: Message + Default + Unpin + 'static;

    const PATH: &'static str;
}

/// An answer that says at which revision, and in which term of raft, it was given.
pub(crate) trait RevisionAnswer {
    fn header(&self) -> Option<ResponseHeader>;
}

impl RevisionAnswer for RangeResponse {
    fn header(&self) -> Option<ResponseHeader> {
        self.header
    }
}

impl RevisionAnswer for TxnResponse {
    fn header(&self) -> Option<ResponseHeader> {
        self.header
    }
}

impl UnaryCall for RangeRequest {
    type Answer = RangeResponse;
    const PATH: &'static str = "/etcdserverpb.KV/Range";
}

impl UnaryCall for TxnRequest {
    type Answer = TxnResponse;
    const PATH: &'static str = "/etcdserverpb.KV/Txn";
}

impl UnaryCall for LeaseGrantRequest {
    type Answer = LeaseGrantResponse;
    const PATH: &'static str = "/etcdserverpb.Lease/LeaseGrant";
}

impl UnaryCall for LeaseRevokeRequest {
    type Answer = LeaseRevokeResponse;
    const PATH: &'static str = "/etcdserverpb.Lease/LeaseRevoke";
}

impl UnaryCall for StatusRequest {
    type Answer = StatusResponse;
    const PATH: &'static str = "/etcdserverpb.Maintenance/Status";
}

impl UnaryCall for MemberListRequest {
    type Answer = MemberListResponse;
    const PATH: &'static str = "/etcdserverpb.Cluster/MemberList";
}

impl UnaryCall for AuthenticateRequest {
    type Answer = AuthenticateResponse;
    const PATH: &'static str = "/etcdserverpb.Auth/Authenticate";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_lies_behind_all_keys_with_it_and_before_all_others() {
        for (prefix, end) in [(&b"a/"[..], &b"a0"[..]), (b"a\xff", b"b"), (b"\xff\xff", b"\0"), (b"", b"\0")] {
            assert_eq!(prefix_end(prefix), end);
        }
    }
}
