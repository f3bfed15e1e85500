//! What it costs to follow 10,000 locks, of which 100 change each second, and how soon a change is told.
//!
//! The server is another process, and the follower has its own thread, so that the work of each can be told
//! apart from that of the clients who make the changes. In the plain run changes are made for some seconds, in `cargo
//! xtask test --long` for some minutes. How soon a change is told is judged there; what it costs is judged in an
//! optimised build alone: `cargo test --release -p lockkeeper-zookeeper --test following`.

mod cost;
mod effort;
mod locks;
#[path = "../crowd/server.rs"]
mod server;
mod watcher;

use std::process::ExitCode;
use std::sync::Mutex;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::server::Kind;

/// One at a time, since each measures.
static TURN: Mutex<()> = Mutex::new(());

fn main() -> ExitCode {
    if server::is_asked_to_serve() {
        return server::serve();
    }
    let arguments = Arguments::from_args();
    let trial = |kind: Kind| {
        let name = format!("following_ten_thousand_locks_costs_little_and_tells_at_once_{kind}");
        Trial::test(name.clone(), move || judged(&name, kind))
    };
    libtest_mimic::run(&arguments, [Kind::Embedded, Kind::Apache].map(trial).into()).exit_code()
}

fn judged(name: &str, kind: Kind) -> Result<(), Failed> {
    if !kind.can_start(name) {
        return Ok(());
    }
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let cost = tokio::runtime::Runtime::new()?.block_on(cost::measure(kind))?;
    lockkeeper_faults::figures::tell(&format!("{name}: {cost}"));
    cost.checked(kind)
}
