//! Clients that keep many requests under way and do as little as possible with the answers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use lockkeeper_zk_proto::frame::Deframer;
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::{
    Acl, ConnectRequest, Create, CreateMode, ErrorCode, ReadOnlyFlag, ReplyHeader, ZkRequest, encode_request,
};

use crate::load::Stopwatch;

/// How many clients there are at once.
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
