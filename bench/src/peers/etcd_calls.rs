//! The calls of other clients' locks on etcd, over the transport that ours uses.
//!
//! They are those of Go's `clientv3/concurrency`: a transaction that stores the contender's key and finds the first
//! one, and a deletion. `etcdctl lock` grants a lease before, and revokes it afterwards. Its keepalive and the look at
//! its key, which it prints, are left out.

use std::net::SocketAddr;

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

#[path = "../../../crates/etcd/src/proto.rs"]
#[allow(dead_code, reason = "other clients use fewer messages")]
mod proto;

use crate::load::Outcome;
use proto::{
    Compare, CompareResult, CompareTarget, DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest,
    LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse, OpRequest as Operation, PutRequest, RangeRequest,
    RequestOp, TargetUnion, TxnRequest, TxnResponse,
};

/// etcd's number for the order in which the first key is the least.
const ASCENDING: i32 = 1;

/// Its number for the order of the keys' creation.
const BY_CREATION: i32 = 2;

/// The time of a lease, in seconds: that of `etcdctl lock`.
const TTL: i64 = 60;

/// A client that makes these calls.
#[derive(Debug)]
pub(crate) struct EtcdCalls {
    grpc: Grpc<Channel>,
    /// The lease of a session that stays open.
    lease: i64,
}

impl EtcdCalls {
    pub(crate) async fn open(address: SocketAddr) -> Outcome<Self> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
        let mut calls = Self { grpc: Grpc::new(channel), lease: 0 };
        calls.lease = calls.grant().await?;
        Ok(calls)
    }

    /// A mutex of `clientv3/concurrency`, under a session that stands.
    pub(crate) async fn mutex(&mut self) -> Outcome<()> {
        self.lock_and_unlock("mutex", self.lease).await
    }

    /// `etcdctl lock`: a session for one lock.
    pub(crate) async fn etcdctl(&mut self) -> Outcome<()> {
        let lease = self.grant().await?;
        self.lock_and_unlock("etcdctl", lease).await?;
        let _: LeaseRevokeResponse =
            self.ask("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest { id: lease }).await?;
        Ok(())
    }

    async fn grant(&mut self) -> Result<i64, Status> {
        let granted: LeaseGrantResponse =
            self.ask("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl: TTL, id: 0 }).await?;
        Ok(granted.id)
    }

    async fn lock_and_unlock(&mut self, name: &str, lease: i64) -> Outcome<()> {
        let key = format!("{name}/{lease:x}").into_bytes();
        let first = RangeRequest {
            key: format!("{name}/").into_bytes(),
            range_end: format!("{name}0").into_bytes(),
            limit: 1,
            sort_order: ASCENDING,
            sort_target: BY_CREATION,
            ..RangeRequest::default()
        };
        let is_absent = Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Create.into(),
            key: key.clone(),
            target_union: Some(TargetUnion::CreateRevision(0)),
            ..Compare::default()
        };
        let put = PutRequest { key: key.clone(), lease, ..PutRequest::default() };
        let own = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        let operation = |request| RequestOp { request: Some(request) };
        let request = TxnRequest {
            compare: vec![is_absent],
            success: vec![operation(Operation::Put(put)), operation(Operation::Range(first.clone()))],
            failure: vec![operation(Operation::Range(own)), operation(Operation::Range(first))],
        };
        let answer: TxnResponse = self.ask("/etcdserverpb.KV/Txn", request).await?;
        if !answer.succeeded {
            return Err("another client has the lock".into());
        }
        let deletion = DeleteRangeRequest { key };
        let _: DeleteRangeResponse = self.ask("/etcdserverpb.KV/DeleteRange", deletion).await?;
        Ok(())
    }

    async fn ask<Q: Message + 'static, A: Message + Default + 'static>(
        &mut self,
        path: &'static str,
        request: Q,
    ) -> Result<A, Status> {
        self.grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let codec = ProstCodec::<Q, A>::default();
        let answer = self.grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec).await?;
        Ok(answer.into_inner())
    }
}
