//! Asking the service: requests are measured, sent, put off and taken back, and watches are dropped.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::client::{ClientSession, RequestId, SubmitError};
use lockkeeper_zk_proto::frame::{FRAME_BYTES_DEFAULT_MAX, FrameError};
use lockkeeper_zk_proto::message::{AddWatchMode, Auth, OpCode, ZkRequest, encode_request};
use lockkeeper_zk_proto::time::Timestamp;
use lockkeeper_zk_proto::watch::WatchId;
use tokio::sync::oneshot;

use crate::error::ClientError;
use crate::link::call::{ClientCall, Synced, WatchWait};
use crate::link::session::SessionLink;
use crate::link::state::{Happening, LinkState, OnEach, OnFire, OnReply, RequestOutcome, Then, Watcher};

/// One of the machine's ways of taking a request on.
type Submit = fn(&mut ClientSession, &ZkRequest, Option<Timestamp>) -> Result<RequestId, SubmitError>;

impl SessionLink {
    /// Sends a request. It is on its way when this returns; dropping the call before it was sent takes it back.
    pub(crate) fn call(self: &Arc<Self>, request: &ZkRequest, path: &str) -> ClientCall {
        self.begin(request, path, Some(self.operation_time_max), None, ClientSession::submit)
    }

    /// Sends a sync for this node and a read behind it.
    pub(crate) fn call_synced(self: &Arc<Self>, node: &str, read: &ZkRequest, path: &str) -> Synced {
        let sync = self.call(&ZkRequest::Sync { path: node.to_owned() }, path);
        Synced { sync, read: self.call(read, path) }
    }

    /// As [`call`], for a request that makes one node: it may leave as one transaction with deletions that
    /// are not written yet, and is answered as by [`ClientSession::submit_creation`].
    pub(crate) fn call_creation(self: &Arc<Self>, request: &ZkRequest, path: &str) -> ClientCall {
        self.begin(request, path, Some(self.operation_time_max), None, ClientSession::submit_creation)
    }

    /// Sends a request that is never given up while the session lives.
    pub(crate) fn call_without_deadline(self: &Arc<Self>, request: &ZkRequest, path: &str) -> ClientCall {
        self.begin(request, path, None, None, ClientSession::submit)
    }

    /// Sends a request that goes before all unwritten ones, and is never kept back: the session is proved in
    /// time under any load. Its caller waits for the answer before it sends another.
    pub(crate) fn submit_ahead(
        &self,
        request: &ZkRequest,
        path: &str,
        on_reply: OnReply,
    ) -> Result<RequestId, ClientError> {
        self.enter(request, path, Some(self.timeout()), on_reply, None, ClientSession::submit_ahead)
    }

    /// As [`submit_ahead`](Self::submit_ahead), but the caller waits for the answer.
    pub(crate) fn call_ahead(self: &Arc<Self>, request: &ZkRequest, path: &str) -> ClientCall {
        self.begin(request, path, Some(self.timeout()), None, ClientSession::submit_ahead)
    }

    /// As [`call`], for requests that go out one behind the other, with answers that are told where they
    /// arrive, as [`submit`](Self::submit) does. All are taken on, or none.
    pub(crate) fn submit_all(
        &self,
        mut requests: Vec<(ZkRequest, OnReply)>,
        path: &str,
    ) -> Result<Vec<RequestId>, ClientError> {
        for (request, _) in &requests {
            check(request, path)?;
        }
        let time_max = self.operation_time_max;
        self.take_on(|state, now| {
            let mut ids = Vec::with_capacity(requests.len());
            for (request, _) in &requests {
                match state.machine.submit(request, Some(now.after(time_max))) {
                    Ok(id) => ids.push(id),
                    Err(error) => {
                        // Nothing was sent in between.
                        for id in ids {
                            state.machine.cancel(id);
                        }
                        return Err(ClientError::of_submission(error, request.opcode(), path));
                    }
                }
            }
            for (&id, (request, on_reply)) in ids.iter().zip(requests.drain(..)) {
                state.expect_reply(id, request.opcode(), now, on_reply, None);
            }
            Ok(ids)
        })
    }

    /// Puts requests behind all others, in their order, as if they were made now, if none of them is written yet;
    /// answers whether it was so. Otherwise it changes nothing.
    pub(crate) fn postpone_all(&self, ids: &[RequestId]) -> bool {
        let deadline = self.now().after(self.operation_time_max);
        !ids.is_empty() && self.state().machine.postpone_all(ids, Some(deadline))
    }

    /// Sends a request that sets a watch, and waits for its event besides.
    pub(crate) fn call_watching(self: &Arc<Self>, request: &ZkRequest, path: &str) -> (ClientCall, WatchWait) {
        let (notice, event) = oneshot::channel();
        let on_fire = Box::new(move |happening: Happening| {
            // The waiting caller may have given up.
            let _ = notice.send(happening);
        });
        let watcher = Some(Watcher::Once(on_fire));
        let call = self.begin(request, path, Some(self.operation_time_max), watcher, ClientSession::submit);
        let fired = WatchWait::new(self.clone(), call.watch(), event);
        (call, fired)
    }

    /// Watches a node that need not be there, and all below it, for as long as the session lives. What changes while
    /// there is no connection stays unknown: after each reconnection all must be read again. Refused as
    /// [`ErrorCode::Unimplemented`](lockkeeper_zk_proto::message::ErrorCode::Unimplemented) by servers before 3.6.
    pub(crate) fn watch_below(self: &Arc<Self>, path: &str, on_each: OnEach) -> ClientCall {
        let request = ZkRequest::AddWatch { path: path.to_owned(), mode: AddWatchMode::PersistentRecursive };
        let watcher = Some(Watcher::Each(on_each));
        self.begin(&request, path, Some(self.operation_time_max), watcher, ClientSession::submit)
    }

    fn begin(
        self: &Arc<Self>,
        request: &ZkRequest,
        path: &str,
        deadline: Option<Duration>,
        watcher: Option<Watcher>,
        submit: Submit,
    ) -> ClientCall {
        let (answer, answered) = oneshot::channel();
        let submitted = self.enter(request, path, deadline, tell(answer), watcher, submit);
        ClientCall::new(self.clone(), submitted, answered, request.opcode(), path)
    }

    /// Authenticates, on this connection and each later one.
    pub(crate) fn call_auth(self: &Arc<Self>, auth: Auth) -> ClientCall {
        let (answer, answered) = oneshot::channel();
        let submitted = self.take_on(|state, now| {
            let added = state.machine.add_auth(auth);
            let id = added.map_err(|error| ClientError::of_submission(error, OpCode::Auth, ""))?;
            state.expect_reply(id, OpCode::Auth, now, tell(answer), None);
            Ok(id)
        });
        ClientCall::new(self.clone(), submitted, answered, OpCode::Auth, "")
    }

    /// Sends a request that is never given up, and whose answer and event are handled where they arrive, under the lock
    /// and in the order of arrival, by functions that must be quick and must not call back into this type.
    pub(crate) fn submit(
        &self,
        request: &ZkRequest,
        path: &str,
        on_reply: OnReply,
        on_fire: Option<OnFire>,
    ) -> Result<RequestId, ClientError> {
        self.enter(request, path, None, on_reply, on_fire.map(Watcher::Once), ClientSession::submit)
    }

    /// Sends a deletion of a node in any version, which is never given up while the session lives, and goes before all
    /// other requests that are not written yet, together with other deletions. Its answer is handled as those of
    /// [`submit`](Self::submit) are.
    pub(crate) fn submit_deletion(&self, node: &str, path: &str, on_reply: OnReply) -> Result<RequestId, ClientError> {
        let request = ZkRequest::Delete { path: node.to_owned(), version: -1 };
        let submit: Submit = |machine, request, _| match request {
            ZkRequest::Delete { path, .. } => machine.submit_deletion(path),
            other => machine.submit(other, None),
        };
        self.enter(&request, path, None, on_reply, None, submit)
    }

    fn enter(
        &self,
        request: &ZkRequest,
        path: &str,
        deadline: Option<Duration>,
        on_reply: OnReply,
        watcher: Option<Watcher>,
        submit: Submit,
    ) -> Result<RequestId, ClientError> {
        check(request, path)?;
        self.take_on(|state, now| {
            let submitted = submit(&mut state.machine, request, deadline.map(|deadline| now.after(deadline)));
            let id = submitted.map_err(|error| ClientError::of_submission(error, request.opcode(), path))?;
            state.expect_reply(id, request.opcode(), now, on_reply, watcher);
            Ok(id)
        })
    }

    /// Hands requests to the machine, and wakes the driver to send them.
    fn take_on<T>(&self, submit: impl FnOnce(&mut LinkState, Timestamp) -> T) -> T {
        let now = self.now();
        let submitted = self.with(|state| submit(state, now));
        self.wake.notify_one();
        submitted
    }

    /// Takes a request back if it was not sent; otherwise its answer is dropped.
    pub(super) fn cancel(&self, id: RequestId) {
        self.with(|state| {
            if state.pending.contains_key(&id.number()) && state.machine.cancel(id) {
                state.pending.remove(&id.number());
            }
        });
    }

    /// Drops a watch that no caller waits for any more, set or still being set.
    pub(super) fn unwatch(&self, watch: WatchId) {
        let was_set = self.with(|state| state.forget_watch(watch));
        if was_set {
            self.wake.notify_one();
        }
    }
}

fn check(request: &ZkRequest, path: &str) -> Result<(), ClientError> {
    check_length(request)
        .map_err(|error| ClientError::of_submission(SubmitError::TooLarge(error), request.opcode(), path))
}

fn tell(answer: oneshot::Sender<RequestOutcome>) -> OnReply {
    Box::new(move |outcome| match answer.send(outcome) {
        Ok(()) => Then::Done,
        Err(_) => Then::Unwanted,
    })
}

/// The longest request that is sent, in bytes: what servers take by default (`jute.maxbuffer`). They close the
/// connection on a longer one.
const REQUEST_BYTES_MAX: usize = FRAME_BYTES_DEFAULT_MAX;

/// What a request takes besides its paths and its data, in bytes; generously.
const REQUEST_OVERHEAD_BYTES: usize = 1024;

fn check_length(request: &ZkRequest) -> Result<(), FrameError> {
    let bulk = match request {
        ZkRequest::Create(create) | ZkRequest::Create2(create) | ZkRequest::CreateContainer(create) => {
            create.path.len() + create.data.as_ref().map_or(0, Bytes::len) + create.acl.len() * REQUEST_OVERHEAD_BYTES
        }
        ZkRequest::SetData { path, data, .. } => path.len() + data.as_ref().map_or(0, Bytes::len),
        ZkRequest::Delete { path, .. }
        | ZkRequest::Exists { path, .. }
        | ZkRequest::GetData { path, .. }
        | ZkRequest::GetChildren { path, .. }
        | ZkRequest::GetChildren2 { path, .. }
        | ZkRequest::Sync { path } => path.len(),
        // Seldom asked for, so that they can be measured.
        _ => REQUEST_BYTES_MAX,
    };
    match bulk.saturating_add(REQUEST_OVERHEAD_BYTES) <= REQUEST_BYTES_MAX {
        true => Ok(()),
        false => encode_request(0, request, REQUEST_BYTES_MAX).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_zk_proto::message::{Acl, Create, CreateMode};

    use super::*;

    fn create(data_bytes: usize) -> ZkRequest {
        let data = Some(Bytes::from(vec![0; data_bytes]));
        let (path, acl, mode) = ("/a".to_owned(), vec![Acl::open()], CreateMode::Persistent);
        ZkRequest::Create2(Create { path, data, acl, mode })
    }

    #[test]
    fn a_request_is_refused_from_the_first_byte_that_servers_do_not_take() {
        let fixed = encode_request(0, &create(0), REQUEST_BYTES_MAX).unwrap().len() - size_of::<i32>();
        let most = REQUEST_BYTES_MAX - fixed;
        assert!(check_length(&create(most)).is_ok());
        assert_eq!(check_length(&create(most + 1)).unwrap_err().length_max(), REQUEST_BYTES_MAX);
    }

    #[test]
    fn a_transaction_and_a_path_are_measured_too() {
        let multi =
            vec![lockkeeper_zk_proto::message::MultiOperation::Delete { path: "/a".repeat(600_000), version: -1 }];
        assert!(check_length(&ZkRequest::Multi(multi)).is_err());
        assert!(check_length(&ZkRequest::Sync { path: "/a".repeat(600_000) }).is_err());
        assert!(check_length(&ZkRequest::Ping).is_ok());
    }
}
