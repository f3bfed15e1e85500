//! An operator's work that only these tests need: writing keys, and listing leases.

use lockkeeper_core::Result;
use serde_json::json;

use crate::operator::{Operator, encoded, number};

impl Operator {
    /// Writes a key without a lease.
    pub(crate) async fn put(self, key: &str, value: &str) -> Result<()> {
        self.ask("/v3/kv/put", json!({ "key": encoded(key), "value": encoded(value) })).await.map(|_| ())
    }

    /// Returns all leases.
    pub(crate) async fn leases(self) -> Result<Vec<i64>> {
        let answer = self.ask("/v3/lease/leases", json!({})).await?;
        Ok(answer["leases"].as_array().into_iter().flatten().map(|lease| number(&lease["ID"])).collect())
    }
}
