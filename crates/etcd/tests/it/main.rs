//! Tests beyond the common suites of etcd: a balancer, the order of long queues, renewals, names that are used again,
//! rights, TLS, examinations, followers, restored snapshots, losses that are told late, servers in trouble, and servers
//! that are none.

mod access;
mod balanced;
mod examination;
mod following;
mod losses;
#[path = "../support/operator.rs"]
mod operator;
mod queues;
mod renewals;
mod restored;
mod strangers;
#[cfg(feature = "tls")]
mod tls;
mod trouble;

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_core::Result;
use lockkeeper_etcd::EtcdBackend;
use lockkeeper_recipes::Keeper;
use serde_json::json;

use crate::operator::{Operator, encoded, number};

pub(crate) fn open(url: &str) -> EtcdBackend {
    EtcdBackend::open(&url.parse().expect("a URL")).expect("a good URL")
}

pub(crate) fn backend(address: SocketAddr, settings: &str) -> EtcdBackend {
    open(&format!("etcd://{address}{settings}"))
}

pub(crate) fn keeper(address: SocketAddr, settings: &str) -> Keeper {
    Keeper::new(Arc::new(backend(address, settings)))
}

impl Operator {
    pub(crate) async fn put(self, key: &str, value: &str) -> Result<()> {
        self.ask("/v3/kv/put", json!({ "key": encoded(key), "value": encoded(value) })).await.map(|_| ())
    }

    pub(crate) async fn leases(self) -> Result<Vec<i64>> {
        let answer = self.ask("/v3/lease/leases", json!({})).await?;
        Ok(answer["leases"].as_array().into_iter().flatten().map(|lease| number(&lease["ID"])).collect())
    }
}
