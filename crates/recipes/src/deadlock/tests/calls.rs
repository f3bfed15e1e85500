//! Tests of the notes that calls make in their table, and when they take them back.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lockkeeper_core::Result;
use parking_lot::Mutex;

use crate::deadlock::KeyCall;
use crate::deadlock::table::{KeyTable, Want};
use crate::deadlock::tests::tables::{holds, key, name};

const ONE_OF_TWO: Want = Want::Permits { wanted: 1, of: Some(2) };

fn asks(table: &Arc<Mutex<KeyTable>>, of: u64, lock: &str, want: Want) -> KeyCall {
    KeyCall::new(table.clone(), key(of), name(lock), want)
}

/// Has a call wait, which is refused at once or goes on waiting.
fn waits(asking: &KeyCall) -> bool {
    let mut waiting = pin!(asking.during(pending::<Result<()>>()));
    match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => true,
        Poll::Ready(refused) => refused.is_ok(),
    }
}

#[test]
fn a_key_waits_no_longer_from_the_moment_on_at_which_it_holds() {
    let table = Arc::new(Mutex::new(KeyTable::default()));
    holds(&mut table.lock(), 1, "door", Want::Alone);
    holds(&mut table.lock(), 2, "gate", ONE_OF_TWO);
    let granted = asks(&table, 1, "gate", ONE_OF_TWO);
    assert!(waits(&granted), "the other permit may come back");
    let hold = granted.holds(Box::new(|| true));
    assert!(waits(&asks(&table, 2, "door", Want::Alone)), "its call goes on, but it does not wait");
    drop((granted, hold));
}

#[test]
fn a_call_that_was_refused_closes_no_circle_for_another_key() {
    let table = Arc::new(Mutex::new(KeyTable::default()));
    holds(&mut table.lock(), 1, "door", Want::Alone);
    holds(&mut table.lock(), 2, "book", Want::Share);
    holds(&mut table.lock(), 3, "book", Want::Share);
    let second = asks(&table, 2, "door", Want::Alone);
    assert!(waits(&second));
    let refused = asks(&table, 1, "book", Want::Alone);
    assert!(!waits(&refused), "the last of the circle");
    assert!(waits(&asks(&table, 3, "door", Want::Alone)), "the one before is refused, and not this one");
    drop((second, refused));
}
