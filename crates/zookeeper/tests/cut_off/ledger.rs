//! An account of one session kept from its bytes alone, and until when each rule would believe it.
//!
//! It stands beside the session machine and shares with it only the codec and [`Anchor`]: the times at which it saw
//! bytes sent and received.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_zk_proto::client::{Anchor, AnchorConfig, Exchange, Proof};
use lockkeeper_zk_proto::frame::{Deframer, FRAME_BYTES_DEFAULT_MAX};
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::{
    ConnectResponse, Effect, OpCode, ReplyHeader, RequestHeader, XID_NOTIFICATION, XID_PING,
};
use lockkeeper_zk_proto::time::Timestamp;
use tokio::sync::watch;

use crate::plan::{SESSION_TIMEOUT, TICK};

/// How many proofs a holder writes in each timeout, as the library does.
pub(crate) const PROOFS_PER_TIMEOUT: u32 = 6;

/// How long a session may be believed, by one rule or another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rule {
    /// A timeout from when the last answer to a ping came.
    PingAnswered,
    /// A timeout, less a margin, from when the last ping that was answered was sent.
    PingSent,
    /// A timeout, less the interval of proofs and half a tick, from when the last acknowledged write was sent.
    LastWrite,
    /// The project's own.
    Anchor,
}

impl Rule {
    pub(crate) const NAIVE: [Self; 3] = [Self::PingAnswered, Self::PingSent, Self::LastWrite];
    pub(crate) const ALL: [Self; 4] = [Self::PingAnswered, Self::PingSent, Self::LastWrite, Self::Anchor];
}

/// Reads the clock by which everything here is measured.
pub(crate) fn now() -> BootInstant {
    SystemClock.now()
}

pub(crate) fn timestamp(instant: BootInstant) -> Timestamp {
    Timestamp::from_nanos(instant.as_nanos())
}

pub(crate) fn instant(timestamp: Timestamp) -> BootInstant {
    BootInstant::from_nanos(timestamp.as_nanos())
}

/// An account that the task that moves the bytes and the judge share.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    account: Arc<Mutex<Account>>,
    /// When the last acknowledged write was sent.
    acknowledged: Arc<watch::Sender<Option<BootInstant>>>,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self { account: Arc::new(Mutex::new(Account::new())), acknowledged: Arc::new(watch::Sender::new(None)) }
    }

    /// The connection is a new one.
    pub(crate) fn connected(&self) {
        self.account().connected();
    }

    /// Takes bytes that were written; `sent_at` was read before.
    pub(crate) fn sent(&self, sent_at: BootInstant, bytes: &[u8]) {
        self.account().sent(timestamp(sent_at), bytes);
    }

    /// Takes bytes that were read; `received_at` was read after.
    pub(crate) fn received(&self, received_at: BootInstant, bytes: &[u8]) {
        let write = {
            let mut account = self.account();
            account.received(timestamp(received_at), bytes);
            account.write.map(|write| instant(write.sent_at))
        };
        self.acknowledged.send_if_modified(|last| std::mem::replace(last, write) != write);
    }

    /// Tells when the last acknowledged write was sent.
    pub(crate) fn acknowledged(&self) -> watch::Receiver<Option<BootInstant>> {
        self.acknowledged.subscribe()
    }

    /// Until when the session is believed by `rule` on what was exchanged so far.
    pub(crate) fn believed_until(&self, rule: Rule) -> Option<BootInstant> {
        self.account().believed_until(rule).map(instant)
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().expect("nothing panics under the lock")
    }
}

/// The account itself.
#[derive(Debug)]
struct Account {
    outgoing: Deframer,
    incoming: Deframer,
    handshake: Handshake,
    pings: VecDeque<Timestamp>,
    requests: VecDeque<(Timestamp, Proof)>,
    anchor: Anchor,
    /// The last answered ping.
    ping: Option<Exchange>,
    /// The last acknowledged write.
    write: Option<Exchange>,
}

#[derive(Debug)]
enum Handshake {
    Due,
    Sent(Timestamp),
    Done,
}

const BOUNDS: AnchorConfig = AnchorConfig::new(Some(TICK));

impl Account {
    fn new() -> Self {
        Self {
            outgoing: Deframer::new(FRAME_BYTES_DEFAULT_MAX),
            incoming: Deframer::new(FRAME_BYTES_DEFAULT_MAX),
            handshake: Handshake::Due,
            pings: VecDeque::new(),
            requests: VecDeque::new(),
            anchor: Anchor::new(BOUNDS),
            ping: None,
            write: None,
        }
    }

    fn connected(&mut self) {
        let mut anchor = self.anchor.clone();
        anchor.handle_disconnected();
        *self = Self { anchor, ping: self.ping, write: self.write, ..Self::new() };
    }

    fn sent(&mut self, sent_at: Timestamp, bytes: &[u8]) {
        self.outgoing.push(bytes);
        while let Some(frame) = self.outgoing.next_frame().expect("our own frames") {
            if matches!(self.handshake, Handshake::Due) {
                self.handshake = Handshake::Sent(sent_at);
                continue;
            }
            let header = RequestHeader::decode(&mut Reader::new(frame)).expect("our own requests");
            if header.xid == XID_PING {
                self.pings.push_back(sent_at);
                continue;
            }
            let proof = match OpCode::from_code(header.code).map(OpCode::effect) {
                Some(Effect::Write) => Proof::Write,
                _ => Proof::SignOfLife,
            };
            self.requests.push_back((sent_at, proof));
        }
    }

    fn received(&mut self, received_at: Timestamp, bytes: &[u8]) {
        self.incoming.push(bytes);
        while let Some(frame) = self.incoming.next_frame().expect("ZooKeeper's frames") {
            if let Handshake::Sent(sent_at) = self.handshake {
                self.handshake = Handshake::Done;
                let response = ConnectResponse::decode(frame).expect("ZooKeeper's answer to a handshake");
                if response.session_id != 0 {
                    self.anchor.handle_connected(sent_at, received_at, SESSION_TIMEOUT);
                }
                continue;
            }
            let header = ReplyHeader::decode(&mut Reader::new(frame)).expect("ZooKeeper's replies");
            self.answered(received_at, header);
        }
    }

    /// Replies come in the order of the requests; pings are answered in their own.
    fn answered(&mut self, received_at: Timestamp, header: ReplyHeader) {
        let (sent_at, proof) = match header.xid {
            XID_NOTIFICATION => return,
            XID_PING => (self.pings.pop_front().expect("a ping was sent"), Proof::SignOfLife),
            _ => self.requests.pop_front().expect("a request was sent"),
        };
        if !header.error.is_verdict() {
            return;
        }
        let exchange = Exchange { sent_at, received_at, proof };
        self.anchor.handle_exchange(exchange);
        if header.xid == XID_PING {
            self.ping = Some(exchange);
        }
        if proof == Proof::Write {
            self.write = Some(exchange);
        }
    }

    fn believed_until(&self, rule: Rule) -> Option<Timestamp> {
        match rule {
            Rule::PingAnswered => Some(self.ping?.received_at.after(SESSION_TIMEOUT)),
            Rule::PingSent => {
                let margin = BOUNDS.margin(SESSION_TIMEOUT);
                Some(self.ping?.sent_at.after(SESSION_TIMEOUT).before(margin))
            }
            Rule::LastWrite => {
                let interval = SESSION_TIMEOUT / PROOFS_PER_TIMEOUT;
                Some(self.write?.sent_at.after(SESSION_TIMEOUT).before(interval).before(TICK / 2))
            }
            Rule::Anchor => self.anchor.safe_until(),
        }
    }
}
