//! A pooler between clients and a real MariaDB that keeps its clients when the server has ended: it connects anew, logs
//! in as the client did, repeats the client's settings, and tells the client nothing.
//!
//! MaxScale and ProxySQL do so; Debian packages neither. Each client has one connection to the server. A client logs in
//! without a password, since its answer to the server's challenge is repeated.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time;

use super::Server;
use crate::ports::ReservedPort;
use crate::proxy::conversation::{Length, Piece, Splitter};
use crate::{Error, Result};

/// For how long a client's statement waits for a server to connect to (ProxySQL's `connect_timeout_server_max`).
const CONNECTED_WITHIN: Duration = Duration::from_secs(10);

/// How long it rests between two attempts to connect.
const REST: Duration = Duration::from_millis(50);

/// How many of a client's last settings are repeated: ours sends two.
const SETTINGS_MAX: usize = 4;

/// Before a packet's body: its length in three bytes, and its number within a command or an answer.
const LENGTH_BYTES: usize = 3;
const HEADER_BYTES: usize = 4;

/// How an error of the server begins.
const FAILED: u8 = 0xff;

/// Commands.
const QUIT: u8 = 0x01;
const QUERY: u8 = 0x03;

/// What the client of a server that ended within a statement is told (`CR_SERVER_LOST`).
const LOST: &[u8] = b"\xff\xdd\x07#HY000Lost connection to server during query";

/// What a client is told for whose statement no server was to be had (ProxySQL's 9001).
const UNREACHED: &[u8] = b"\xff\x29\x23#HY000Max connect timeout reached while reaching the server";

/// A running pooler; dropping it closes all its connections.
#[derive(Debug)]
pub struct Pooler {
    address: SocketAddr,
    target: watch::Sender<SocketAddr>,
    accepting: JoinHandle<()>,
    _port: ReservedPort,
}

impl Pooler {
    /// Starts one in front of a server on a free port.
    pub async fn start(server: &Server) -> Result<Self> {
        let port = ReservedPort::take()?;
        let address = port.address();
        let listener = TcpListener::bind(address).await.map_err(Error::io(address))?;
        let (target, reached) = watch::channel(server.address());
        let accepting = tokio::spawn(accept(listener, reached));
        Ok(Self { address, target, accepting, _port: port })
    }

    /// Has it reach this server with each connection that it opens from now on. It keeps its clients.
    pub fn point_to(&self, server: &Server) {
        self.target.send_replace(server.address());
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, target: watch::Receiver<SocketAddr>) {
    static NUMBERS: AtomicU32 = AtomicU32::new(1 << 20);
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = clients.join_next(), if !clients.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    clients.spawn(serve(client, target.clone(), NUMBERS.fetch_add(1, Ordering::Relaxed)));
                }
                // A passing lack of resources.
                Err(_) => time::sleep(REST).await,
            },
        }
    }
}

/// Serves one client until it ends, or its login is refused.
async fn serve(client: TcpStream, target: watch::Receiver<SocketAddr>, number: u32) -> Option<()> {
    let mut client = Line::new(client);
    let address = *target.borrow();
    let mut server = Line::open(address).await?;
    let mut greeting = server.packet().await?;
    rename(&mut greeting, number)?;
    client.send(&greeting).await?;
    let login = client.packet().await?;
    server.send(&login).await?;
    let welcome = server.packet().await?;
    client.send(&welcome).await?;
    let abilities = u32::from_le_bytes(*body(&login).first_chunk()?);
    (body(&welcome).first() == Some(&ACKNOWLEDGED)).then_some(())?;
    let mut kept = Kept { login, answer: Answer::to(abilities), settings: Vec::new() };
    let mut server = Some(server);
    loop {
        let command = tokio::select! {
            command = client.packet() => command?,
            // A server says nothing unasked but that it ends.
            _ = spoken(server.as_mut()) => {
                server = None;
                continue;
            }
        };
        if body(&command).first() == Some(&QUIT) {
            return None;
        }
        let mut reached = match server.take() {
            Some(reached) => reached,
            None => match time::timeout(CONNECTED_WITHIN, kept.connect(&target)).await {
                Ok(reached) => reached,
                Err(_) => {
                    client.refuse(UNREACHED).await?;
                    continue;
                }
            },
        };
        server = pass(&command, &mut reached, &mut client, &kept.answer).await?.then_some(reached);
        kept.note(command);
    }
}

/// Has the server answer a command of the client; answers whether the server is still there.
async fn pass(command: &[u8], server: &mut Line, client: &mut Line, answer: &Answer) -> Option<bool> {
    let mut answer = answer.clone();
    let mut has_begun = false;
    let mut is_there = server.send(command).await.is_some();
    while is_there {
        let packet = tokio::select! {
            packet = server.packet() => packet,
            // It asks nothing before it has the answer: it has ended.
            _ = client.packet() => return None,
        };
        let Some(packet) = packet else {
            is_there = false;
            break;
        };
        has_begun = true;
        client.send(&packet).await?;
        if answer.ends_with(body(&packet)) {
            return Some(true);
        }
    }
    // An answer that was begun cannot be ended in the server's place.
    (!has_begun).then_some(())?;
    client.refuse(LOST).await?;
    Some(is_there)
}

async fn spoken(server: Option<&mut Line>) -> Option<Vec<u8>> {
    match server {
        Some(server) => server.packet().await,
        None => std::future::pending().await,
    }
}

/// What is repeated to the next server.
#[derive(Debug)]
struct Kept {
    login: Vec<u8>,
    answer: Answer,
    settings: Vec<Vec<u8>>,
}

impl Kept {
    fn note(&mut self, command: Vec<u8>) {
        let is_setting = body(&command).strip_prefix(&[QUERY]).is_some_and(|text| text.starts_with(b"SET "));
        if is_setting {
            if self.settings.len() == SETTINGS_MAX {
                self.settings.remove(0);
            }
            self.settings.push(command);
        }
    }

    /// Connects to the server of now, for as long as that takes.
    async fn connect(&self, target: &watch::Receiver<SocketAddr>) -> Line {
        loop {
            let address = *target.borrow();
            if let Some(line) = self.attempt(address).await {
                return line;
            }
            time::sleep(REST).await;
        }
    }

    async fn attempt(&self, address: SocketAddr) -> Option<Line> {
        let mut line = Line::open(address).await?;
        line.packet().await?;
        line.send(&self.login).await?;
        (body(&line.packet().await?).first() == Some(&ACKNOWLEDGED)).then_some(())?;
        for setting in &self.settings {
            line.send(setting).await?;
            let mut answer = self.answer.clone();
            while !answer.ends_with(body(&line.packet().await?)) {}
        }
        Some(line)
    }
}

/// Puts the pooler's own number of the connection in place of the server's, behind the version that ends with a zero.
fn rename(greeting: &mut [u8], number: u32) -> Option<()> {
    (body(greeting).first() != Some(&FAILED)).then_some(())?;
    let start = HEADER_BYTES + 1;
    let version = greeting.get(start..)?.iter().position(|byte| *byte == 0)?;
    let place = greeting.get_mut(start + version + 1..)?.first_chunk_mut()?;
    *place = number.to_le_bytes();
    Some(())
}

/// The length of the first packet.
fn length(bytes: &[u8]) -> Length {
    match bytes {
        [low, middle, high, _, ..] => {
            Length::Frame(HEADER_BYTES + usize::from(*low) + (usize::from(*middle) << 8) + (usize::from(*high) << 16))
        }
        _ => Length::Unknown,
    }
}

fn body(packet: &[u8]) -> &[u8] {
    packet.get(HEADER_BYTES..).unwrap_or_default()
}

/// A connection, packet by packet; none is the end of it.
#[derive(Debug)]
struct Line {
    stream: TcpStream,
    splitter: Splitter,
}

impl Line {
    fn new(stream: TcpStream) -> Self {
        // Each packet is waited for.
        let _ = stream.set_nodelay(true);
        Self { stream, splitter: Splitter::default() }
    }

    async fn open(address: SocketAddr) -> Option<Self> {
        TcpStream::connect(address).await.ok().map(Self::new)
    }

    /// The next packet with its header; what has come in stays if this is dropped.
    async fn packet(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            if let Some(Piece::Frame(packet)) = self.splitter.next(length) {
                return Some(packet);
            }
            if self.stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
            self.splitter.add(&bytes);
            bytes.clear();
        }
    }

    async fn send(&mut self, packet: &[u8]) -> Option<()> {
        self.stream.write_all(packet).await.ok()
    }

    /// Answers a command with a refusal.
    async fn refuse(&mut self, refusal: &[u8]) -> Option<()> {
        let length = u32::try_from(refusal.len()).ok()?.to_le_bytes();
        let packet = [&length[..LENGTH_BYTES], &[1], refusal].concat();
        self.send(&packet).await
    }
}

/// The longest body of one packet.
const BODY_BYTES_MAX: usize = (1 << 24) - 1;

/// What a client can do, as its first packet tells: do without the packet between columns and rows.
const NO_PACKET_BETWEEN: u32 = 1 << 24;

/// How a server's packet begins.
pub(super) const ACKNOWLEDGED: u8 = 0x00;
const ENDED: u8 = 0xfe;

/// The bit of a server's status that says that another result follows.
const MORE_RESULTS: u16 = 1 << 3;

/// An answer, followed packet by packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// There is no packet between columns and rows.
    is_short: bool,
    place: Place,
}

/// Where in an answer the next packet stands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Place {
    /// At the start of a result.
    #[default]
    Start,
    Columns,
    Rows,
}

impl Answer {
    /// One to a client that logged in with these abilities.
    pub(super) fn to(abilities: u32) -> Self {
        Self { is_short: abilities & NO_PACKET_BETWEEN != 0, place: Place::Start }
    }

    /// Takes in a packet's body; says whether the answer ends with it.
    pub(super) fn ends_with(&mut self, body: &[u8]) -> bool {
        let first = body.first().copied().unwrap_or_default();
        let has_ended = first == ENDED && body.len() < BODY_BYTES_MAX;
        match self.place {
            _ if first == FAILED => return true,
            Place::Start if first == ACKNOWLEDGED => return self.ended(status_after_counts(body)),
            Place::Start => self.place = if self.is_short { Place::Rows } else { Place::Columns },
            Place::Columns if has_ended => self.place = Place::Rows,
            // This end tells the status first, or after two counts like an acknowledgement.
            Place::Rows if has_ended && self.is_short => return self.ended(status_after_counts(body)),
            Place::Rows if has_ended => return self.ended(number(body, 3)),
            Place::Columns | Place::Rows => {}
        }
        false
    }

    fn ended(&mut self, status: u16) -> bool {
        self.place = Place::Start;
        status & MORE_RESULTS == 0
    }
}

/// The status in an acknowledgement, where it follows two counts of one to nine bytes.
fn status_after_counts(body: &[u8]) -> u16 {
    let after = |start: usize| {
        let more = match body.get(start) {
            Some(0xfc) => 2,
            Some(0xfd) => 3,
            Some(0xfe) => 8,
            _ => 0,
        };
        start + 1 + more
    };
    number(body, after(after(1)))
}

fn number(body: &[u8], start: usize) -> u16 {
    body.get(start..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An acknowledgement of 300 rows, with another result after it or not.
    const DONE: &[u8] = &[ACKNOWLEDGED, 0xfc, 44, 1, 0, 2, 0, 0, 0];
    const DONE_AND_MORE: &[u8] = &[ACKNOWLEDGED, 0xfc, 44, 1, 0, 10, 0, 0, 0];

    /// A column and a row, which begins as an acknowledgement does, and the end of each, with another result after it.
    const COLUMN: &[u8] = b"\x03def";
    const ROW: &[u8] = &[ACKNOWLEDGED, 0];
    const END_AND_MORE: &[u8] = &[ENDED, 0, 0, 10, 0];
    const SHORT_END_AND_MORE: &[u8] = &[ENDED, 0, 0, 10, 0, 0, 0];

    #[test]
    fn an_answer_ends_with_its_last_result_or_with_an_error() {
        for (abilities, rows) in [
            (0, vec![&[1][..], COLUMN, END_AND_MORE, ROW, END_AND_MORE]),
            (NO_PACKET_BETWEEN, vec![&[1], COLUMN, ROW, SHORT_END_AND_MORE]),
        ] {
            let mut answer = Answer::to(abilities);
            for last in [&[FAILED, 0x14, 4][..], DONE] {
                assert!(!rows.iter().chain([&DONE_AND_MORE]).any(|packet| answer.ends_with(packet)));
                assert!(answer.ends_with(last));
            }
        }
    }
}
