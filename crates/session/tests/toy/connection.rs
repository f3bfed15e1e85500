//! One connection to the toy's server: questions go out in the order of the calls, and each has its answer.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use lockkeeper_core::BoxFuture;
use lockkeeper_session::{Effect, Failure, Lookable, Server};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value as Json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};

/// A connection, used by a separate task.
pub(crate) struct Connection {
    server: Server,
    out: mpsc::UnboundedSender<String>,
    waiting: Arc<Waiting>,
    is_over: watch::Sender<bool>,
}

/// The questions that were not answered.
#[derive(Default)]
struct Waiting(Mutex<Questions>);

#[derive(Default)]
struct Questions {
    last: u64,
    asked: HashMap<u64, oneshot::Sender<Json>>,
    /// Whether no answer comes any more.
    is_over: bool,
}

impl Waiting {
    /// Nothing panics while it is locked.
    fn locked(&self) -> MutexGuard<'_, Questions> {
        self.0.lock()
    }
}

impl Connection {
    pub(crate) async fn open(server: &Server) -> Result<Self, Failure> {
        let stream = TcpStream::connect((server.name.as_str(), server.port)).await;
        let stream = stream.map_err(|error| Failure::unreachable("cannot be reached", error).at(server))?;
        let (reader, mut writer) = stream.into_split();
        let (out, mut lines) = mpsc::unbounded_channel::<String>();
        let waiting = Arc::<Waiting>::default();
        let is_over = watch::Sender::new(false);
        let (answers, over) = (waiting.clone(), is_over.clone());
        tokio::spawn(async move {
            let reading = async {
                let mut read = BufReader::new(reader).lines();
                while let Ok(Some(line)) = read.next_line().await {
                    let Ok(answer) = serde_json::from_str::<Json>(&line) else { return };
                    let asked = answer["n"].as_u64().and_then(|n| answers.locked().asked.remove(&n));
                    // The caller may have gone.
                    asked.map(|asked| asked.send(answer));
                }
            };
            let writing = async {
                while let Some(line) = lines.recv().await {
                    if writer.write_all(line.as_bytes()).await.is_err() {
                        return;
                    }
                }
            };
            let mut is_shut = over.subscribe();
            tokio::select! {
                () = reading => {}
                () = writing => {}
                _ = is_shut.wait_for(|is_shut| *is_shut) => {}
            }
            over.send_replace(true);
            let mut answers = answers.locked();
            answers.is_over = true;
            answers.asked.clear();
        });
        Ok(Self { server: server.clone(), out, waiting, is_over })
    }

    /// Asks; what is asked stands in the connection's line before this returns.
    pub(crate) fn ask(&self, mut question: Json) -> BoxFuture<Result<Json, Failure>> {
        let mut waiting = self.waiting.locked();
        if waiting.is_over {
            return Box::pin(std::future::ready(Err(Failure::broken(Effect::None))));
        }
        waiting.last += 1;
        question["n"] = waiting.last.into();
        let (answer, answered) = oneshot::channel();
        let number = waiting.last;
        waiting.asked.insert(number, answer);
        // The task takes the questions out when it ends.
        let _ = self.out.send(format!("{question}\n"));
        Box::pin(async move { answered.await.map_err(|_| Failure::broken(Effect::Unknown)) })
    }

    /// Waits until nothing can be sent over it any more.
    pub(crate) async fn over(&self) {
        let _ = self.is_over.subscribe().wait_for(|is_over| *is_over).await;
    }
}

impl Lookable for Connection {
    fn is_over(&self) -> bool {
        *self.is_over.borrow()
    }

    fn shut(&self) {
        self.is_over.send_replace(true);
    }

    fn server(&self) -> &Server {
        &self.server
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shut();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Connection").field(&self.server).finish()
    }
}
