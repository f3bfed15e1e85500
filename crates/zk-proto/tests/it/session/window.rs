//! Tests of the window: what goes ahead, what is put off, and how much is unanswered at most.

use std::time::Duration;

use lockkeeper_zk_proto::client::*;
use lockkeeper_zk_proto::message::*;

use super::pair::*;

fn list(path: &str) -> ZkRequest {
    ZkRequest::GetChildren { path: path.into(), watch: false }
}

/// A list of children of this many bytes.
fn children(bytes: usize) -> ZkResponse {
    ZkResponse::GetChildren { children: vec!["x".repeat(bytes)] }
}

fn requests(pair: &mut Pair) -> Vec<ZkRequest> {
    pair.requests()
}

#[test]
fn what_is_submitted_ahead_goes_out_before_all_that_was_not_sent_however_much_is_unanswered() {
    let mut pair = Pair::online();
    for _ in 0..2 * IN_FLIGHT_MAX {
        pair.submit(ZkRequest::WhoAmI);
    }
    assert_eq!(pair.arrivals().len(), IN_FLIGHT_MAX);
    let proof = pair.client.submit_ahead(&create("/proof"), None).unwrap();
    assert_eq!(requests(&mut pair), [create("/proof")]);
    // It is answered in the order of sending, as all are.
    for xid in 1..=IN_FLIGHT_MAX {
        pair.answer(i32::try_from(xid).unwrap(), &ZkResponse::WhoAmI(Vec::new()));
    }
    pair.events();
    pair.refuse(i32::try_from(IN_FLIGHT_MAX).unwrap() + 1, ErrorCode::NoNode);
    assert!(matches!(pair.event(), SessionEvent::Reply(reply) if reply.id == proof));
}

#[test]
fn the_others_keep_their_order_when_one_goes_ahead_or_is_put_off() {
    let mut pair = Pair::new();
    let list_id = pair.submit(list("/q"));
    pair.submit(create("/a"));
    pair.client.submit_ahead(&create("/proof"), None).unwrap();
    pair.submit(create("/b"));
    assert!(pair.client.postpone_all(&[list_id], None));
    pair.submit(create("/c"));
    pair.go_online();
    let expected = [create("/proof"), create("/a"), create("/b"), list("/q"), create("/c")];
    assert_eq!(requests(&mut pair), expected);
    assert!(!pair.client.postpone_all(&[list_id], None), "it was sent");
}

#[test]
fn requests_are_put_off_together_or_not_at_all_and_until_another_deadline() {
    let mut pair = Pair::new();
    let deadline = pair.in_ms(1_000);
    let ids = ["/a", "/b"].map(|path| pair.client.submit(&create(path), deadline).unwrap());
    pair.submit(create("/c"));
    assert!(pair.client.postpone_all(&ids, pair.in_ms(2_000)));
    pair.now += 1_000;
    pair.client.handle_timeout(pair.time());
    assert_eq!(pair.events(), [], "neither is given up at its first deadline");
    assert_eq!(pair.client.poll_timeout(), pair.in_ms(1_000));
    pair.go_online();
    assert_eq!(requests(&mut pair), [create("/c"), create("/a"), create("/b")]);
    let unsent = pair.submit(create("/d"));
    pair.submit(create("/e"));
    assert!(!pair.client.postpone_all(&[unsent, ids[0]], None), "one was sent");
    assert_eq!(requests(&mut pair), [create("/d"), create("/e")]);
}

#[test]
fn nothing_is_put_off_behind_the_end_of_the_session() {
    let mut pair = Pair::online();
    let list_id = pair.submit(list("/q"));
    pair.client.close();
    assert!(!pair.client.postpone_all(&[list_id], None));
    assert_eq!(requests(&mut pair), [list("/q"), ZkRequest::CloseSession]);
}

#[test]
fn few_may_wait_ahead_and_they_have_room_in_a_full_queue() {
    let mut pair = Pair::new();
    for _ in 0..QUEUED_REQUESTS_MAX {
        pair.submit(ZkRequest::WhoAmI);
    }
    for _ in 0..QUEUED_AHEAD_MAX {
        pair.client.submit_ahead(&create("/proof"), None).unwrap();
    }
    assert_eq!(pair.client.submit_ahead(&create("/proof"), None), Err(SubmitError::QueueFull));
}

#[test]
fn long_lists_are_unanswered_as_far_as_their_bytes_have_room() {
    const LIST_BYTES: usize = 600_000;
    let mut pair = Pair::online();
    pair.submit(list("/q"));
    assert_eq!(pair.arrivals().len(), 1);
    pair.answer(1, &children(LIST_BYTES));
    for _ in 0..100 {
        pair.submit(list("/q"));
    }
    pair.submit(create("/a"));
    let sent = pair.arrivals().len();
    assert_eq!(sent, IN_FLIGHT_BYTES_MAX / LIST_BYTES, "of those known to be long");
    pair.answer(2, &children(LIST_BYTES));
    assert_eq!(pair.arrivals().len(), 1, "one answered, one more sent");
    // The rest is short by now.
    pair.answer(3, &children(10));
    assert_eq!(pair.arrivals().len(), 100 - sent - 1 + 1, "each in its turn");
}

#[test]
fn a_single_list_that_is_longer_than_all_that_may_be_unanswered_is_sent_alone() {
    const LIST_BYTES: usize = IN_FLIGHT_BYTES_MAX + 1;
    let config = SessionConfig::new(Duration::from_millis(TIMEOUT_MS)).with_frame_bytes_max(2 * LIST_BYTES);
    let mut pair = Pair::with(config);
    pair.go_online();
    pair.submit(list("/q"));
    assert_eq!(pair.arrivals().len(), 1);
    pair.answer(1, &children(LIST_BYTES));
    pair.submit(list("/q"));
    pair.submit(list("/q"));
    assert_eq!(pair.arrivals().len(), 1);
    pair.answer(2, &children(LIST_BYTES));
    assert_eq!(pair.arrivals().len(), 1);
}
