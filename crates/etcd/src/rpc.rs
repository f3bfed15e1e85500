//! Calls over one connection: one socket to one member, which is never opened again, and the stream that keeps a lease
//! alive.
//!
//! The channel would connect anew by itself, and requests would then reach another server state without a word. So its
//! connector gives it one socket, and fails from then on. Which member, and what is done when a connection is lost, is
//! left to `session` and to the backend.
//!
//! - `request`: what is asked. `watches`: all watches of a connection. `failure`: why a call fails.

mod failure;
mod request;
mod watches;

pub(crate) use failure::{is_turned_away, no_room};
pub(crate) use request::{
    RevisionAnswer, UnaryCall, absent, created_at, delete, exists, group, key_range, modified_at, operation,
    prefix_end, prefix_range, put, range_of, txn,
};
pub(crate) use watches::{KeyEvent, KeyWatch, KeyWatches, Subscriber, WatchRange};

use std::sync::Arc;

use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{
    AnswerMeter, Asking, Closer, Effect, Failure, FailureKind, Lookable, Server, Socket, answered, connect_tcp,
    in_time, until,
};
use parking_lot::Mutex;
use prost::Message;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::proto::{AuthenticateRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, RangeRequest};
use crate::rpc::failure::{Gone, for_lack_of, of_first_call, of_status};
use crate::url::{EtcdAccess, EtcdCredentials};

/// The longest answer, in bytes: a queue of a hundred thousand contenders, without their data, has a fifth of it.
const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(crate) struct Connection {
    server: Server,
    channel: Channel,
    meter: Arc<AnswerMeter>,
    /// Closes the socket from here.
    closer: Closer,
    is_over: watch::Receiver<bool>,
    clock: Arc<dyn Clock>,
    token: Option<MetadataValue<Ascii>>,
    rights: Arc<str>,
}

impl Connection {
    /// Connects, and makes sure that the other end is a member of an etcd cluster.
    pub(crate) async fn open_for_looks(
        server: &Server,
        access: &EtcdAccess,
        clock: &Arc<dyn Clock>,
        deadline: BootInstant,
    ) -> Result<Self, Failure> {
        let connection = Self::open(server, access, clock, deadline).await?;
        // Any port accepts a connection. Only a member answers this; what it answers does not matter.
        let probe =
            RangeRequest { key: vec![0], limit: 1, keys_only: true, serializable: true, ..RangeRequest::default() };
        match connection.call(probe, deadline).await {
            Ok(_) => Ok(connection),
            // Users read below the base alone; that is checked where it is read.
            Err(failure) if failure.kind == FailureKind::Refused && access.credentials.is_some() => Ok(connection),
            Err(failure) => Err(connection.of_first_call(failure, access)),
        }
    }

    /// Connects. Any port accepts a connection: what is on the other end shows itself at the first call.
    pub(crate) async fn open(
        server: &Server,
        access: &EtcdAccess,
        clock: &Arc<dyn Clock>,
        deadline: BootInstant,
    ) -> Result<Self, Failure> {
        let opening = async {
            let mut connection = Self::connect(server, access, clock).await.map_err(|failure| failure.at(server))?;
            if let Some(EtcdCredentials { user, password }) = &access.credentials {
                let request = AuthenticateRequest { name: user.clone(), password: password.clone() };
                let answer = connection.call(request, deadline).await;
                let token = answer.map_err(|failure| connection.of_first_call(failure, access))?.token;
                let token = token.parse().map_err(|_| Failure::unexpected().at(server))?;
                connection.token = Some(token);
            }
            Ok(connection)
        };
        until(&**clock, deadline, Effect::None, opening).await.map_err(|failure| failure.at(server))
    }

    async fn connect(server: &Server, access: &EtcdAccess, clock: &Arc<dyn Clock>) -> Result<Self, Failure> {
        let unreachable = |error: std::io::Error| Failure::unreachable("cannot be reached", error);
        let stream = connect_tcp(server).await.map_err(unreachable)?;
        let closer = stream.closer().map_err(unreachable)?;
        let socket = Socket::of(stream, "etcd");
        #[cfg(feature = "tls")]
        let socket = match &access.tls {
            Some(tls) => socket.secure(tls, server).await?,
            None => socket,
        };
        let (meter, is_over) = (socket.meter(), socket.meter().is_over());
        let only = Mutex::new(Some(socket));
        let connector = service_fn(move |_: Uri| {
            let socket = only.lock().take();
            std::future::ready(socket.map(TokioIo::new).ok_or(Gone))
        });
        let endpoint = endpoint(server, access).map_err(|error| Failure::unreachable("has no usable name", error))?;
        let connected = endpoint.connect_with_connector(connector).await;
        let channel = connected.map_err(|error| meter.judge(Failure::unreachable("cannot be used", error)))?;
        let (server, clock, rights) = (server.clone(), clock.clone(), access.rights.clone());
        Ok(Self { server, channel, meter, closer, is_over, clock, token: None, rights })
    }

    /// Says that the first call found no answer. Until then a connection to a server that speaks otherwise, or that
    /// refuses our certificate, looks like any other.
    pub(crate) fn of_first_call(&self, failure: Failure, access: &EtcdAccess) -> Failure {
        of_first_call(self.meter.judge(failure), &self.server, access)
    }

    /// Asks, and waits for the answer until the deadline. Dropping the future does not take the request back: one that
    /// is given up would be reset, and etcd 3.5.0 to 3.5.6 can crash if that is a transaction that only reads
    /// (etcd-io/etcd#14110, #14891).
    pub(crate) async fn call<C: UnaryCall>(&self, request: C, deadline: BootInstant) -> Result<C::Answer, Failure> {
        let (channel, request) = (self.channel.clone(), self.request(request));
        let (is_over, clock) = (self.is_over.clone(), self.clock.clone());
        let asking = async move {
            let path = PathAndQuery::from_static(C::PATH);
            let mut grpc = grpc(channel).await?;
            let asking = grpc.unary(request, path, ProstCodec::<C, C::Answer>::default());
            let answer = answered(asking, is_over, &*clock).await.ok_or_else(|| Failure::broken(Effect::Unknown))?;
            answer.map(tonic::Response::into_inner).map_err(of_status)
        };
        let asking = Asking::begin(asking, Handle::current());
        in_time(&*self.clock, deadline, asking).await.map_err(|failure| for_lack_of(failure, &self.rights))
    }

    /// Opens a stream in both directions. It is answered only after the first request, which must be there already.
    async fn stream<Q: Message + 'static, R: Message + Default + 'static>(
        &self,
        path: &'static str,
        requests: impl Stream<Item = Q> + Send + 'static,
        deadline: BootInstant,
    ) -> Result<Streaming<R>, Failure> {
        let asking = async {
            let mut grpc = grpc(self.channel.clone()).await?;
            let path = PathAndQuery::from_static(path);
            let asking = grpc.streaming(self.request(requests), path, ProstCodec::<Q, R>::default());
            let answer = answered(asking, self.is_over.clone(), &*self.clock).await;
            answer.ok_or_else(|| Failure::broken(Effect::Unknown))?.map(tonic::Response::into_inner).map_err(of_status)
        };
        in_time(&*self.clock, deadline, asking).await.map_err(|failure| for_lack_of(failure, &self.rights))
    }

    fn request<Q>(&self, message: Q) -> Request<Q> {
        let mut request = Request::new(message);
        // A member that has lost its leader then says so, also to streams, and does not leave them silent.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    pub(crate) async fn over(&self) {
        let mut is_over = self.is_over.clone();
        // An error says that the socket was dropped.
        let _ = is_over.wait_for(|&is_over| is_over).await;
    }
}

impl Lookable for Connection {
    fn is_over(&self) -> bool {
        *self.is_over.borrow()
    }

    fn shut(&self) {
        self.closer.close();
    }

    fn server(&self) -> &Server {
        &self.server
    }
}

async fn grpc(channel: Channel) -> Result<Grpc<Channel>, Failure> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    // It must be asked before each call. An error says that the channel takes no requests any more.
    let ready = grpc.ready().await;
    ready.map_err(|error| of_status(Status::from_error(Box::new(error))))?;
    Ok(grpc)
}

/// Where requests go. The driver does not know of TLS, which lies below; but a member takes the certificate of a client
/// for its user only if its requests say that they are secured.
fn endpoint(server: &Server, access: &EtcdAccess) -> Result<Endpoint, tonic::transport::Error> {
    let authority = Server::new(&server.name, server.port);
    let endpoint = Endpoint::from_shared(format!("http://{authority}"))?;
    match format!("https://{authority}").parse() {
        Ok(origin) if access.is_secured => Ok(endpoint.origin(origin)),
        _ => Ok(endpoint),
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shut();
    }
}

const PATH: &str = "/etcdserverpb.Lease/LeaseKeepAlive";

/// How many requests can be on their way: one, since the next is sent after the answer.
const REQUESTS_MAX: usize = 1;

pub(crate) struct KeepAlive {
    lease: i64,
    requests: mpsc::Sender<LeaseKeepAliveRequest>,
    answers: Streaming<LeaseKeepAliveResponse>,
}

impl KeepAlive {
    /// Opens the stream with a first request; returns its answer too.
    pub(crate) async fn open(
        connection: &Connection,
        lease: i64,
        deadline: BootInstant,
    ) -> Result<(Self, LeaseKeepAliveResponse), Failure> {
        let (requests, sent) = mpsc::channel(REQUESTS_MAX);
        let first = requests.send(LeaseKeepAliveRequest { id: lease });
        first.await.map_err(|_| Failure::broken(Effect::None))?;
        let answers = connection.stream(PATH, ReceiverStream::new(sent), deadline).await?;
        let mut stream = Self { lease, requests, answers };
        let answer = stream.answer().await?;
        Ok((stream, answer))
    }

    /// Renews the lease. The caller ends the wait; after that the stream is of no use.
    pub(crate) async fn renew(&mut self) -> Result<LeaseKeepAliveResponse, Failure> {
        let request = LeaseKeepAliveRequest { id: self.lease };
        self.requests.send(request).await.map_err(|_| Failure::broken(Effect::None))?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<LeaseKeepAliveResponse, Failure> {
        let answer = self.answers.message().await.map_err(of_status)?;
        answer.ok_or_else(|| Failure::broken(Effect::Unknown))
    }
}
