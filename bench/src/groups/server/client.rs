//! Clients that keep many requests under way and do as little as possible with the answers; and a large tree, filled by
//! them: what it takes of memory, how long a snapshot of it stops others, and how long a start from it takes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_zk_proto::frame::Deframer;
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::{
    Acl, ConnectRequest, Create, CreateMode, ErrorCode, MultiOperation, ReadOnlyFlag, ReplyHeader, ZkRequest,
    encode_request,
};

use crate::groups::server::process::Server;
use crate::load::{Effort, Stopwatch};

const CLIENTS: usize = 32;
/// How many requests each has under way, at most.
const PIPELINED: usize = 32;
/// What a node holds, in bytes.
pub(super) const DATA_BYTES: usize = 100;
/// Longer than a run.
const SESSION_TIMEOUT_MS: i32 = 40_000;
const FRAME_BYTES_MAX: usize = 1 << 20;
/// How much is read at a time, in bytes.
const READ_BYTES: usize = 16 << 10;

/// Which requests are made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Load {
    /// Nodes are created and deleted in turn.
    Writes,
    /// One node each is read.
    Reads,
}

/// One session.
pub(super) struct Client {
    stream: TcpStream,
    deframer: Deframer,
}

/// How many operations a second all clients together get answered.
pub(super) fn operations_per_second(address: SocketAddr, load: Load, lasting: Duration) -> io::Result<f64> {
    let work = |number: usize| move || one_client(address, load, number, lasting);
    let clients: Vec<_> = (0..CLIENTS).map(|number| std::thread::spawn(work(number))).collect();
    clients.into_iter().map(|client| client.join().expect("a client does not panic")).sum()
}

fn one_client(address: SocketAddr, load: Load, number: usize, lasting: Duration) -> io::Result<f64> {
    let mut client = Client::open(address)?;
    let path = format!("/load-{number}");
    let read = [ZkRequest::GetData { path: path.clone(), watch: false }];
    let written = |part: usize| {
        let path = format!("{path}-{part}");
        [create(&path), ZkRequest::Delete { path, version: -1 }]
    };
    let requests: Vec<_> = match load {
        Load::Writes => (0..PIPELINED / 2).flat_map(written).collect(),
        Load::Reads => read.iter().cycle().take(PIPELINED).cloned().collect(),
    };
    if load == Load::Reads {
        client.round(&encoded(&[create(&path)])?, 1)?;
    }
    // The same bytes again and again: encoding is not part of what is measured.
    let bytes = encoded(&requests)?;
    let watch = Stopwatch::start();
    let mut answered = 0_u32;
    while watch.elapsed() < lasting {
        client.round(&bytes, PIPELINED)?;
        answered += PIPELINED as u32;
    }
    let rate = f64::from(answered) / watch.elapsed().as_secs_f64();
    if load == Load::Reads {
        client.round(&encoded(&[ZkRequest::Delete { path, version: -1 }])?, 1)?;
    }
    client.round(&encoded(&[ZkRequest::CloseSession])?, 1)?;
    Ok(rate)
}

pub(super) fn create(path: &str) -> ZkRequest {
    ZkRequest::Create(node(path.to_owned()))
}

pub(super) fn node(path: String) -> Create {
    let data = Some(vec![1; DATA_BYTES].into());
    Create { path, data, acl: vec![Acl::open()], mode: CreateMode::Persistent }
}

/// The frames of these requests, one after the other.
pub(super) fn encoded(requests: &[ZkRequest]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (xid, request) in (1..).zip(requests) {
        bytes.extend_from_slice(&encode_request(xid, request, FRAME_BYTES_MAX).map_err(io::Error::other)?);
    }
    Ok(bytes)
}

impl Client {
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: SESSION_TIMEOUT_MS,
            session_id: 0,
            password: None,
            read_only: ReadOnlyFlag::No,
        };
        stream.write_all(&request.to_frame(FRAME_BYTES_MAX).map_err(io::Error::other)?)?;
        let mut client = Self { stream, deframer: Deframer::new(FRAME_BYTES_MAX) };
        client.frame()?;
        Ok(client)
    }

    /// Sends requests and waits for as many answers, none of which may be an error.
    pub(super) fn round(&mut self, bytes: &[u8], answers: usize) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        for _ in 0..answers {
            let header = ReplyHeader::decode(&mut Reader::new(self.frame()?)).map_err(io::Error::other)?;
            if header.error != ErrorCode::Ok {
                return Err(io::Error::other(format!("an answer is {:?}", header.error)));
            }
        }
        Ok(())
    }

    fn frame(&mut self) -> io::Result<bytes::Bytes> {
        loop {
            if let Some(frame) = self.deframer.next_frame().map_err(io::Error::other)? {
                return Ok(frame);
            }
            let mut buffer = [0; READ_BYTES];
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.deframer.push(&buffer[..length]),
            }
        }
    }
}

/// How many parents have so many nodes: a million of these.
const PARENTS: u32 = 1_000;
const NODES_PER_PARENT: usize = 1_000;
const NODES_PER_TRANSACTION: usize = 500;
/// After how many transactions Apache takes a snapshot.
pub(super) const SNAPSHOT_AFTER: usize = 1_000;
/// How often a large node is written while others are timed: both servers take a snapshot meanwhile.
const LARGE_WRITES: u32 = 1_000;
const LARGE_BYTES: usize = 100_000;

/// What a large tree costs a server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    pub(super) resident_mib: f64,
    /// The median and the longest of small writes while snapshots were taken.
    pub(super) write: Duration,
    pub(super) longest_write: Duration,
    /// The most memory meanwhile, as a multiple of that before.
    pub(super) peak: f64,
    pub(super) started: Duration,
}

/// Fills a server, has it take snapshots, kills it and starts it again.
pub(super) fn costs(mut server: Server, effort: Effort) -> io::Result<Costs> {
    fill(server.address, effort.calls(PARENTS) as usize)?;
    let resident_mib = server.resident_mib()?;
    server.forget_peak()?;
    let (write, longest_write) = timed_writes(server.address, effort.calls(LARGE_WRITES))?;
    let peak = server.peak_mib()? / resident_mib;
    server = server.started_again()?;
    Ok(Costs { resident_mib, write, longest_write, peak, started: server.ready })
}

fn fill(address: SocketAddr, parents: usize) -> io::Result<()> {
    let mut client = Client::open(address)?;
    let parent = |number: usize| format!("/large-{number:03}");
    let requests: Vec<ZkRequest> = (0..parents).map(|number| create(&parent(number))).collect();
    client.round(&encoded(&requests)?, parents)?;
    for number in 0..parents {
        let node = |at: usize| MultiOperation::Create(node(format!("{}/node-{at:06}", parent(number))));
        let transaction = |first: usize| ZkRequest::Multi((first..first + NODES_PER_TRANSACTION).map(node).collect());
        let requests: Vec<ZkRequest> = (0..NODES_PER_PARENT).step_by(NODES_PER_TRANSACTION).map(transaction).collect();
        client.round(&encoded(&requests)?, requests.len())?;
    }
    client.round(&encoded(&[ZkRequest::CloseSession])?, 1)
}

/// Times small writes, one after the other, while a large node is written again and again.
fn timed_writes(address: SocketAddr, large_writes: u32) -> io::Result<(Duration, Duration)> {
    let set = |path: &str, bytes: usize| {
        encoded(&[ZkRequest::SetData { path: path.to_owned(), data: Some(vec![2; bytes].into()), version: -1 }])
    };
    let connect = |path: &str| {
        let mut client = Client::open(address)?;
        // From an earlier turn it is there already.
        let _ = client.round(&encoded(&[create(path)])?, 1);
        Ok::<_, io::Error>(client)
    };
    let is_over = AtomicBool::new(false);
    let mut took = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = (|| {
                let (mut client, large) = (connect("/large")?, set("/large", LARGE_BYTES)?);
                (0..large_writes).try_for_each(|_| client.round(&large, 1))
            })();
            is_over.store(true, Ordering::Relaxed);
            written
        });
        let timed = (|| {
            let (mut client, small) = (connect("/small")?, set("/small", DATA_BYTES)?);
            let mut took = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let watch = Stopwatch::start();
                client.round(&small, 1)?;
                took.push(watch.elapsed());
            }
            Ok::<_, io::Error>(took)
        })();
        writer.join().expect("a client does not panic")?;
        timed
    })?;
    took.sort();
    let longest = *took.last().ok_or_else(|| io::Error::other("nothing was timed"))?;
    Ok((took[took.len() / 2], longest))
}
