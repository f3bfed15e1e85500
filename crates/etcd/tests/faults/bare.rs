//! A holder without the library: a lease and a leased key at one member, asked by its gateway, and an account of what
//! was exchanged. Two rules say until when it may believe itself.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lockkeeper_core::FencingToken;
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_faults::etcd::Server;
use lockkeeper_trials::now;
use serde_json::{Value, json};

use crate::belief::{LeaseBelief, Renewal};

const CONNECTION: u64 = 1;

/// A holder whose key stands first in the queue.
pub(crate) struct Bare {
    member: SocketAddr,
    lease: String,
    key: String,
    pub(crate) token: FencingToken,
    pub(crate) belief: LeaseBelief,
    /// Until when it is believed by the simple rule: a timeout from the sending of a keepalive that was answered.
    pub(crate) renewed_until: BootInstant,
}

impl Bare {
    /// Makes a lease at a member, and with it the key of a contender for a mutex.
    pub(crate) async fn start(member: SocketAddr, timeout: Duration, lock: &str) -> Self {
        let sent_at = now();
        let granted = ask(member, "/v3/lease/grant", json!({ "TTL": timeout.as_secs().to_string() })).await;
        let lease = granted["ID"].as_str().expect("a lease").to_owned();
        let belief = LeaseBelief::new(renewal(sent_at, &granted["header"]), timeout);
        let number = lease.parse::<i64>().expect("a number");
        let key = format!("/lockkeeper/q/{lock}/l/m/00000000/{number:016x}-00000000.0000");
        let put = json!({ "key": encoded(&key), "value": encoded("{}"), "lease": lease });
        let stored = ask(member, "/v3/kv/put", put).await;
        let revision = stored["header"]["revision"].as_str().and_then(|revision| revision.parse().ok());
        let token = FencingToken::new(revision.expect("a number"), 0).expect("it is small");
        let renewed_until = sent_at.saturating_add(timeout);
        let mut bare = Self { member, lease, key, token, belief, renewed_until };
        bare.renew().await;
        bare
    }

    /// Renews the lease, and asks for its key behind the answer; a member that stands still answers when it goes on.
    /// A call that fails proves nothing.
    pub(crate) async fn renew(&mut self) {
        let sent_at = now();
        let request = json!({ "ID": self.lease }).to_string();
        let Ok(answer) = Server::ask(self.member, "/v3/lease/keepalive", &request).await else {
            return;
        };
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let Some(seconds) = answer["result"]["TTL"].as_str().and_then(|ttl| ttl.parse().ok()) else {
            return;
        };
        let timeout = Duration::from_secs(seconds);
        self.belief.renewed(renewal(sent_at, &answer["result"]["header"]), timeout);
        self.renewed_until = self.renewed_until.max(sent_at.saturating_add(timeout));
        let witness = self.belief.witness(CONNECTION);
        let request = json!({ "key": encoded(&self.key), "keys_only": true }).to_string();
        if let Ok(answer) = Server::ask(self.member, "/v3/kv/range", &request).await {
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            self.belief.prove(witness, term(&answer["header"]));
        }
    }

    /// Renews once at this moment, and no more: then it is cut off.
    pub(crate) async fn renew_at(mut self, moment: BootInstant) -> Self {
        SystemClock.sleep_until(moment).await;
        self.renew().await;
        self
    }
}

async fn ask(member: SocketAddr, path: &str, request: Value) -> Value {
    let answer = Server::ask(member, path, &request.to_string()).await.expect("the member serves");
    serde_json::from_str(&answer).expect("JSON")
}

fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

fn renewal(sent_at: BootInstant, header: &Value) -> Renewal {
    Renewal { sent_at, connection: CONNECTION, term: term(header) }
}

fn term(header: &Value) -> u64 {
    header["raft_term"].as_str().and_then(|term| term.parse().ok()).expect("a term")
}
