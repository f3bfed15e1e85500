//! Asks a server about itself by four-letter words: Apache's, or any other server that answers them.
//!
//! `words` parses the answers.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time;

use super::words::{self, Connection, Counts, Packets};
use crate::wait::ANSWERED_WITHIN;
use crate::{Error, Result};

/// The most that an answer may hold: `cons` and `wchp` grow with the sessions.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// The role of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// It has no peers.
    Standalone,
    /// It leads an ensemble.
    Leader,
    /// It follows a leader.
    Follower,
    /// It follows without a vote.
    Observer,
}

/// What a server says about itself: its role, its clients, and its own counts. Each question is an error where the
/// server does not answer, or does not serve: it is starting, or has lost its leader.
#[derive(Clone, Copy, Debug)]
pub struct ServerWords {
    address: SocketAddr,
}

impl ServerWords {
    /// For the server at `address`, which need not be there yet.
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Where clients reach it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its role now.
    pub async fn role(&self) -> Result<Role> {
        words::role(&self.four_letter_word("srvr").await?)
    }

    /// Packets it has received from and sent to clients since it started. Each four-letter word adds to both.
    pub async fn packets(&self) -> Result<Packets> {
        words::packets(&self.four_letter_word("srvr").await?)
    }

    /// One of the numbers of `mntr`, such as `zk_watch_count`; the names are ZooKeeper's.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        words::metric(&self.four_letter_word("mntr").await?, name)
    }

    /// The connections of its clients (`cons`), with packets for each; that of the question itself is among them.
    pub async fn connections(&self) -> Result<Vec<Connection>> {
        words::connections(&self.four_letter_word("cons").await?)
    }

    /// How many watches its clients have on it (`mntr`): on data and on children, where `wchs` counts those on data
    /// alone.
    pub async fn watches(&self) -> Result<u64> {
        self.counts().await.map(|counts| counts.watches)
    }

    /// The ephemeral nodes and the session of each (`dump`), as pairs of session and path.
    pub async fn ephemerals(&self) -> Result<Vec<(u64, String)>> {
        words::ephemerals(&self.four_letter_word("dump").await?)
    }

    /// Its own counts (`mntr`), all of one moment. The question adds a packet received, and one sent after the
    /// counting.
    pub async fn counts(&self) -> Result<Counts> {
        words::counts(&self.four_letter_word("mntr").await?)
    }

    /// The watches of its clients on data (`wchp`), as pairs of path and session. Curator's own on `/zookeeper/config`
    /// are among them; those on children are not.
    pub async fn watched(&self) -> Result<Vec<(String, u64)>> {
        words::watched(&self.four_letter_word("wchp").await?)
    }

    /// The paths of the ephemeral nodes that lie below `path` (`dump`), sorted.
    pub async fn ephemerals_under(&self, path: &str) -> Result<Vec<String>> {
        let start = format!("{}/", path.trim_end_matches('/'));
        let found = self.ephemerals().await?.into_iter().map(|(_, path)| path);
        let mut found: Vec<String> = found.filter(|path| path.starts_with(&start)).collect();
        found.sort();
        Ok(found)
    }

    /// Asks it one of ZooKeeper's four-letter words.
    ///
    /// # Cancellation
    ///
    /// Dropping the future closes the connection.
    pub async fn four_letter_word(&self, word: &str) -> Result<String> {
        let asking = async {
            let mut stream = TcpStream::connect(self.address).await?;
            stream.write_all(word.as_bytes()).await?;
            let mut answer = String::new();
            stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await?;
            Ok(answer)
        };
        let asked = format!("{word} of {}", self.address);
        time::timeout(ANSWERED_WITHIN, asking)
            .await
            .map_err(|_| Error::new(format!("{asked}: no answer within {ANSWERED_WITHIN:?}")))?
            .map_err(Error::io(asked))
    }
}
