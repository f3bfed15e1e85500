//! The stream that keeps one lease alive: a request, an answer, one at a time.

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Effect, Failure};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::proto::{LeaseKeepAliveRequest, LeaseKeepAliveResponse};
use crate::rpc::connection::Connection;
use crate::rpc::failure::of_status;

const PATH: &str = "/etcdserverpb.Lease/LeaseKeepAlive";

/// How many requests can be on their way: one, since the next is sent after the answer.
const REQUESTS_MAX: usize = 1;

/// The stream of one lease on one connection.
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
