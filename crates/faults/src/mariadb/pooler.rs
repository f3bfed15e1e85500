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
use super::answer::{ACKNOWLEDGED, Answer};
use crate::ports::ReservedPort;
use crate::proxy::frames::{Piece, Splitter};
use crate::proxy::mysql::{FAILED, HEADER_BYTES, LENGTH_BYTES, length};
use crate::{Error, Result};

/// For how long a client's statement waits for a server to connect to (ProxySQL's `connect_timeout_server_max`).
const CONNECTED_WITHIN: Duration = Duration::from_secs(10);

/// How long it rests between two attempts to connect.
const REST: Duration = Duration::from_millis(50);

/// How many of a client's last settings are repeated: ours sends two.
const SETTINGS_MAX: usize = 4;

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
