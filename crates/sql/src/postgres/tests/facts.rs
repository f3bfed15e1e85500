//! What a server says of itself to an examination.

use crate::postgres::tests::support::{Client, can_run, server, url};
use crate::statement::What;

/// The facts that each server tells.
const FACTS: [&str; 25] = [
    "clock_us",
    "connections",
    "dead_contender",
    "dead_queue",
    "dead_session",
    "fsync",
    "full_page_writes",
    "is_aurora",
    "is_settled",
    "listening",
    "max_connections",
    "owner",
    "schema_version",
    "sees_others",
    "server_encoding",
    "server_version",
    "standbys",
    "standbys_in_step",
    "superuser_reserved_connections",
    "synchronous_commit",
    "synchronous_standby_names",
    "timeout_max_ms",
    "wait_ms",
    "instance",
    "prepared_s",
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
        let fact = facts.iter().find(|row| row.text.as_deref() == Some(name));
        // No session has told its instance, and there is no prepared transaction.
        let is_known = fact.unwrap_or_else(|| panic!("{name} is not told")).ask.is_some();
        assert_eq!(is_known, !matches!(name, "instance" | "prepared_s"), "{name}");
    }
}
