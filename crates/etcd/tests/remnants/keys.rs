//! The keys in a queue, one by one, and keys that are written beside all clients.

use std::net::SocketAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lockkeeper_faults::etcd::Server;
use serde_json::{Value, json};

async fn ask(address: SocketAddr, path: &str, request: Value) -> Value {
    let answer = Server::ask(address, path, &request.to_string()).await.expect(path);
    serde_json::from_str(&answer).expect("an answer in JSON")
}

/// The keys of the contenders of this lock, with what is stored there; both as the server encodes them.
pub(crate) async fn contenders(address: SocketAddr, lock: &str) -> Vec<(String, String)> {
    let (begin, end) = (format!("/lockkeeper/q/{lock}/"), format!("/lockkeeper/q/{lock}0"));
    let range = json!({ "key": BASE64_STANDARD.encode(begin), "range_end": BASE64_STANDARD.encode(end) });
    let found = ask(address, "/v3/kv/range", range).await;
    let text = |kv: &Value, field| kv[field].as_str().expect("a text").to_owned();
    found["kvs"].as_array().into_iter().flatten().map(|kv| (text(kv, "key"), text(kv, "value"))).collect()
}

pub(crate) async fn put(address: SocketAddr, (key, value): &(String, String)) {
    ask(address, "/v3/kv/put", json!({ "key": key, "value": value })).await;
}
