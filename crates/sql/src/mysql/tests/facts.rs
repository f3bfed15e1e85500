//! What a server says of itself to an examination.

use crate::mysql::tests::support::{Client, can_run, server, url};
use crate::statement::What;

/// The facts that each MariaDB tells.
const FACTS: [&str; 16] = [
    "binlog_format",
    "clock_us",
    "history",
    "innodb_flush_log_at_trx_commit",
    "innodb_read_only",
    "is_settled",
    "log_bin",
    "max_connections",
    "read_only",
    "rpl_semi_sync_master_status",
    "schema_version",
    "slaves_connected",
    "sync_binlog",
    "threads_connected",
    "version",
    "wait_ms",
];

#[tokio::test]
async fn a_server_tells_each_fact_that_is_judged() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::connect(&url(&server), 1).await;
    let facts = client.ok("examine", Vec::new()).await;
    assert!(facts.iter().all(|row| row.says(What::Fact)), "{facts:?}");
    for name in FACTS {
        let is_told = facts.iter().any(|row| row.text.as_deref() == Some(name) && row.ask.is_some());
        assert!(is_told, "{name} is not told: {facts:?}");
    }
}
