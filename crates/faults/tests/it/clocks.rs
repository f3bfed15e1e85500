//! What is asked of a server whose clock was moved.

/// Asserts that a clock is so many seconds ahead of another one, which is looked at before and after: a busy machine
/// lets time pass between two looks. Both are whole seconds.
pub(crate) async fn assert_ahead(ahead_s: i64, usual: impl AsyncFn() -> i64, moved: impl AsyncFn() -> i64) {
    let before = usual().await;
    let told = moved().await;
    let after = usual().await;
    let expected = before + ahead_s - 1..=after + ahead_s + 1;
    assert!(expected.contains(&told), "{ahead_s} s: {told} is not in {expected:?}");
}
