//! The scene of the examples of fences: a process takes a lock, is stopped until the lock was granted to another, and
//! is continued in the middle of its work.

use std::env;
use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use lockkeeper::{Hold, ServiceUrl};

/// The argument that makes such an example the slow holder, followed by the locks' URL and the resource.
const SLOW_HOLDER: &str = "slow-holder";

/// How long the service waits for a holder that is stopped.
pub(crate) const SESSION_TIMEOUT: &str = "session_timeout=4s";

/// What a write tells.
pub(crate) type Written = Result<&'static str, Box<dyn Error>>;

/// Returns the locks' URL and the resource if this process is to be the slow holder.
pub(crate) fn asked_for() -> Option<(ServiceUrl, String)> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [mode, locks, resource] if mode == SLOW_HOLDER => Some((locks.parse().ok()?, resource.clone())),
        _ => None,
    }
}

/// Takes the lock, checks it, and is slow before it writes.
pub(crate) async fn slow_holder(
    locks: &ServiceUrl,
    write: impl AsyncFn(&Hold, &str) -> Written,
) -> Result<(), Box<dyn Error>> {
    let keeper = lockkeeper::connect(locks.clone())?;
    let guard = keeper.mutex("ledger")?.lock().await?;
    assert!(guard.hold().is_held());
    println!("the lock is ours, with token {}", guard.fencing_token());

    // Between the check and the write. No check helps against a stop right here.
    std::io::stdin().lines().next();

    println!("{}", write(guard.hold(), "by the slow holder").await?);
    Ok(())
}

/// Overtakes a slow holder, and has it go on.
pub(crate) async fn demonstrate(
    locks: &ServiceUrl,
    resource: &str,
    write: impl AsyncFn(&Hold, &str) -> Written,
) -> Result<(), Box<dyn Error>> {
    let mut slow = Command::new(env::current_exe()?)
        .args([SLOW_HOLDER, &locks.to_string(), resource])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = BufReader::new(slow.stdout.take().expect("it is piped")).lines();
    println!("slow holder: {}", said.next().expect("it has the lock")?);

    signal(&slow, "-STOP")?;
    println!("it is stopped; its session will expire");
    let keeper = lockkeeper::connect(locks.clone())?;
    let guard = keeper.mutex("ledger")?.lock().await?;
    println!("next holder: the lock is ours, with token {}", guard.fencing_token());
    println!("next holder: {}", write(guard.hold(), "by the next holder").await?);

    signal(&slow, "-CONT")?;
    drop(slow.stdin.take()); // what it has waited for in the middle of its work
    let refused = said.next().expect("it goes on")?;
    println!("slow holder: {refused}");
    slow.wait()?;
    assert!(refused.starts_with("refused"), "the fence refuses it");
    guard.release().await?;
    Ok(keeper.close().await?)
}

fn signal(process: &Child, signal: &str) -> Result<(), Box<dyn Error>> {
    Command::new("kill").args([signal, &process.id().to_string()]).status()?;
    Ok(())
}
