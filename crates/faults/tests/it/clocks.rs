//! Questions to a server whose clock was moved.

use lockkeeper_faults::server::{Clocked, Server};

pub(crate) const HOUR_S: i64 = 3_600;

/// Asserts that the time which a running server tells follows its clock both ways, and that its clock stays so over a
/// restart; by another server, whose clock nothing moves.
pub(crate) async fn assert_follows<K: Clocked>(usual: &Server<K>, moved: &mut Server<K>) {
    for ahead_s in [HOUR_S, -HOUR_S, 0, HOUR_S] {
        moved.move_clock(ahead_s).await.expect("moved");
        assert_ahead(ahead_s, usual, async || moved.time_s().await.expect("told")).await;
    }
    moved.restart().await.expect("it serves");
    assert_ahead(HOUR_S, usual, async || moved.time_s().await.expect("told")).await;
}

/// Asserts that a clock is so many seconds ahead of a server's, which is looked at before and after: a busy machine
/// lets time pass between two looks. Both are whole seconds.
pub(crate) async fn assert_ahead<K: Clocked>(ahead_s: i64, usual: &Server<K>, moved: impl AsyncFn() -> i64) {
    let before = usual.time_s().await.expect("told");
    let told = moved().await;
    let after = usual.time_s().await.expect("told");
    let expected = before + ahead_s - 1..=after + ahead_s + 1;
    assert!(expected.contains(&told), "{ahead_s} s: {told} is not in {expected:?}");
}
