//! Orders to a lock that has changed since it was seen, on the memory backend.

use super::*;

fn lock() -> QueueName {
    QueueName::new("door").expect("it is a name")
}

/// The contenders of the lock as they are seen now.
async fn look(keeper: &Keeper) -> Vec<SeenContender> {
    let queue = keeper.contenders("door").await.expect("it can be looked at");
    queue.into_iter().map(|one| SeenContender { id: one.id, token: one.token }).collect()
}

#[tokio::test]
async fn an_order_to_a_holder_that_is_gone_meets_no_other() {
    let keeper = Keeper::memory();
    let gone = keeper.mutex("door").unwrap().lock().await.unwrap();
    let [seen] = look(&keeper).await.try_into().expect("there is one");
    gone.release().await.unwrap();
    let present = keeper.mutex("door").unwrap().lock().await.unwrap();
    let [now] = look(&keeper).await.try_into().expect("there is one");
    let forged = SeenContender { token: seen.token, ..now.clone() };
    let mixed = SeenContender { token: now.token, ..seen.clone() };
    for holder in [seen, forged, mixed, SeenContender { token: None, ..now.clone() }] {
        for order in [
            OperatorOrder::Revoke { holder: holder.clone(), reason: None },
            OperatorOrder::Break { holder: holder.clone() },
        ] {
            let undone = order.carry_out(&keeper, &lock()).await.expect_err("it is another one");
            let is_known = holder.id == now.id;
            let (anew, gone) = ("has changed since it was seen", "does not hold it any more");
            let says = if is_known && holder.token.is_some() { anew } else { gone };
            let is_said = |text: &str| text.contains(says) || is_known && holder.token.is_none();
            assert!(matches!(&undone, Undone::Stale(text) if is_said(text)), "{undone:?}");
        }
    }
    assert!(present.hold().is_held());
    let shown = keeper.contenders("door").await.unwrap();
    assert!(shown.iter().all(|one| one.revocation.is_none()), "{shown:?}");
}

#[tokio::test]
async fn a_freeze_is_made_once_and_a_thaw_meets_the_one_that_was_seen() {
    let keeper = Keeper::memory();
    let freeze = |reason: &str| OperatorOrder::Freeze { reason: reason.to_owned(), wait: Duration::ZERO, kind: None };
    freeze("first").carry_out(&keeper, &lock()).await.expect("it is free");
    let undone = freeze("again").carry_out(&keeper, &lock()).await.expect_err("it is frozen");
    assert!(matches!(&undone, Undone::Stale(text) if text.contains("frozen already")), "{undone:?}");
    let [first] = look(&keeper).await.try_into().expect("there is one");
    let thaw = OperatorOrder::Thaw { freezer: first };
    thaw.carry_out(&keeper, &lock()).await.expect("it is frozen");
    freeze("second").carry_out(&keeper, &lock()).await.expect("it is free");
    let undone = thaw.carry_out(&keeper, &lock()).await.expect_err("it is another one");
    assert!(matches!(undone, Undone::Stale(_)), "{undone:?}");
    assert_eq!(keeper.contenders("door").await.unwrap()[0].frozen.as_deref(), Some("second"));
}

#[tokio::test]
async fn a_lock_that_nothing_uses_is_frozen_as_what_is_named_and_another_one_as_what_it_is() {
    let keeper = Keeper::memory();
    let kind = Some(LockKind::Semaphore);
    let freeze = OperatorOrder::Freeze { reason: "moving".to_owned(), wait: Duration::ZERO, kind };
    freeze.carry_out(&keeper, &lock()).await.expect("it is free");
    let [freezer] = look(&keeper).await.try_into().expect("there is one");
    let permit = keeper.semaphore("door", 2).unwrap();
    let waited = permit.acquire_timeout(Duration::from_millis(20)).await;
    assert!(matches!(waited, Ok(None)), "it waits, and does not fail: {waited:?}");
    OperatorOrder::Thaw { freezer }.carry_out(&keeper, &lock()).await.expect("it is frozen");
    let shared = keeper.rw_lock("door").unwrap();
    let _read = shared.read().await.unwrap();
    let late = OperatorOrder::Freeze { reason: "moving".to_owned(), wait: Duration::from_millis(20), kind };
    let undone = late.carry_out(&keeper, &lock()).await.expect_err("it is held");
    assert!(matches!(&undone, Undone::NotInTime(_)), "it waits as a read/write lock: {undone:?}");
}
