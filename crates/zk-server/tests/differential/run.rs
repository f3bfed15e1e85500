//! Runs a script on one server and writes down what the clients see.
//!
//! What differs by nature is made equal: times are removed, transaction numbers count from the beginning of the run,
//! sessions have the number of the client, and what has no order is sorted.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use bytes::Bytes;
use lockkeeper_faults::wait::PATIENCE;
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::{
    Acl, Auth, Create, CreateMode, ErrorCode, MultiResult, OpCode, ReplyHeader, Stat, XID_PING, ZkRequest, ZkResponse,
    decode_reply_body,
};

use crate::client::{Client, Frame, Session};
use crate::script::{CLIENTS, Script, Step};
use crate::{SUPER_PASSWORD, TICK};

/// The longest session timeout that is granted: no session expires by chance.
const TIMEOUT_LONG_MS: i32 = 1_000_000;
/// The shortest one.
const TIMEOUT_SHORT_MS: i32 = 0;
/// How often the observer looks whether a session has expired.
const EXPIRY_POLL: Duration = Duration::from_millis(20);

/// One thing a client has seen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Line {
    step: usize,
    text: String,
    /// Whether the other server may say instead that there is no such watch.
    may_lack_watch: bool,
}

impl Line {
    /// Whether a line of the embedded server is the same as this of Apache, or differs as stated.
    pub(crate) fn admits(&self, ours: &Self) -> bool {
        // Apache finds a watch of any connection, and fails on a path without a slash.
        let is_theirs_alone = self.text.contains("Done") || self.text.contains("MarshallingError");
        let lacks = self.may_lack_watch && ours.text.contains("NoWatcher") && is_theirs_alone;
        lacks || self == ours
    }
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "step {}: {}", self.step, self.text)
    }
}

/// A run under way.
struct Run {
    address: SocketAddr,
    clients: Vec<Client>,
    observer: Client,
    origin: Origin,
    lines: Vec<Line>,
    step: usize,
    markers: usize,
}

/// Does a script; answers everything the clients have seen.
pub(crate) fn run(script: &Script, address: SocketAddr) -> Vec<Line> {
    let mut observer = Client::connect(address, &Session::none(), TIMEOUT_LONG_MS).unwrap();
    observer
        .ask(ZkRequest::Auth(Auth { scheme: "digest".into(), credentials: format!("super:{SUPER_PASSWORD}").into() }))
        .unwrap();
    wipe(&mut observer);
    let mut run = Run {
        address,
        clients: Vec::new(),
        origin: Origin { zxid: newest_zxid(&mut observer), sessions: vec![observer.session.id] },
        observer,
        lines: Vec::new(),
        step: 0,
        markers: 0,
    };
    for _ in 0..CLIENTS {
        let client = run.open();
        run.clients.push(client);
    }
    for (number, step) in script.steps.iter().enumerate() {
        run.step = number;
        run.take(step);
    }
    for mut client in run.clients {
        client.ask(ZkRequest::CloseSession).unwrap();
    }
    run.observer.ask(ZkRequest::CloseSession).unwrap();
    run.lines
}

impl Run {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Send { client, requests } => self.send(*client, requests),
            Step::Raw { client, code, body } => {
                let xid = self.clients[*client].send_raw(*code, body);
                self.read_until(*client, &[(xid, None)]);
            }
            Step::Reattach { client } => self.reattach(*client),
            Step::Move { client } => {
                let session = self.clients[*client].session.clone();
                let next = Client::connect(self.address, &session, TIMEOUT_LONG_MS).unwrap();
                let mut former = std::mem::replace(&mut self.clients[*client], next);
                // What it was told before it was closed was told before the move.
                while let Some(frame) = former.next() {
                    self.note_frame(*client, frame, None);
                }
                self.note(*client, format!("moved, timeout {}", self.clients[*client].timeout_ms));
            }
            Step::WrongPassword { client } => {
                let session = self.clients[*client].session.clone();
                let wrong = Session { password: Some(Bytes::from_static(b"0123456789abcdef")), ..session };
                self.reattach(*client);
                // Apache ends the session's connection even then.
                let refused = Client::connect(self.address, &wrong, TIMEOUT_LONG_MS).is_none();
                self.note(*client, format!("wrong password refused: {refused}"));
                self.reattach(*client);
            }
            Step::Reopen { client } => {
                let first = self.lines.len();
                self.send(*client, &[ZkRequest::CloseSession]);
                // Its own nodes are deleted, and it gets their events, in no particular order before its answer.
                let answer = self.lines.len().saturating_sub(1);
                self.lines[first..answer].sort_by(|a, b| a.text.cmp(&b.text));
                let closed = self.clients[*client].next().is_none();
                self.note(*client, format!("closed: {closed}"));
                self.clients[*client] = self.open();
            }
            Step::Expire { client } => self.expire(*client),
            Step::Barrier => self.barrier(),
            Step::Wipe => wipe(&mut self.observer),
        }
    }

    /// A new session, with a node that shows that it lives.
    fn open(&mut self) -> Client {
        let client = Client::connect(self.address, &Session::none(), TIMEOUT_LONG_MS).unwrap();
        self.origin.sessions.push(client.session.id);
        client
    }

    fn reattach(&mut self, client: usize) {
        let session = self.clients[client].session.clone();
        self.clients[client] = Client::connect(self.address, &session, TIMEOUT_LONG_MS).expect("the session lives");
        let timeout_ms = self.clients[client].timeout_ms;
        self.note(client, format!("reattached, timeout {timeout_ms}"));
    }

    fn expire(&mut self, client: usize) {
        self.markers += 1;
        let marker = format!("/marker{}", self.markers);
        let session = self.clients[client].session.clone();
        let mut last = Client::connect(self.address, &session, TIMEOUT_SHORT_MS).unwrap();
        last.ask(ZkRequest::Create(Create {
            path: marker.clone(),
            data: None,
            acl: vec![Acl::open()],
            mode: CreateMode::Ephemeral,
        }))
        .unwrap();
        drop(last);
        let deadline = now() + PATIENCE;
        while self.observer.ask(ZkRequest::Exists { path: marker.clone(), watch: false }).is_ok() {
            assert!(now() < deadline, "a session without a connection expires within {PATIENCE:?}");
            thread_sleep(EXPIRY_POLL);
        }
        let refused = Client::connect(self.address, &session, TIMEOUT_LONG_MS).is_none();
        self.note(client, format!("expired, and refused: {refused}"));
        self.clients[client] = self.open();
    }

    fn send(&mut self, client: usize, requests: &[ZkRequest]) {
        // Where Apache's own answer depends on how fast it is. An authentication is answered at once, before what was
        // asked for earlier. What comes right behind a change of rights is allowed by the old ones while the change is
        // under way. And a sequential node right behind a transaction that failed may count the children that it would
        // have made.
        let is_apart = |request: &ZkRequest| {
            matches!(request, ZkRequest::Auth(_) | ZkRequest::SetAcl { .. } | ZkRequest::Multi(_))
        };
        let batches: Vec<&[ZkRequest]> =
            if requests.iter().any(is_apart) { requests.chunks(1).collect() } else { vec![requests] };
        for batch in batches {
            let counted: Vec<_> = batch.iter().map(|request| self.counted_from_origin(request)).collect();
            let xids = self.clients[client].send(&counted);
            let awaited: Vec<_> = xids.into_iter().zip(batch.iter().map(Some)).collect();
            if !self.read_until(client, &awaited) {
                return;
            }
        }
    }

    fn counted_from_origin(&self, request: &ZkRequest) -> ZkRequest {
        match request {
            ZkRequest::SetWatches(watches) => {
                let mut watches = watches.clone();
                watches.relative_zxid += self.origin.zxid;
                ZkRequest::SetWatches(watches)
            }
            other => other.clone(),
        }
    }

    /// Notes what comes until all are answered; `false` if the server closes the connection instead.
    fn read_until(&mut self, client: usize, awaited: &[(i32, Option<&ZkRequest>)]) -> bool {
        for (xid, request) in awaited {
            loop {
                let Some(frame) = self.clients[client].next() else {
                    self.note(client, "closed by the server".into());
                    self.reattach(client);
                    return false;
                };
                let answer = match &frame {
                    Frame::Reply(header, _) => Some(*header),
                    Frame::Event(..) => None,
                };
                self.note_frame(client, frame, *request);
                let Some(header) = answer else { continue };
                assert_eq!(header.xid, *xid, "answers come in the order of the requests");
                if is_last(header, *request) {
                    self.await_close(client);
                    return false;
                }
                break;
            }
        }
        true
    }

    /// Waits for the server to close the connection, as it is about to; Apache may take in another request before.
    fn await_close(&mut self, client: usize) {
        while let Some(frame) = self.clients[client].next() {
            self.note_frame(client, frame, None);
        }
        self.note(client, "closed by the server".into());
        self.reattach(client);
    }

    /// All clients ping, and note what came before the answer.
    fn barrier(&mut self) {
        for client in 0..CLIENTS {
            self.clients[client].send(&[ZkRequest::Ping]);
            let first = self.lines.len();
            loop {
                match self.clients[client].next() {
                    None => {
                        self.note(client, "closed by the server".into());
                        self.reattach(client);
                        break;
                    }
                    Some(Frame::Reply(header, _)) => {
                        assert_eq!(header.xid, XID_PING);
                        break;
                    }
                    Some(event) => self.note_frame(client, event, None),
                }
            }
            // The nodes of a session that ended went in no particular order.
            if self.is_after_an_end() {
                self.lines[first..].sort_by(|a, b| a.text.cmp(&b.text));
            }
        }
        self.observer.ask(ZkRequest::Ping).unwrap();
    }

    fn is_after_an_end(&self) -> bool {
        let last_step = |line: &Line| line.step + 1 == self.step && line.text.contains("closed: ");
        let expired = |line: &Line| line.step + 1 == self.step && line.text.contains("expired, ");
        self.lines.iter().rev().take(200).any(|line| last_step(line) || expired(line))
    }

    fn note_frame(&mut self, client: usize, frame: Frame, request: Option<&ZkRequest>) {
        match frame {
            Frame::Event(zxid, event) => {
                self.note(client, format!("event {:?} {} ({zxid})", event.kind, event.path));
            }
            Frame::Reply(header, body) => self.note_reply(client, header, body, request),
        }
    }

    fn note_reply(&mut self, client: usize, header: ReplyHeader, body: Bytes, request: Option<&ZkRequest>) {
        let ReplyHeader { xid, zxid, error } = header;
        let zxid = self.origin.zxid(zxid);
        let text = match (request, error) {
            (Some(request), _) => {
                let opcode = request.opcode();
                let body = decode_reply_body(header, opcode, &mut Reader::new(body)).unwrap();
                let body = body.map(|response| self.origin.response(response));
                format!("{request:?} -> xid {xid}, zxid {zxid}, {body:?}")
            }
            (None, error) => format!("raw request -> xid {xid}, zxid {zxid}, {error:?}"),
        };
        let is_check = request.is_some_and(|request| request.opcode() == OpCode::CheckWatches);
        self.note(client, text);
        if let Some(line) = self.lines.last_mut() {
            line.may_lack_watch = is_check;
        }
    }

    fn note(&mut self, client: usize, text: String) {
        self.lines.push(Line { step: self.step, text: format!("client {client}: {text}"), may_lack_watch: false });
    }
}

/// Whether the server closes the connection after this answer: to credentials it refuses, and to an unknown operation.
fn is_last(header: ReplyHeader, request: Option<&ZkRequest>) -> bool {
    match request {
        Some(ZkRequest::Auth(_)) => header.error == ErrorCode::AuthFailed,
        Some(_) => false,
        None => header.error == ErrorCode::Unimplemented,
    }
}

/// Deletes everything there is, children first.
fn wipe(observer: &mut Client) {
    fn delete_below(observer: &mut Client, path: &str) {
        let children = observer.ask(ZkRequest::GetChildren { path: path.to_owned(), watch: false });
        let Ok(ZkResponse::GetChildren { mut children }) = children else {
            panic!("{children:?}");
        };
        children.sort();
        for name in children {
            let child = format!("{}/{name}", path.trim_end_matches('/'));
            if matches!(&*child, "/zookeeper/quota" | "/zookeeper/config") {
                continue;
            }
            delete_below(observer, &child);
            if child != "/zookeeper" {
                let done = observer.ask(ZkRequest::Delete { path: child, version: -1 });
                assert_eq!(done, Ok(ZkResponse::Done));
            }
        }
    }
    delete_below(observer, "/");
}

/// The number of the latest transaction, learned by making one.
fn newest_zxid(observer: &mut Client) -> i64 {
    let created = observer.ask(ZkRequest::Create2(Create {
        path: "/origin".into(),
        data: None,
        acl: vec![Acl::open()],
        mode: CreateMode::Persistent,
    }));
    let Ok(ZkResponse::Create2 { stat, .. }) = created else {
        panic!("{created:?}");
    };
    let deleted = observer.ask(ZkRequest::Delete { path: "/origin".into(), version: -1 });
    assert_eq!(deleted, Ok(ZkResponse::Done));
    stat.czxid + 1
}

#[expect(clippy::disallowed_methods, reason = "real servers live in real time; this bounds a wait")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "pauses between looks at a real server, within a deadline")]
fn thread_sleep(span: Duration) {
    debug_assert!(span < TICK);
    thread::sleep(span);
}

/// What a run counts from.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    pub(crate) zxid: i64,
    /// Every session so far, in order of its beginning.
    pub(crate) sessions: Vec<i64>,
}

/// The number for transactions before this run.
const ZXID_BEFORE: i64 = -1;

impl Origin {
    pub(crate) fn zxid(&self, zxid: i64) -> i64 {
        match zxid {
            // Headers of events, of authentications, and the service's own nodes.
            -1 | 0 => zxid,
            // The root can have been changed by an earlier run.
            zxid if zxid < self.zxid => ZXID_BEFORE,
            zxid => zxid - self.zxid,
        }
    }

    pub(crate) fn response(&self, response: ZkResponse) -> ZkResponse {
        match response {
            ZkResponse::Create2 { path, stat } => ZkResponse::Create2 { path, stat: self.stat(stat) },
            ZkResponse::Stat(stat) => ZkResponse::Stat(self.stat(stat)),
            ZkResponse::GetData { data, stat } => ZkResponse::GetData { data, stat: self.stat(stat) },
            ZkResponse::GetChildren { children } => ZkResponse::GetChildren { children: sorted(children) },
            ZkResponse::GetChildren2 { children, stat } => {
                ZkResponse::GetChildren2 { children: sorted(children), stat: self.stat(stat) }
            }
            ZkResponse::GetAcl { acl, stat } => ZkResponse::GetAcl { acl, stat: self.stat(stat) },
            ZkResponse::Multi(results) => {
                ZkResponse::Multi(results.into_iter().map(|result| self.multi_result(result)).collect())
            }
            ZkResponse::GetEphemerals { ephemerals } => ZkResponse::GetEphemerals { ephemerals: sorted(ephemerals) },
            ZkResponse::WhoAmI(mut infos) => {
                infos.sort_by(|a, b| (&a.scheme, &a.user).cmp(&(&b.scheme, &b.user)));
                ZkResponse::WhoAmI(infos)
            }
            other => other,
        }
    }

    fn multi_result(&self, result: MultiResult) -> MultiResult {
        match result {
            MultiResult::Create2 { path, stat } => MultiResult::Create2 { path, stat: self.stat(stat) },
            MultiResult::SetData { stat } => MultiResult::SetData { stat: self.stat(stat) },
            MultiResult::GetData { data, stat } => MultiResult::GetData { data, stat: self.stat(stat) },
            MultiResult::GetChildren { children } => MultiResult::GetChildren { children: sorted(children) },
            other => other,
        }
    }

    fn stat(&self, stat: Stat) -> Stat {
        let session = self.sessions.iter().position(|session| *session == stat.ephemeral_owner);
        // The root's counts go on from run to run; both servers have seen the same runs.
        Stat {
            czxid: self.zxid(stat.czxid),
            mzxid: self.zxid(stat.mzxid),
            pzxid: self.zxid(stat.pzxid),
            ctime: 0,
            mtime: i64::from(stat.mtime != stat.ctime && stat.version == 0),
            ephemeral_owner: match (stat.ephemeral_owner, session) {
                (0, _) => 0,
                (_, Some(session)) => session as i64 + 1,
                (_, None) => -1,
            },
            ..stat
        }
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}
