//! Deletions that go before other requests, several of them as one transaction.

use lockkeeper_zk_proto::client::*;
use lockkeeper_zk_proto::message::*;

use super::pair::*;

fn delete(path: &str) -> Request {
    Request::Delete { path: path.into(), version: -1 }
}

fn together(paths: &[&str]) -> Request {
    let delete = |path: &&str| MultiOperation::Delete { path: (*path).to_owned(), version: -1 };
    Request::Multi(paths.iter().map(delete).collect())
}

fn requests(pair: &mut Pair) -> Vec<Request> {
    pair.arrivals().into_iter().map(|(_, request)| request).collect()
}

fn delete_all(pair: &mut Pair, paths: &[&str]) -> Vec<RequestId> {
    paths.iter().map(|path| pair.client.submit_deletion(path).unwrap()).collect()
}

fn replies(pair: &mut Pair) -> Vec<(RequestId, Result<Response, RequestError>)> {
    let reply = |event| match event {
        Event::Reply(reply) => Some((reply.id, reply.outcome)),
        _ => None,
    };
    pair.events().into_iter().filter_map(reply).collect()
}

#[test]
fn deletions_go_before_the_others_and_behind_a_proof_and_a_single_one_as_it_is() {
    let mut pair = Pair::new();
    pair.submit(create("/a"));
    delete_all(&mut pair, &["/x"]);
    pair.client.submit_ahead(&create("/proof"), None).unwrap();
    pair.go_online();
    assert_eq!(requests(&mut pair), [create("/proof"), delete("/x"), create("/a")]);
}

#[test]
fn deletions_that_wait_together_are_one_transaction_and_each_is_answered() {
    let mut pair = Pair::new();
    let ids = delete_all(&mut pair, &["/x", "/y", "/z"]);
    pair.submit(create("/a"));
    pair.go_online();
    assert_eq!(requests(&mut pair), [together(&["/x", "/y", "/z"]), create("/a")]);
    pair.answer(1, &Response::Multi(vec![MultiResult::Delete; 3]));
    let done: Vec<_> = ids.into_iter().map(|id| (id, Ok(Response::Done))).collect();
    assert_eq!(replies(&mut pair), done);
}

#[test]
fn a_deletion_that_is_refused_takes_no_other_with_it() {
    let mut pair = Pair::online();
    let ids = delete_all(&mut pair, &["/x", "/gone", "/z"]);
    assert_eq!(requests(&mut pair), [together(&["/x", "/gone", "/z"])]);
    let results = [ErrorCode::Ok, ErrorCode::NoNode, ErrorCode::RuntimeInconsistency].map(MultiResult::Error);
    pair.answer(1, &Response::Multi(results.to_vec()));
    assert_eq!(replies(&mut pair), [(ids[1], Err(RequestError::Refused(ErrorCode::NoNode)))]);
    // Never again together: each could be at fault.
    let later = delete_all(&mut pair, &["/later"]);
    assert_eq!(requests(&mut pair), [delete("/x"), delete("/z"), delete("/later")]);
    for xid in 2..=4 {
        pair.answer(xid, &Response::Done);
    }
    let done = [ids[0], ids[2], later[0]].map(|id| (id, Ok(Response::Done)));
    assert_eq!(replies(&mut pair), done);
}

fn list(path: &str) -> Request {
    Request::GetChildren { path: path.into(), watch: false }
}

#[test]
fn a_list_behind_deletions_that_had_no_effect_is_made_again_behind_them() {
    let mut pair = Pair::online();
    let deletions = delete_all(&mut pair, &["/q/x", "/q/gone"]);
    let (stale, other) = (pair.submit(list("/q")), pair.submit(list("/other")));
    let watching = pair.submit(Request::GetChildren { path: "/q".into(), watch: true });
    pair.pump();
    assert_eq!(requests(&mut pair).len(), 4);
    let results = [ErrorCode::RuntimeInconsistency, ErrorCode::NoNode].map(MultiResult::Error);
    pair.answer(1, &Response::Multi(results.to_vec()));
    let children = |names: &[&str]| Response::GetChildren { children: names.iter().map(|&name| name.into()).collect() };
    pair.answer(2, &children(&["x"]));
    pair.answer(3, &children(&["x"]));
    pair.answer(4, &children(&["x"]));
    let told: Vec<_> = replies(&mut pair).into_iter().map(|(id, _)| id).collect();
    assert_eq!(told, [deletions[1], other, watching], "a watch tells of the deletions itself");
    assert_eq!(requests(&mut pair), [delete("/q/x"), list("/q")]);
    pair.answer(5, &Response::Done);
    pair.answer(6, &children(&[]));
    assert_eq!(replies(&mut pair), [(deletions[0], Ok(Response::Done)), (stale, Ok(children(&[])))]);
}

#[test]
fn a_lost_connection_leaves_each_of_them_unanswered() {
    let mut pair = Pair::online();
    let ids = delete_all(&mut pair, &["/x", "/y"]);
    assert_eq!(requests(&mut pair).len(), 1);
    pair.client.handle_disconnected(pair.time());
    let unanswered =
        |id| (id, Err(RequestError::Unanswered { effect: Effect::Write, why: WhyUnanswered::ConnectionLost }));
    assert_eq!(replies(&mut pair), ids.into_iter().map(unanswered).collect::<Vec<_>>());
    pair.go_online();
    assert_eq!(requests(&mut pair), []);
}

#[test]
fn an_answer_that_fits_no_deletion_claims_no_effect() {
    let mut pair = Pair::online();
    let ids = delete_all(&mut pair, &["/x", "/y"]);
    pair.pump();
    pair.answer(1, &Response::Multi(vec![MultiResult::Delete]));
    let outcomes = replies(&mut pair);
    assert_eq!(outcomes.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    assert!(outcomes.iter().all(|(_, outcome)| outcome.is_err()), "{outcomes:?}");
}

#[test]
fn a_transaction_has_a_maximum_of_deletions() {
    let mut pair = Pair::new();
    let paths: Vec<_> = (0..DELETIONS_MAX + 2).map(|number| format!("/{number}")).collect();
    delete_all(&mut pair, &paths.iter().map(String::as_str).collect::<Vec<_>>());
    pair.go_online();
    let sizes: Vec<_> = requests(&mut pair)
        .iter()
        .map(|request| match request {
            Request::Multi(operations) => operations.len(),
            _ => 1,
        })
        .collect();
    assert_eq!(sizes, [DELETIONS_MAX, 2]);
}
