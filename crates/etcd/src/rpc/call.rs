//! The match of requests and answers, and the path of each request.

use prost::Message;

use crate::proto::{
    AuthenticateRequest, AuthenticateResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, MemberListRequest, MemberListResponse, RangeRequest, RangeResponse, ResponseHeader,
    StatusRequest, StatusResponse, TxnRequest, TxnResponse,
};

/// A request that is answered once.
pub(crate) trait Call: Message + 'static {
    type Answer: Message + Default + Unpin + 'static;

    /// The path of the call, as HTTP/2 carries it.
    const PATH: &'static str;
}

/// An answer that says at which revision, and in which term of raft, it was given.
pub(crate) trait Answer {
    fn header(&self) -> Option<ResponseHeader>;
}

impl Answer for RangeResponse {
    fn header(&self) -> Option<ResponseHeader> {
        self.header
    }
}

impl Answer for TxnResponse {
    fn header(&self) -> Option<ResponseHeader> {
        self.header
    }
}

impl Call for RangeRequest {
    type Answer = RangeResponse;
    const PATH: &'static str = "/etcdserverpb.KV/Range";
}

impl Call for TxnRequest {
    type Answer = TxnResponse;
    const PATH: &'static str = "/etcdserverpb.KV/Txn";
}

impl Call for LeaseGrantRequest {
    type Answer = LeaseGrantResponse;
    const PATH: &'static str = "/etcdserverpb.Lease/LeaseGrant";
}

impl Call for LeaseRevokeRequest {
    type Answer = LeaseRevokeResponse;
    const PATH: &'static str = "/etcdserverpb.Lease/LeaseRevoke";
}

impl Call for StatusRequest {
    type Answer = StatusResponse;
    const PATH: &'static str = "/etcdserverpb.Maintenance/Status";
}

impl Call for MemberListRequest {
    type Answer = MemberListResponse;
    const PATH: &'static str = "/etcdserverpb.Cluster/MemberList";
}

impl Call for AuthenticateRequest {
    type Answer = AuthenticateResponse;
    const PATH: &'static str = "/etcdserverpb.Auth/Authenticate";
}
