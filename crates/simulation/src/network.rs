//! The way between a machine and the server: each connection delays what it carries, in order. Connections delay
//! unequally, so what was sent on one overtakes what was sent on another. A way can be cut, or be dead in one
//! direction.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_conformance::Random;
use lockkeeper_core::BoxFuture;
use lockkeeper_zookeeper::{Dial, Server, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, split};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::machine::Machine;
use crate::service::SimulatedService;

/// How much is under way on a connection, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// How many pieces are under way each way of a connection; what reads them takes no more until one has arrived.
const PIECES_MAX: usize = 1024;

/// What is wrong with a way now.
#[derive(Clone, Copy, Debug, Default)]
struct Condition {
    /// How many faults let no connection be.
    cut: u32,
    /// How many of them there were: each ends the connections that were there.
    cuts: u32,
    /// How many faults keep what is sent to the server.
    mute: u32,
    /// How many faults keep what is sent to the machine.
    deaf: u32,
    /// What every message takes longer.
    delay: Duration,
}

/// The way between a machine and the server. Its clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    machine: Machine,
    service: SimulatedService,
    condition: Arc<watch::Sender<Condition>>,
    latency: (Duration, Duration),
    chance: Arc<Mutex<Random>>,
}

impl Way {
    pub(crate) fn new(
        machine: Machine,
        service: SimulatedService,
        latency: (Duration, Duration),
        chance: Random,
    ) -> Self {
        Self { machine, service, condition: Arc::default(), latency, chance: Arc::new(Mutex::new(chance)) }
    }

    /// Ends all connections, and lets no other be made until [`Way::heal_cut`].
    pub(crate) fn cut(&self) {
        self.condition.send_modify(|condition| {
            condition.cut += 1;
            condition.cuts += 1;
        });
    }

    pub(crate) fn heal_cut(&self) {
        self.condition.send_modify(|condition| condition.cut -= 1);
    }

    /// Ends all connections, as the end of the server does.
    pub(crate) fn reset(&self) {
        self.condition.send_modify(|condition| condition.cuts += 1);
    }

    pub(crate) fn set_mute(&self, is_on: bool) {
        self.condition.send_modify(|condition| count(&mut condition.mute, is_on));
    }

    pub(crate) fn set_deaf(&self, is_on: bool) {
        self.condition.send_modify(|condition| count(&mut condition.deaf, is_on));
    }

    pub(crate) fn slow_by(&self, delay: Duration) {
        self.condition.send_modify(|condition| condition.delay += delay);
    }

    pub(crate) fn no_longer_slow_by(&self, delay: Duration) {
        self.condition.send_modify(|condition| condition.delay -= delay);
    }

    /// How long the next message takes.
    fn takes(&self) -> Duration {
        let (least, greatest) = self.latency;
        let span = u64::try_from((greatest - least).as_micros()).expect("a latency is short");
        let mut chance = self.chance.lock().expect("nothing panics while it is locked");
        least + Duration::from_micros(chance.below(span + 1)) + self.condition.borrow().delay
    }

    async fn until(&self, is_so: impl Fn(&Condition) -> bool + Send + Sync) {
        let mut condition = self.condition.subscribe();
        condition.wait_for(|condition| is_so(condition)).await.expect("it is kept here");
    }

    async fn connect(self) -> io::Result<Box<dyn Stream>> {
        // A request to connect is a message each way, and an answer that the machine must be there to hear.
        sleep(self.takes()).await;
        self.until(|condition| condition.mute == 0).await;
        let cuts = self.condition.borrow().cuts;
        let is_refused = self.condition.borrow().cut > 0;
        let server = (!is_refused).then(|| self.service.connect());
        sleep(self.takes()).await;
        self.until(|condition| condition.deaf == 0).await;
        self.machine.running().await;
        let Some(server) = server else { return Err(io::ErrorKind::ConnectionRefused.into()) };
        let (client, ours) = tokio::io::duplex(BUFFER_BYTES);
        tokio::spawn(self.carry(ours, server, cuts));
        Ok(Box::new(client))
    }

    /// Carries what is sent both ways until both ends are closed or the way is cut.
    async fn carry(self, client: DuplexStream, server: DuplexStream, cuts: u32) {
        let (from_client, to_client) = split(client);
        let (from_server, to_server) = split(server);
        let carrying = async {
            tokio::join!(self.carry_up(from_client, to_server), self.carry_down(from_server, to_client));
        };
        tokio::select! {
            biased;
            () = self.until(|condition| condition.cuts != cuts) => {
                // The machine learns of it when it runs.
                self.machine.running().await;
            }
            () = carrying => {}
        }
    }

    async fn carry_up(&self, from: ReadHalf<DuplexStream>, to: WriteHalf<DuplexStream>) {
        let arrives = || self.until(|condition| condition.mute == 0);
        self.carry_one_way(from, to, arrives).await;
    }

    async fn carry_down(&self, from: ReadHalf<DuplexStream>, to: WriteHalf<DuplexStream>) {
        let arrives = || async {
            self.until(|condition| condition.deaf == 0).await;
            self.machine.running().await;
        };
        self.carry_one_way(from, to, arrives).await;
    }

    async fn carry_one_way<Arriving: Future<Output = ()> + Send>(
        &self,
        mut from: impl AsyncRead + Send + Unpin,
        mut to: impl AsyncWrite + Send + Unpin,
        arrives: impl Fn() -> Arriving + Send + Sync,
    ) {
        let (sent, mut under_way) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
        let sending = async move {
            let mut piece = vec![0; BUFFER_BYTES];
            let mut due = Instant::now();
            while let Ok(length @ 1..) = from.read(&mut piece).await {
                due = due.max(Instant::now() + self.takes());
                if sent.send((due, piece[..length].to_vec())).await.is_err() {
                    return;
                }
            }
        };
        let arriving = async {
            while let Some((due, piece)) = under_way.recv().await {
                sleep_until(due).await;
                arrives().await;
                if to.write_all(&piece).await.is_err() {
                    return;
                }
            }
            arrives().await;
            // The other end may be gone already.
            let _ = to.shutdown().await;
        };
        tokio::join!(sending, arriving);
    }
}

const fn count(faults: &mut u32, is_on: bool) {
    if is_on { *faults += 1 } else { *faults -= 1 }
}

impl Dial for Way {
    fn dial(&self, _server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        Box::pin(self.clone().connect())
    }
}
