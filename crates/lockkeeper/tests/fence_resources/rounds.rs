//! One round after the other: a holder checks its lock, is overtaken, and writes beside the next.

use std::thread;

use lockkeeper::{FencingToken, Hold, Keeper};
use lockkeeper_faults::{Availability, long};

/// How often a holder is overtaken.
const ROUNDS_LONG: u32 = 1_000;

/// The lock that guards the resource.
pub(crate) const LOCK: &str = "ledger";

/// Whether the test that asks can run; if not, it is skipped by the name that the harness gave to its thread.
pub(crate) fn can_run(availability: Availability) -> bool {
    availability.or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

/// Where a resource keeps what is written behind a fence, and without it.
pub(crate) const fn ledger(is_fenced: bool) -> &'static str {
    if is_fenced { "fenced" } else { "plain" }
}

/// Plays the rounds with a fence and without it, and makes sure of what was written.
///
/// `write` is what a holder does some time after its check; it answers whether it has written. It is told how long it
/// waits before, and whether the write is fenced. `written` reads the tokens in the order in which they were written.
pub(crate) async fn compare(
    resource: &str,
    keepers: &[Keeper; 2],
    write: impl AsyncFn(&Hold, u32, bool) -> bool,
    written: impl AsyncFn(bool) -> Vec<FencingToken>,
) {
    let rounds = long::rounds(ROUNDS_LONG);
    for is_fenced in [true, false] {
        for round in 0..rounds {
            let overtaken = keepers[0].mutex(LOCK).unwrap().lock().await.unwrap();
            assert!(overtaken.hold().is_held(), "it has checked, and is stopped from here on");
            keepers[1].admin().break_lock(LOCK, overtaken.fencing_token()).await.unwrap();
            let current = keepers[1].mutex(LOCK).unwrap().lock().await.unwrap();
            // All ways in which the writes of both can overlap: which of them comes first, and which waits longer.
            let late = write(overtaken.hold(), round / 2 % 4, is_fenced);
            let right = write(current.hold(), round / 8 % 4, is_fenced);
            let is_written = if round % 2 == 0 { tokio::join!(late, right).1 } else { tokio::join!(right, late).0 };
            assert!(is_written, "round {round}: a holder that was not overtaken has written");
            current.release().await.unwrap();
        }
    }
    let (fenced, found) = (written(true).await, stale(&written(false).await));
    assert!(fenced.len() >= rounds as usize, "{} writes in {rounds} rounds", fenced.len());
    assert_eq!(stale(&fenced), 0, "{resource}, in {rounds} rounds");
    assert!(found > 0, "no stale write in {rounds} rounds without the fence");
    println!("{resource}: {rounds} rounds, 0 stale writes with the fence, {found} without it");
}

/// Waits a little, in which the other holder may go on.
pub(crate) async fn steps(count: u32) {
    for _ in 0..count * 3 {
        tokio::task::yield_now().await;
    }
}

/// How many writes came after one of a greater token.
fn stale(tokens: &[FencingToken]) -> usize {
    tokens.windows(2).filter(|pair| pair[1] < pair[0]).count()
}

/// Reads tokens that were written as texts.
pub(crate) fn tokens<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<FencingToken> {
    texts.into_iter().map(|text| text.parse().expect("a token was written")).collect()
}
