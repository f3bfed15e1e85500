//! An operator's work by the service's own means, past all clients: reads and deletes keys, and ends leases.

use std::net::SocketAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lockkeeper_core::Result;
use lockkeeper_faults::etcd::Server;
use lockkeeper_trials::fixture::failed;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operator(pub(crate) SocketAddr);

#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) key: String,
    pub(crate) lease: i64,
}

impl Operator {
    /// Returns all keys below a folder, which ends with `/`; all there are below no folder.
    pub(crate) async fn keys(self, folder: &str) -> Result<Vec<Stored>> {
        let (key, end) = match folder.strip_suffix('/') {
            // `0` comes behind `/`.
            Some(name) => (folder, format!("{name}0")),
            None => ("\0", "\0".to_owned()),
        };
        let request = json!({ "key": encoded(key), "range_end": encoded(&end) });
        let answer = self.ask("/v3/kv/range", request).await?;
        let kvs = answer["kvs"].as_array().cloned().unwrap_or_default();
        Ok(kvs.iter().map(|kv| Stored { key: decoded(&kv["key"]), lease: number(&kv["lease"]) }).collect())
    }

    /// Deletes a key; returns whether it was there.
    pub(crate) async fn delete(self, key: &str) -> Result<bool> {
        let answer = self.ask("/v3/kv/deleterange", json!({ "key": encoded(key) })).await?;
        Ok(number(&answer["deleted"]) == 1)
    }

    /// Ends a lease; returns whether it was there.
    pub(crate) async fn revoke(self, lease: i64) -> Result<bool> {
        let request = json!({ "ID": lease.to_string() }).to_string();
        match Server::ask(self.0, "/v3/lease/revoke", &request).await {
            Ok(_) => Ok(true),
            Err(error) if error.to_string().contains("lease not found") => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    pub(crate) async fn ask(self, path: &str, request: Value) -> Result<Value> {
        let answer = Server::ask(self.0, path, &request.to_string()).await.map_err(failed)?;
        serde_json::from_str(&answer).map_err(failed)
    }
}

pub(crate) fn encoded(key: &str) -> String {
    BASE64_STANDARD.encode(key)
}

fn decoded(key: &Value) -> String {
    let bytes = BASE64_STANDARD.decode(key.as_str().unwrap_or_default()).expect("etcd encodes keys");
    String::from_utf8(bytes).expect("our keys are text")
}

/// A 64-bit number is a text in JSON; one that is 0 is left out.
pub(crate) fn number(number: &Value) -> i64 {
    number.as_str().map_or(0, |text| text.parse().expect("a number"))
}
