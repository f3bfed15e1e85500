//! Random scripts of several clients against Apache ZooKeeper and the embedded server: everything a client can see is
//! the same, but for times, absolute transaction numbers, session ids, and what `lib.rs` states as differences.
//!
//! Twenty thousand operations are tried in `cargo xtask test --long`, a tenth otherwise. A difference is printed with
//! what went before it and its seed, which `LOCKKEEPER_SEED` repeats.

mod client;
mod run;
mod script;

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_faults::zookeeper::{Server, Setup, availability};
use lockkeeper_faults::{figures, long};
use lockkeeper_zk_server::EmbeddedServer;

use crate::run::run;
use crate::script::{Script, script};

/// How many operations the long run tries.
const OPERATIONS_LONG: u32 = 20_000;
/// The environment variable that repeats one script.
const SEED_VARIABLE: &str = "LOCKKEEPER_SEED";
/// How many operations a script has: a difference is then found near its beginning.
const OPERATIONS_PER_SCRIPT: usize = 500;
/// Short, so that sessions expire within a second or two.
const TICK: Duration = Duration::from_millis(500);
/// What both servers grant at most: a session that says nothing for a while lives on, however busy the machine is.
const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// The password of the super user on both servers, and its digest.
const SUPER_PASSWORD: &str = "admin";
const SUPER_DIGEST: &str = "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=";
/// How many lines before a difference are shown.
const CONTEXT_LINES: usize = 12;
/// How many lines from a difference on are shown of each server.
const LINES_AFTER: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_scripts_look_the_same_on_apache_and_on_the_embedded_server() {
    if !availability().or_skip("random_scripts_look_the_same_on_apache_and_on_the_embedded_server") {
        return;
    }
    let setup = Setup::new()
        .tick(TICK)
        .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER_DIGEST)
        .property("zookeeper.extendedTypesEnabled", "true")
        .property("znode.container.checkIntervalMs", "3600000")
        .property("zookeeper.forceSync", "no")
        .entry("maxClientCnxns", "0")
        .entry("maxSessionTimeout", "600000");
    let apache = Server::standalone(setup).await.unwrap();
    let embedded = EmbeddedServer::builder()
        .tick(TICK)
        .session_timeout_max(SESSION_TIMEOUT_MAX)
        .container_check(Duration::from_secs(3_600))
        .super_password(SUPER_PASSWORD)
        .start()
        .await
        .unwrap();
    let seed = std::env::var(SEED_VARIABLE).ok().map(|text| text.parse().expect("the seed is a whole number"));
    let operations = long::rounds(OPERATIONS_LONG) as usize;
    let first_seed = seed.unwrap_or_else(|| u64::from(std::process::id()) << 20);
    let count = if seed.is_some() { 1 } else { operations.div_ceil(OPERATIONS_PER_SCRIPT) };
    let (mut done, mut lines_count) = (0, 0);
    for seed in (first_seed..).take(count) {
        let script = script(seed, OPERATIONS_PER_SCRIPT);
        done += script.operations_count();
        lines_count += compare(seed, script, apache.address(), embedded.address().unwrap()).await;
    }
    let text =
        format!("differential: {done} operations from seed {first_seed}, {lines_count} lines seen by clients alike");
    figures::tell(&text);
}

/// Runs a script on both servers; returns how many lines were compared.
async fn compare(seed: u64, script: Script, apache: SocketAddr, embedded: SocketAddr) -> usize {
    let other = script.clone();
    let on_apache = tokio::task::spawn_blocking(move || run(&script, apache));
    let on_embedded = tokio::task::spawn_blocking(move || run(&other, embedded));
    let (on_apache, on_embedded) = tokio::join!(on_apache, on_embedded);
    let broken = format!("a run broke off; {SEED_VARIABLE}={seed} repeats it");
    let (on_apache, on_embedded) = (on_apache.expect(&broken), on_embedded.expect(&broken));
    let differs = on_apache.iter().zip(&on_embedded).position(|(theirs, ours)| !theirs.admits(ours));
    let at = differs.or_else(|| (on_apache.len() != on_embedded.len()).then(|| on_apache.len().min(on_embedded.len())));
    if let Some(at) = at {
        for line in &on_apache[at.saturating_sub(CONTEXT_LINES)..at] {
            eprintln!("       both {line}");
        }
        for (whose, lines) in [("  apache", &on_apache), ("embedded", &on_embedded)] {
            for line in &lines[at.min(lines.len())..(at + LINES_AFTER).min(lines.len())] {
                eprintln!("   {whose} {line}");
            }
        }
        panic!("the servers differ at line {at}; {SEED_VARIABLE}={seed} repeats it");
    }
    on_apache.len()
}
