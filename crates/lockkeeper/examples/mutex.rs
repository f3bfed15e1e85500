//! The library in ten lines: wait for a lock, work, give it back.

// README: begin
#[tokio::main]
async fn main() -> Result<(), lockkeeper::Error> {
    let keeper = lockkeeper::connect("file:")?; // this machine's files; nothing to install
    let backup = keeper.mutex("nightly-backup")?;

    let guard = backup.lock().await?; // first come, first served, across processes
    println!("ours, with token {}", guard.fencing_token()); // greater than every token before
    assert!(backup.try_lock().await?.is_none()); // busy is an answer, not an error

    guard.release().await // or drop it, anywhere
}
// README: end
