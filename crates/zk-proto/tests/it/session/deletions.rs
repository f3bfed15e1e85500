//! Deletions that go before other requests, several of them as one transaction, and a creation that goes along.

use lockkeeper_zk_proto::client::*;
use lockkeeper_zk_proto::message::*;

use super::pair::*;

fn delete(path: &str) -> ZkRequest {
    ZkRequest::Delete { path: path.into(), version: -1 }
}

fn together(paths: &[&str]) -> ZkRequest {
    let delete = |path: &&str| MultiOperation::Delete { path: (*path).to_owned(), version: -1 };
    ZkRequest::Multi(paths.iter().map(delete).collect())
}

fn delete_all(pair: &mut Pair, paths: &[&str]) -> Vec<RequestId> {
    paths.iter().map(|path| pair.client.submit_deletion(path).unwrap()).collect()
}

#[test]
fn deletions_go_before_the_others_and_behind_a_proof_and_a_single_one_as_it_is() {
    let mut pair = Pair::new();
    pair.submit(create("/a"));
    delete_all(&mut pair, &["/x"]);
    pair.client.submit_ahead(&create("/proof"), None).unwrap();
    pair.go_online();
    assert_eq!(pair.requests(), [create("/proof"), delete("/x"), create("/a")]);
}

#[test]
fn deletions_that_wait_together_are_one_transaction_and_each_is_answered() {
    let mut pair = Pair::new();
    let ids = delete_all(&mut pair, &["/x", "/y", "/z"]);
    pair.submit(create("/a"));
    pair.go_online();
    assert_eq!(pair.requests(), [together(&["/x", "/y", "/z"]), create("/a")]);
    pair.answer(1, &ZkResponse::Multi(vec![MultiResult::Delete; 3]));
    let done: Vec<_> = ids.into_iter().map(|id| (id, Ok(ZkResponse::Done))).collect();
    assert_eq!(pair.outcomes(), done);
}

#[test]
fn a_deletion_that_is_refused_takes_no_other_with_it() {
    let mut pair = Pair::online();
    let ids = delete_all(&mut pair, &["/x", "/gone", "/z"]);
    assert_eq!(pair.requests(), [together(&["/x", "/gone", "/z"])]);
    let results = [ErrorCode::Ok, ErrorCode::NoNode, ErrorCode::RuntimeInconsistency].map(MultiResult::Error);
    pair.answer(1, &ZkResponse::Multi(results.to_vec()));
    assert_eq!(pair.outcomes(), [(ids[1], Err(RequestError::Refused(ErrorCode::NoNode)))]);
    // Never again together: each could be at fault.
    let later = delete_all(&mut pair, &["/later"]);
    assert_eq!(pair.requests(), [delete("/x"), delete("/z"), delete("/later")]);
    for xid in 2..=4 {
        pair.answer(xid, &ZkResponse::Done);
    }
    let done = [ids[0], ids[2], later[0]].map(|id| (id, Ok(ZkResponse::Done)));
    assert_eq!(pair.outcomes(), done);
}

fn list(path: &str) -> ZkRequest {
    ZkRequest::GetChildren { path: path.into(), watch: false }
}

#[test]
fn a_list_behind_deletions_that_had_no_effect_is_made_again_behind_them() {
    let mut pair = Pair::online();
    let deletions = delete_all(&mut pair, &["/q/x", "/q/gone"]);
    let (stale, other) = (pair.submit(list("/q")), pair.submit(list("/other")));
    let watching = pair.send(ZkRequest::GetChildren { path: "/q".into(), watch: true });
    assert_eq!(pair.requests().len(), 4);
    let results = [ErrorCode::RuntimeInconsistency, ErrorCode::NoNode].map(MultiResult::Error);
    pair.answer(1, &ZkResponse::Multi(results.to_vec()));
    let children =
        |names: &[&str]| ZkResponse::GetChildren { children: names.iter().map(|&name| name.into()).collect() };
    pair.answer(2, &children(&["x"]));
    pair.answer(3, &children(&["x"]));
    pair.answer(4, &children(&["x"]));
    let told: Vec<_> = pair.outcomes().into_iter().map(|(id, _)| id).collect();
    assert_eq!(told, [deletions[1], other, watching], "a watch tells of the deletions itself");
    assert_eq!(pair.requests(), [delete("/q/x"), list("/q")]);
    pair.answer(5, &ZkResponse::Done);
    pair.answer(6, &children(&[]));
    assert_eq!(pair.outcomes(), [(deletions[0], Ok(ZkResponse::Done)), (stale, Ok(children(&[])))]);
}

#[test]
fn an_answer_that_fits_no_deletion_claims_no_effect() {
    let mut pair = Pair::online();
    let ids = delete_all(&mut pair, &["/x", "/y"]);
    pair.pump();
    pair.answer(1, &ZkResponse::Multi(vec![MultiResult::Delete]));
    let outcomes = pair.outcomes();
    assert_eq!(outcomes.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    assert!(outcomes.iter().all(|(_, outcome)| outcome.is_err()), "{outcomes:?}");
}

#[test]
fn a_transaction_has_a_maximum_of_deletions() {
    let mut pair = Pair::new();
    let paths: Vec<_> = (0..DELETIONS_MAX + 2).map(|number| format!("/{number}")).collect();
    delete_all(&mut pair, &paths.iter().map(String::as_str).collect::<Vec<_>>());
    pair.go_online();
    let sizes: Vec<_> = pair
        .requests()
        .iter()
        .map(|request| match request {
            ZkRequest::Multi(operations) => operations.len(),
            _ => 1,
        })
        .collect();
    assert_eq!(sizes, [DELETIONS_MAX, 2]);
}

fn along(paths: &[&str], made: &str) -> ZkRequest {
    let (ZkRequest::Multi(mut operations), ZkRequest::Create2(made)) = (together(paths), create(made)) else {
        unreachable!("it is what they return");
    };
    operations.push(MultiOperation::Create2(made));
    ZkRequest::Multi(operations)
}

fn make(pair: &mut Pair, path: &str) -> RequestId {
    let deadline = pair.in_ms(2_000);
    pair.client.submit_creation(&create(path), deadline).unwrap()
}

fn made(path: &str) -> ZkResponse {
    ZkResponse::Create2 { path: path.into(), stat: Stat::default() }
}

#[test]
fn the_next_creation_goes_along_with_the_deletions_before_it_and_is_answered_as_if_alone() {
    let mut pair = Pair::new();
    let created = make(&mut pair, "/q/new");
    pair.submit(list("/q"));
    let deleted = delete_all(&mut pair, &["/q/old"]);
    pair.go_online();
    assert_eq!(pair.requests(), [along(&["/q/old"], "/q/new"), list("/q")]);
    let result = MultiResult::Create2 { path: "/q/new".into(), stat: Stat::default() };
    pair.answer(1, &ZkResponse::Multi(vec![MultiResult::Delete, result]));
    assert_eq!(pair.outcomes(), [(deleted[0], Ok(ZkResponse::Done)), (created, Ok(made("/q/new")))]);
    pair.answer(2, &ZkResponse::GetChildren { children: Vec::new() });
    // No deadline of it is left.
    pair.events();
    pair.advance_to(pair.now + 2_000);
    assert_eq!(pair.outcomes(), []);
}

#[test]
fn a_server_that_tells_no_stat_in_transactions_answers_a_creation_with_its_result() {
    let mut pair = Pair::online();
    let deleted = delete_all(&mut pair, &["/q/old"]);
    let created = make(&mut pair, "/q/new");
    pair.pump();
    let result = MultiResult::Create { path: "/q/new".into() };
    pair.answer(1, &ZkResponse::Multi(vec![MultiResult::Delete, result.clone()]));
    let outcomes = [(deleted[0], Ok(ZkResponse::Done)), (created, Ok(ZkResponse::Multi(vec![result])))];
    assert_eq!(pair.outcomes(), outcomes);
}

#[test]
fn one_creation_goes_along_at_most_and_none_overtakes_another_request() {
    let mut pair = Pair::new();
    make(&mut pair, "/p/a");
    make(&mut pair, "/r/b");
    delete_all(&mut pair, &["/x", "/y"]);
    pair.go_online();
    assert_eq!(pair.requests(), [along(&["/x", "/y"], "/p/a"), create("/r/b")]);
    pair.submit(list("/q"));
    make(&mut pair, "/c");
    delete_all(&mut pair, &["/z"]);
    assert_eq!(pair.requests(), [delete("/z"), list("/q"), create("/c")]);
    make(&mut pair, "/alone");
    pair.submit(create("/d"));
    assert_eq!(pair.requests(), [create("/alone"), create("/d")]);
}

#[test]
fn a_creation_that_a_refused_deletion_held_up_goes_out_once_more_before_what_was_asked_for_later() {
    let mut pair = Pair::online();
    let deleted = delete_all(&mut pair, &["/q/gone"]);
    let created = make(&mut pair, "/q/new");
    let stale = pair.submit(list("/q"));
    assert_eq!(pair.requests(), [along(&["/q/gone"], "/q/new"), list("/q")]);
    pair.submit(list("/later"));
    let results = [ErrorCode::NoNode, ErrorCode::RuntimeInconsistency].map(MultiResult::Error);
    pair.answer(1, &ZkResponse::Multi(results.to_vec()));
    let children =
        |names: &[&str]| ZkResponse::GetChildren { children: names.iter().map(|&name| name.into()).collect() };
    pair.answer(2, &children(&[]));
    assert_eq!(pair.outcomes(), [(deleted[0], Err(RequestError::Refused(ErrorCode::NoNode)))]);
    assert_eq!(pair.requests(), [create("/q/new"), list("/later"), list("/q")]);
    pair.answer(3, &made("/q/new"));
    pair.answer(4, &children(&[]));
    pair.answer(5, &children(&["new"]));
    let told = pair.outcomes();
    assert_eq!((&told[0], &told[2]), (&(created, Ok(made("/q/new"))), &(stale, Ok(children(&["new"])))));
}

/// Nodes stand in the order of their requests, and one that went along may have to be made again.
#[test]
fn a_creation_that_went_along_is_never_overtaken_by_another_below_the_same_node() {
    let mut pair = Pair::new();
    let (first, second) = (make(&mut pair, "/q/1"), make(&mut pair, "/q/2"));
    delete_all(&mut pair, &["/q/x", "/q/y"]);
    pair.go_online();
    let all = [together(&["/q/x", "/q/y"]), create("/q/1"), create("/q/2")];
    assert_eq!(pair.requests(), all, "two of one node are made alone");
    pair.answer(1, &ZkResponse::Multi(vec![MultiResult::Delete; 2]));
    pair.answer(2, &made("/q/1"));
    pair.answer(3, &made("/q/2"));
    assert!(pair.outcomes().ends_with(&[(first, Ok(made("/q/1"))), (second, Ok(made("/q/2")))]));

    delete_all(&mut pair, &["/q/gone"]);
    let third = make(&mut pair, "/q/3");
    assert_eq!(pair.requests(), [along(&["/q/gone"], "/q/3")]);
    delete_all(&mut pair, &["/q/z"]);
    let fourth = make(&mut pair, "/q/4");
    assert_eq!(pair.requests(), [delete("/q/z")], "the next one waits for the answer");
    let results = [ErrorCode::NoNode, ErrorCode::RuntimeInconsistency].map(MultiResult::Error);
    pair.answer(4, &ZkResponse::Multi(results.to_vec()));
    pair.answer(5, &ZkResponse::Done);
    assert_eq!(pair.requests(), [create("/q/3"), create("/q/4")]);
    pair.answer(6, &made("/q/3"));
    pair.answer(7, &made("/q/4"));
    assert!(pair.outcomes().ends_with(&[(third, Ok(made("/q/3"))), (fourth, Ok(made("/q/4")))]));
}

#[test]
fn a_creation_that_is_refused_keeps_no_deletion_from_its_effect() {
    for is_said_which in [true, false] {
        let mut pair = Pair::online();
        let deleted = delete_all(&mut pair, &["/q/old"]);
        let created = make(&mut pair, "/q/new");
        assert_eq!(pair.requests(), [along(&["/q/old"], "/q/new")]);
        let results = [ErrorCode::Ok, ErrorCode::NoAuth].map(MultiResult::Error);
        match is_said_which {
            true => pair.answer(1, &ZkResponse::Multi(results.to_vec())),
            false => pair.refuse(1, ErrorCode::NoAuth),
        }
        assert_eq!(pair.outcomes(), [(created, Err(RequestError::Refused(ErrorCode::NoAuth)))]);
        assert_eq!(pair.requests(), [delete("/q/old")]);
        pair.answer(2, &ZkResponse::Done);
        assert_eq!(pair.outcomes(), [(deleted[0], Ok(ZkResponse::Done))]);
    }
}

#[test]
fn a_creation_that_is_given_up_or_cut_off_is_unanswered_and_never_sent_again() {
    let mut pair = Pair::online();
    delete_all(&mut pair, &["/q/gone"]);
    let created = make(&mut pair, "/q/new");
    assert_eq!(pair.requests().len(), 1);
    let unanswered = |why| Err(RequestError::Unanswered { effect: RequestEffect::Write, why });
    pair.now += 2_000;
    pair.client.handle_timeout(pair.time());
    assert!(pair.outcomes().contains(&(created, unanswered(WhyUnanswered::Deadline))));
    let results = [ErrorCode::NoNode, ErrorCode::RuntimeInconsistency].map(MultiResult::Error);
    pair.answer(1, &ZkResponse::Multi(results.to_vec()));
    assert_eq!(pair.outcomes().len(), 1, "the deletion alone");
    assert!(!pair.requests().contains(&create("/q/new")));

    let deleted = delete_all(&mut pair, &["/q/old"]);
    let created = make(&mut pair, "/q/new");
    pair.pump();
    pair.client.handle_disconnected(pair.time());
    let lost = || unanswered(WhyUnanswered::ConnectionLost);
    assert_eq!(pair.outcomes(), [(deleted[0], lost()), (created, lost())]);
    pair.go_online();
    assert_eq!(pair.requests(), []);
}
