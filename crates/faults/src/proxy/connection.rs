//! Moves the bytes of one connection, as the plan says.
//!
//! Each direction has a reader, which stamps each frame with the time it is due, and a writer, which waits for that
//! time; so a delayed stream stays a pipeline. Both directions and all endings live in one task: nothing is left when
//! it ends.

use std::future;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{self, Instant};

use super::conversation::{Conversation, Piece, Splitter};
use super::record::{AfterDrop, Armed, Burst, Direction, Fate, Flow, FrameRecord, Plan, Shared};

/// How many reads of one direction may be under delay at once: at most 64 MiB, and more than any test's round trip
/// fills. Beyond it the reader stops reading, as a full network would.
const IN_FLIGHT_MAX: usize = 1_024;

/// How much is read at once.
const READ_BYTES: usize = 64 << 10;

/// How long the server may take to accept a connection.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

/// How a connection ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ending {
    /// FIN to both sides.
    Close,
    /// RST to both sides.
    Reset,
}

/// What one read brought in, on its way: what came in one segment leaves in one.
#[derive(Debug)]
struct Parcel {
    due: Instant,
    round_trips: u32,
    bytes: Vec<u8>,
    frames: Vec<FrameRecord>,
    /// What becomes of the connection once this has left.
    ending: Option<Ending>,
}

/// What both directions of a connection know.
#[derive(Debug)]
struct Connection {
    number: u64,
    shared: Arc<Shared>,
    /// The plan when it began: what grew since then applies to it.
    born: Plan,
    conversation: Mutex<Conversation>,
    /// The round trips of the latest request that has reached the server.
    asked: AtomicU32,
    /// It lost frames, so its stream is broken.
    torn: AtomicBool,
    /// It carries nothing more.
    silent: AtomicBool,
}

/// Carries one connection until it ends.
pub(super) async fn carry(shared: Arc<Shared>, mut client: TcpStream) {
    let (number, answered) = {
        let mut record = shared.record();
        (record.opened(), record.answered)
    };
    let connection = Connection {
        number,
        asked: AtomicU32::new(answered),
        born: shared.now(),
        conversation: Mutex::default(),
        torn: AtomicBool::new(false),
        silent: AtomicBool::new(false),
        shared,
    };
    let _open = Open(&connection.shared);
    let ending = connection.run(&mut client).await;
    if ending == Ending::Reset {
        // Closing then sends RST. A socket that is gone already needs none.
        let _ = client.set_zero_linger();
    }
}

/// Uncounts a connection, however its task ends.
struct Open<'a>(&'a Shared);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.record().connections -= 1;
    }
}

impl Connection {
    async fn run(&self, client: &mut TcpStream) -> Ending {
        // A black hole answers neither side: the server must not see a connection made meanwhile.
        if self.born.flow[Direction::ToServer.index()] == Flow::Swallow {
            self.torn.store(true, Ordering::Relaxed);
            return self.swallow(client).await;
        }
        let connecting = time::timeout(CONNECTED_WITHIN, TcpStream::connect(self.born.target));
        let Ok(Ok(mut server)) = connecting.await else {
            return Ending::Reset;
        };
        // Without it the kernel would add its own delays to ours. A socket that refuses is broken, and that shows
        // later.
        let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
        let ending = self.exchange(client, &mut server).await;
        match ending {
            Ending::Reset => drop(server.set_zero_linger()),
            // A socket closed with bytes unread sends RST; FIN goes out first.
            Ending::Close => {
                let _ = tokio::join!(client.shutdown(), server.shutdown());
            }
        }
        ending
    }

    async fn exchange(&self, client: &mut TcpStream, server: &mut TcpStream) -> Ending {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let both = async {
            tokio::try_join!(
                self.pump(Direction::ToServer, from_client, to_server),
                self.pump(Direction::ToClient, from_server, to_client),
            )
        };
        tokio::select! {
            biased;
            ending = self.ended() => ending,
            outcome = both => match outcome {
                // Both sides have ended their streams.
                Ok(_) => Ending::Close,
                Err(ending) => ending,
            },
        }
    }

    /// Reads and forgets until the plan ends the connection or the client does.
    async fn swallow(&self, client: &mut TcpStream) -> Ending {
        let reading = async {
            let mut bytes = vec![0; READ_BYTES];
            while client.read(&mut bytes).await.is_ok_and(|length| length > 0) {}
            Ending::Close
        };
        tokio::select! {
            biased;
            ending = self.ended() => ending,
            ending = reading => ending,
        }
    }

    /// Waits until the plan says that this connection ends.
    async fn ended(&self) -> Ending {
        let mut plan = self.shared.plan();
        let ends = |plan: &Plan| {
            let healed = plan.flow == [Flow::Pass; 2] && self.torn.load(Ordering::Relaxed);
            if plan.resets > self.born.resets || healed {
                Some(Ending::Reset)
            } else {
                (plan.cuts > self.born.cuts).then_some(Ending::Close)
            }
        };
        loop {
            if let Some(ending) = ends(&plan.borrow_and_update()) {
                return ending;
            }
            if plan.changed().await.is_err() {
                return Ending::Close;
            }
        }
    }

    /// Moves one direction until its source ends.
    async fn pump(&self, direction: Direction, source: ReadHalf<'_>, sink: WriteHalf<'_>) -> Result<(), Ending> {
        let (parcels, incoming) = mpsc::channel(IN_FLIGHT_MAX);
        tokio::try_join!(self.read(direction, source, parcels), self.write(direction, sink, incoming)).map(drop)
    }

    async fn read(
        &self,
        direction: Direction,
        mut source: ReadHalf<'_>,
        parcels: mpsc::Sender<Parcel>,
    ) -> Result<(), Ending> {
        let mut bytes = vec![0; READ_BYTES];
        let mut splitter = Splitter::default();
        let mut due = Instant::now();
        loop {
            let length = source.read(&mut bytes).await.map_err(reset)?;
            splitter.add(&bytes[..length]);
            // A delay that was shortened must not let later frames overtake.
            due = due.max(Instant::now() + self.shared.now().delay[direction.index()]);
            let round_trips = self.round_trips(direction);
            let mut parcel = Parcel { due, round_trips, bytes: Vec::new(), frames: Vec::new(), ending: None };
            while let Some(piece) = splitter.next(|bytes| self.shared.protocol.length(bytes)) {
                if let Err(ending) = self.take_in(direction, piece, &mut parcel) {
                    parcel.ending = Some(ending);
                    parcels.send(parcel).await.map_err(|_| Ending::Close)?;
                    return future::pending().await;
                }
            }
            if length == 0 {
                parcel.bytes.extend(splitter.rest());
            }
            if !parcel.bytes.is_empty() {
                parcels.send(parcel).await.map_err(|_| Ending::Close)?;
            }
            if length == 0 {
                return Ok(());
            }
        }
    }

    /// Counts a piece and adds it to a parcel, unless it is to be lost; an ending if that ends all.
    fn take_in(&self, direction: Direction, piece: Piece, parcel: &mut Parcel) -> Result<(), Ending> {
        let bytes = match piece {
            Piece::Raw(bytes) => {
                parcel.bytes.extend(bytes);
                return Ok(());
            }
            Piece::Frame(bytes) => bytes,
        };
        let meaning = self.conversation().meaning(direction, &bytes, &self.shared);
        let mut record = self.shared.record();
        record.count(direction, meaning.operation);
        let frame = FrameRecord {
            connection: self.number,
            direction,
            operation: meaning.operation,
            xid: meaning.xid,
            error: meaning.error,
            round_trips: parcel.round_trips,
            bytes: bytes.len(),
            seen: record.since_start(),
            fate: Fate::Lost,
        };
        if let Some(armed) = meaning.lost {
            record.push(frame.clone());
            return self.lose(armed, frame);
        }
        parcel.bytes.extend(bytes);
        parcel.frames.push(frame);
        Ok(())
    }

    /// Tells the test that a frame was lost, and does with the connection what it wants.
    fn lose(&self, armed: Armed, frame: FrameRecord) -> Result<(), Ending> {
        // The waiting test may be gone meanwhile.
        let _ = armed.dropped.send(frame);
        match armed.then {
            AfterDrop::Close => Err(Ending::Close),
            AfterDrop::Silence => {
                self.silent.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(
        &self,
        direction: Direction,
        mut sink: WriteHalf<'_>,
        mut incoming: mpsc::Receiver<Parcel>,
    ) -> Result<(), Ending> {
        let mut open = true;
        loop {
            let parcel = tokio::select! {
                biased;
                () = self.half_closed(direction), if open => {
                    open = false;
                    sink.shutdown().await.map_err(reset)?;
                    continue;
                }
                parcel = incoming.recv() => parcel,
            };
            let Some(parcel) = parcel else { break };
            // A timer would wait for the next millisecond even if the time is over.
            if parcel.due > Instant::now() {
                time::sleep_until(parcel.due).await;
            }
            let passes = self.passes(direction).await && open;
            if passes {
                // Counted first: its receiver may be quicker than we are.
                self.count(direction, &parcel);
                sink.write_all(&parcel.bytes).await.map_err(reset)?;
            }
            self.log(parcel.frames, passes);
            if let Some(ending) = parcel.ending {
                return Err(ending);
            }
        }
        if open {
            // The receiver may have gone first.
            let _ = sink.shutdown().await;
        }
        Ok(())
    }

    /// Whether what is due now is passed on; waits while it is held back.
    async fn passes(&self, direction: Direction) -> bool {
        let mut plan = self.shared.plan();
        let decided = plan.wait_for(|plan| plan.flow[direction.index()] != Flow::Hold).await;
        let swallowed = decided.is_ok_and(|plan| plan.flow[direction.index()] == Flow::Swallow);
        if swallowed {
            self.torn.store(true, Ordering::Relaxed);
        }
        !swallowed && !self.silent.load(Ordering::Relaxed)
    }

    /// How many round trips there were with what comes in now.
    fn round_trips(&self, direction: Direction) -> u32 {
        match direction {
            Direction::ToServer => self.shared.record().answered,
            Direction::ToClient => self.asked.load(Ordering::Relaxed) + 1,
        }
    }

    /// Notes what is just being passed on.
    fn count(&self, direction: Direction, parcel: &Parcel) {
        if direction == Direction::ToServer {
            self.asked.fetch_max(parcel.round_trips, Ordering::Relaxed);
        }
        let mut record = self.shared.record();
        let delivered = record.since_first_opened();
        let (connection, round_trips, bytes) = (self.number, parcel.round_trips, parcel.bytes.len());
        record.push_burst(Burst { connection, direction, round_trips, bytes, delivered });
    }

    fn log(&self, frames: Vec<FrameRecord>, delivered: bool) {
        let mut record = self.shared.record();
        let now = record.since_start();
        for mut frame in frames {
            if delivered {
                frame.fate = Fate::Delivered(now);
            }
            record.push(frame);
        }
    }

    async fn half_closed(&self, direction: Direction) {
        let mut plan = self.shared.plan();
        let born = self.born.half_closes[direction.index()];
        // The plan lives as long as the connection.
        let _ = plan.wait_for(|plan| plan.half_closes[direction.index()] > born).await;
    }
}

fn reset(_: io::Error) -> Ending {
    Ending::Reset
}
