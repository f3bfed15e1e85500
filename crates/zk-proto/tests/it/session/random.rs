//! Any order of commands, answers, losses and nonsense: no panic, no request told twice or never, no stuck timer.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bytes::Bytes;
use lockkeeper_zk_proto::client::*;
use lockkeeper_zk_proto::message::*;
use proptest::collection::vec;
use proptest::prelude::*;

use super::pair::*;

#[derive(Clone, Debug)]
enum Step {
    Submit(u8, Option<u16>),
    Unwatch(u8),
    Cancel(u8),
    Auth,
    Dial,
    Grant,
    Expire,
    Serve(u8),
    Refuse,
    Undo(u8),
    Notify(u8),
    Nonsense(Vec<u8>),
    HangUp,
    Wait(u16),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<u8>(), prop::option::of(1..8_000_u16)).prop_map(|(kind, deadline)| Step::Submit(kind, deadline)),
        1 => any::<u8>().prop_map(Step::Unwatch),
        1 => any::<u8>().prop_map(Step::Cancel),
        1 => Just(Step::Auth),
        3 => Just(Step::Dial),
        4 => Just(Step::Grant),
        8 => (1..6_u8).prop_map(Step::Serve),
        1 => Just(Step::Refuse),
        2 => any::<u8>().prop_map(Step::Undo),
        2 => any::<u8>().prop_map(Step::Notify),
        1 => vec(any::<u8>(), 1..40).prop_map(Step::Nonsense),
        2 => Just(Step::HangUp),
        4 => (1..5_000_u16).prop_map(Step::Wait),
    ]
}

/// Steps, and sometimes an end of the session at a random place.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let end = prop_oneof![Just(Step::Expire), Just(Step::Close)];
    (vec(step(), 1..60), prop::option::weighted(0.5, (end, any::<prop::sample::Index>()))).prop_map(
        |(mut steps, end)| {
            if let Some((end, at)) = end {
                steps.insert(at.index(steps.len()), end);
            }
            steps
        },
    )
}

const PATHS: [&str; 4] = ["/", "/a", "/a/b", "/c"];

fn request(kind: u8) -> ZkRequest {
    let path: String = PATHS[usize::from(kind % 4)].into();
    match kind / 4 % 8 {
        0 => create(&path),
        1 => ZkRequest::Exists { path, watch: true },
        2 => watch_data(&path),
        3 => ZkRequest::GetChildren { path, watch: true },
        4 => ZkRequest::AddWatch { path, mode: AddWatchMode::PersistentRecursive },
        5 => ZkRequest::RemoveWatches { path, kind: WatcherKind::Any },
        6 => ZkRequest::Delete { path, version: -1 },
        _ => proof_write(),
    }
}

fn response(request: &ZkRequest) -> ZkResponse {
    let stat = Stat::default();
    match request {
        ZkRequest::Create2(create) => ZkResponse::Create2 { path: create.path.clone(), stat },
        ZkRequest::Exists { .. } => ZkResponse::Stat(stat),
        ZkRequest::GetData { .. } => data(),
        ZkRequest::GetChildren { .. } => ZkResponse::GetChildren { children: Vec::new() },
        ZkRequest::AddWatch { .. } => ZkResponse::AddWatch,
        ZkRequest::Multi(operations) => ZkResponse::Multi(operations.iter().map(done).collect()),
        _ => ZkResponse::Done,
    }
}

fn done(operation: &MultiOperation) -> MultiResult {
    match operation {
        MultiOperation::Create2(create) => MultiResult::Create { path: create.path.clone() },
        MultiOperation::Delete { .. } => MultiResult::Delete,
        _ => MultiResult::Check,
    }
}

#[derive(Default)]
struct Audit {
    /// Requests submitted, and whether they are over.
    requests: BTreeMap<RequestId, bool>,
    is_over: bool,
}

impl Audit {
    fn check(&mut self, pair: &mut Pair) {
        for event in pair.events() {
            match event {
                SessionEvent::Reply(reply) => {
                    let over = self.requests.get_mut(&reply.id).expect("a request that was submitted");
                    assert!(!std::mem::replace(over, true), "{reply:?} is told twice");
                }
                SessionEvent::Over(_) => assert!(!std::mem::replace(&mut self.is_over, true), "over twice"),
                other => assert!(!self.is_over, "{other:?} after the end"),
            }
        }
        if let Some(safe_until) = pair.client.safe_until() {
            assert!(safe_until <= pair.in_ms(TIMEOUT_MS).unwrap());
        }
    }
}

fn apply(pair: &mut Pair, audit: &mut Audit, unanswered: &mut Vec<(RequestHeader, ZkRequest)>, step: Step) {
    let nth = |audit: &Audit, n: u8| audit.requests.keys().nth(usize::from(n)).copied();
    match step {
        Step::Submit(kind, deadline) => {
            let deadline = deadline.and_then(|millis| pair.in_ms(millis.into()));
            let submitted = match &request(kind) {
                ZkRequest::Delete { path, .. } => pair.client.submit_deletion(path),
                create @ ZkRequest::Create2(_) => pair.client.submit_creation(create, deadline),
                other => pair.client.submit(other, deadline),
            };
            if let Ok(id) = submitted {
                audit.requests.insert(id, false);
            }
        }
        Step::Unwatch(n) => {
            if let Some(id) = nth(audit, n) {
                pair.client.unwatch(id.watch());
            }
        }
        Step::Cancel(n) => {
            if let Some(id) = nth(audit, n)
                && pair.client.cancel(id)
            {
                assert_eq!(audit.requests.insert(id, true), Some(false), "taken back after it was told");
            }
        }
        Step::Auth => {
            let auth = Auth { scheme: "digest".into(), credentials: Bytes::from_static(b"a:1") };
            if let Ok(id) = pair.client.add_auth(auth) {
                audit.requests.insert(id, false);
            }
        }
        Step::Dial => {
            unanswered.clear();
            pair.try_dial();
        }
        Step::Grant | Step::Expire if pair.client.state() == SessionState::Handshake => {
            let is_grant = matches!(step, Step::Grant);
            pair.grant(if is_grant { TIMEOUT_MS } else { 0 }, SESSION_ID);
        }
        Step::Grant | Step::Expire => (),
        Step::Serve(count) => {
            unanswered.extend(pair.arrivals());
            for _ in 0..usize::from(count).min(unanswered.len()) {
                let (header, request) = unanswered.remove(0);
                pair.answer(header.xid, &response(&request));
            }
        }
        Step::Refuse => {
            unanswered.extend(pair.arrivals());
            if !unanswered.is_empty() {
                pair.refuse(unanswered.remove(0).0.xid, ErrorCode::NoNode);
            }
        }
        Step::Undo(n) => {
            unanswered.extend(pair.arrivals());
            if let Some((header, ZkRequest::Multi(operations))) = unanswered.first() {
                let at = usize::from(n) % operations.len();
                let code = |index: usize| match index.cmp(&at) {
                    Ordering::Less => ErrorCode::Ok,
                    Ordering::Equal => ErrorCode::NoNode,
                    Ordering::Greater => ErrorCode::RuntimeInconsistency,
                };
                let results = (0..operations.len()).map(|index| MultiResult::Error(code(index))).collect();
                pair.answer(header.xid, &ZkResponse::Multi(results));
                unanswered.remove(0);
            }
        }
        Step::Notify(n) => {
            let kind =
                [WatchEventKind::NodeDeleted, WatchEventKind::NodeChildrenChanged, WatchEventKind::NodeDataChanged];
            pair.notify(kind[usize::from(n) % 3], PATHS[usize::from(n / 3) % 4]);
        }
        Step::Nonsense(bytes) => pair.client.handle_bytes(pair.time(), &bytes),
        Step::HangUp => pair.client.handle_disconnected(pair.time()),
        Step::Wait(millis) => pair.advance_to(pair.now + u64::from(millis)),
        Step::Close => pair.client.close(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn each_request_is_told_exactly_once_in_any_course_of_events(steps in steps()) {
        let (mut pair, mut audit, mut unanswered) = (Pair::new(), Audit::default(), Vec::new());
        for step in steps {
            apply(&mut pair, &mut audit, &mut unanswered, step);
            audit.check(&mut pair);
        }
        // The end: the requests that are left are told when the session is over.
        pair.client.handle_disconnected(pair.time());
        pair.client.close();
        if !matches!(pair.client.state(), SessionState::Over(_)) {
            pair.dial();
            pair.grant(0, SESSION_ID);
        }
        // Credentials of a session that never was are told with its end too.
        audit.check(&mut pair);
        if let SessionState::Offline = pair.client.state() {
            prop_assert!(false, "closing was refused");
        }
        let untold: Vec<_> = audit.requests.iter().filter(|(_, over)| !**over).collect();
        prop_assert!(untold.is_empty(), "{untold:?} never told");
        prop_assert!(pair.client.watches().is_empty());
        prop_assert_eq!((pair.client.queued(), pair.client.in_flight(), pair.client.poll_timeout()), (0, 0, None));
    }
}
