//! Asks the service for many nodes: many at a time, and not too many a second.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_zk_proto::message::Request;

use crate::error::ClientError;
use crate::link::{Call, Link};
use crate::lock::inspect::{READS_AT_ONCE_MAX, Said, ask_all};

/// How long a read keeps the next one back: 5,000 reads a second leave a server room for its other clients.
const READ_INTERVAL: Duration = Duration::from_micros(200);

/// How long reads may go on without a rest: a window of them. A rest is not shorter than timers can count.
const REST_MIN: Duration = Duration::from_millis(20);

/// Asks over one session.
pub(super) struct Reader {
    link: Arc<Link>,
    /// What errors say was asked for.
    shown: String,
    /// When what was asked so far has had its time.
    rested_at: BootInstant,
}

impl Reader {
    pub(super) fn new(link: Arc<Link>, shown: String) -> Self {
        let rested_at = link.clock.now();
        Self { link, shown, rested_at }
    }

    /// Waits until all that other clients were told before can be read.
    pub(super) async fn sync(&self, path: &str) -> Result<(), ClientError> {
        self.link.call(&Request::Sync { path: path.to_owned() }, &self.shown).response().await.map(drop)
    }

    /// As [`ask_all`].
    pub(super) async fn ask<Node: Sync, T, Answer: Future<Output = Said<T>> + Send>(
        &mut self,
        nodes: &[Node],
        request: impl Fn(&Node) -> Request + Send + Sync,
        answer: impl Fn(Call) -> Answer + Send + Sync,
    ) -> Result<Vec<Said<T>>, ClientError> {
        let mut answers = Vec::with_capacity(nodes.len());
        for window in nodes.chunks(READS_AT_ONCE_MAX) {
            self.rest(window.len()).await;
            answers.extend(ask_all(&self.link, &self.shown, window, &request, &answer).await?);
        }
        Ok(answers)
    }

    /// Waits until reads before have had their time, and takes that of this many.
    async fn rest(&mut self, reads: usize) {
        let clock = self.link.clock.clone();
        if self.rested_at.saturating_duration_since(clock.now()) >= REST_MIN {
            clock.sleep_until(self.rested_at).await;
        }
        let time = READ_INTERVAL.saturating_mul(u32::try_from(reads).unwrap_or(u32::MAX));
        self.rested_at = self.rested_at.max(clock.now()).saturating_add(time);
    }
}

pub(super) const fn read(path: String) -> Request {
    Request::GetData { path, watch: false }
}

pub(super) const fn list(path: String) -> Request {
    Request::GetChildren { path, watch: false }
}
