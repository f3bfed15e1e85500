//! Locking again what the owner already holds, and several locks at once.

use lockkeeper::{Keeper, Member, MultiLock, OwnerKey, Result};

/// A library function that takes the lock it needs, whether its caller has it or not.
async fn add_entry(keeper: &Keeper, owner: &OwnerKey, entry: &str) -> Result<()> {
    let guard = owner.lock(&keeper.mutex("ledger")?).await?;
    println!("{entry}, under token {}", guard.fencing_token());
    guard.release().await
}

// README: begin
#[tokio::main]
async fn main() -> Result<()> {
    let keeper = lockkeeper::connect("memory:")?;
    let owner = OwnerKey::new(); // known in this process alone

    let ledger = owner.lock(&keeper.mutex("ledger")?).await?;
    add_entry(&keeper, &owner, "rent").await?; // locks again, and does not wait for us
    add_entry(&keeper, &owner, "wages").await?;
    ledger.release().await?; // the last one gives the lock back

    // All or none. They are taken in one order, however they are listed here.
    let transfer = MultiLock::new([
        Member::from(keeper.mutex("account-7")?),
        Member::from(keeper.mutex("account-3")?),
        Member::read(keeper.rw_lock("rates")?),
    ])?;
    transfer.lock().await?.release().await
}
// README: end
