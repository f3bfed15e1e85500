//! A lock that readers share, and one that several may hold a part of.

use std::time::Duration;

// README: begin
#[tokio::main]
async fn main() -> Result<(), lockkeeper::Error> {
    let keeper = lockkeeper::connect("memory:")?;

    let catalogue = keeper.rw_lock("catalogue")?;
    let (one, other) = (catalogue.read().await?, catalogue.read().await?); // readers share
    assert!(catalogue.try_write().await?.is_none());
    drop((one, other));
    let write = catalogue.write().await?;
    let read = write.downgrade().await?; // no writer comes in between
    read.release().await?;

    let connections = keeper.semaphore("connections", 3)?;
    let two = connections.acquire_many(2).await?; // both at once, never one while waiting for the other
    let third = connections.acquire().await?;
    assert!(connections.acquire_timeout(Duration::from_millis(10)).await?.is_none());
    drop((two, third));
    Ok(())
}
// README: end
