//! A key of etcd that refuses a holder which was overtaken while it was stopped in the middle of its work.
//!
//! The transactions are sent by `etcdctl`, so that they can be read here; a program sends them by its own client.
//!
//! ```sh
//! cargo run -p lockkeeper --features etcd --example fenced_etcd -- 127.0.0.1:2379
//! ```

mod stopped;

use std::env;
use std::error::Error;
use std::io::Write as _;
use std::process::{Command, Stdio};

use lockkeeper::fence::etcd::contender_key;
use lockkeeper::{Hold, ServiceUrl};

/// The data that the lock guards.
const KEY: &str = "fenced-example";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some((locks, address)) = stopped::asked_for() {
        return stopped::slow_holder(&locks, async |hold, line| write(&locks, &address, hold, line)).await;
    }
    let address = env::args().nth(1).ok_or("the address of a server is missing")?;
    let locks: ServiceUrl = format!("etcd://{address}?{}", stopped::SESSION_TIMEOUT).parse()?;

    stopped::demonstrate(&locks, &address, async |hold, line| write(&locks, &address, hold, line)).await?;

    assert_eq!(etcdctl(&address, &["get", "--print-value-only", KEY], "")?, "by the next holder\n");
    etcdctl(&address, &["del", KEY], "")?;
    Ok(())
}

/// Puts the key, unless the lock is lost.
fn write(locks: &ServiceUrl, address: &str, hold: &Hold, line: &str) -> stopped::Written {
    let mine = contender_key(locks, hold)?;
    let key = String::from_utf8(mine.key)?;
    let transaction = format!("create(\"{key}\") = \"{}\"\n\nput {KEY} \"{line}\"\n\n\n", mine.create_revision);
    let answer = etcdctl(address, &["txn"], &transaction)?;
    Ok(if answer.starts_with("SUCCESS") { "written" } else { "refused: the lock is lost" })
}

fn etcdctl(address: &str, arguments: &[&str], input: &str) -> Result<String, Box<dyn Error>> {
    let mut child = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", address])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child.stdin.take().ok_or("it is piped")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("etcdctl: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
