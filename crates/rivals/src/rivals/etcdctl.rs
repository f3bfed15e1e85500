//! `etcdctl lock`: the mutex and the session of etcd's own client for Go (`clientv3/concurrency`), in its own program.

use lockkeeper_faults::{Result, etcd, process};
use serde_json::Value;

use super::{Owner, Place, Rival, TIMEOUT};
use crate::contender::{Line, Program, Tells};
use crate::stage::Service;

pub(super) const RIVAL: Rival = Rival {
    name: "`etcdctl lock` (clientv3 `concurrency.Mutex`)",
    owner: Owner::Other,
    service: Service::Etcd,
    asks: "`session.Done()`, by which it ends",
    availability: etcd::availability,
    program,
};

/// Says that it asks, and becomes the program.
const WAITING: &str = r#"echo waiting; exec "$@""#;

fn program(place: &Place) -> Result<Program> {
    let mut command = process::command("sh");
    command.args(["-c", WAITING, "sh", "etcdctl", "--endpoints", &place.hosts(), "lock", &place.lock]);
    command.args(["--ttl", &TIMEOUT.as_secs().to_string(), "--write-out", "json"]).env("ETCDCTL_API", "3");
    Ok(Program { command, tells: Tells::ByRunning, parse })
}

/// It says its key once it holds the lock; the revision at which that was made is the token.
fn parse(line: &str) -> Option<Line> {
    let said: Option<Value> = serde_json::from_str(line).ok();
    match said {
        Some(said) => Some(Line::Granted(said["kvs"][0]["create_revision"].as_u64())),
        None => Line::parse(line),
    }
}
