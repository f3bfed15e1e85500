//! The anchor against a model of the ensemble: it never outlives the session, and rules that look as good do.

use std::time::Duration;

use lockkeeper_zk_proto::client::{Anchor, AnchorConfig, Exchange, ProofKind};
use lockkeeper_zk_proto::time::Timestamp;
use proptest::prelude::*;

use crate::ensemble::{Answer, Kind, Outcome, Setup, run};

/// Until when each rule believed the session at most, and when the leader ended it.
#[derive(Debug)]
struct Beliefs {
    anchor: Option<u64>,
    /// The newest of our requests that the leader knows of, by the anchor.
    anchored_at: Option<u64>,
    /// When the leader last had a sign of life of us: without margin and rounding, the sharper thing to compare with.
    touched_at: u64,
    /// From the newest answer of any kind: "the server answers, so the session lives".
    any_answer: Option<u64>,
    /// `t_w + T − h − tick/2`, t_w the sending time of the newest acknowledged write.
    newest_write: Option<u64>,
    expired_at: u64,
}

/// Replays what the client saw to each rule; all have the same margin.
fn believe(setup: &Setup, outcome: &Outcome) -> Beliefs {
    let config = AnchorConfig::new(Some(Duration::from_millis(setup.tick)));
    let timeout = Duration::from_millis(setup.timeout);
    let margin = u64::try_from(config.margin(timeout).as_millis()).unwrap();
    let (mut anchor, mut any_answer, mut newest_write, mut safe_until) = (Anchor::new(config), None, None, None);
    for Answer { kind, sent_at, received_at } in &outcome.answers {
        let (sent, received) = (Timestamp::from_millis(*sent_at), Timestamp::from_millis(*received_at));
        let proof = match kind {
            Kind::Connect => {
                anchor.handle_disconnected();
                anchor.handle_connected(sent, received, timeout);
                continue;
            }
            Kind::Ping => ProofKind::SignOfLife,
            Kind::Write => ProofKind::Write,
        };
        anchor.handle_exchange(Exchange { sent_at: sent, received_at: received, proof });
        safe_until = safe_until.max(anchor.safe_until());
        any_answer = any_answer.max(Some(sent_at + setup.timeout - margin));
        if *kind == Kind::Write {
            let write_every = setup.timeout / 6;
            newest_write = newest_write.max(Some(sent_at + setup.timeout - write_every - setup.tick / 2 - margin));
        }
    }
    Beliefs {
        anchor: safe_until.map(|at| at.as_nanos() / 1_000_000),
        anchored_at: anchor.anchored_at().map(|at| at.as_nanos() / 1_000_000),
        touched_at: outcome.touched_at,
        any_answer,
        newest_write,
        expired_at: outcome.expired_at,
    }
}

/// An ensemble with a tick of 2 s, pings in time, cut off at `cut_at`.
fn setup(timeout: u64, cut_at: u64) -> Setup {
    Setup {
        tick: 2_000,
        timeout,
        client_latency: 1,
        quorum_latency: 1,
        ping_phase: 350,
        ping_lateness: vec![0],
        cut_at,
    }
}

#[test]
fn a_leaders_ping_as_late_as_is_allowed_for() {
    // Every phase of a ping against the leader's pings, and every write about half a tick after its answer; the cut
    // comes right after the write is acknowledged.
    for ping_at in (3_000..4_200).step_by(20) {
        for write_after in (980..1_120).step_by(10) {
            let write_at = ping_at + 2 + write_after;
            let requests = [(0, Kind::Connect), (100, Kind::Write), (ping_at, Kind::Ping), (write_at, Kind::Write)];
            let setup = Setup { ping_lateness: vec![100], ..setup(6_000, write_at + 5) };
            let beliefs = believe(&setup, &run(&setup, &requests));
            assert!(beliefs.anchored_at.unwrap() <= beliefs.touched_at, "{ping_at} {write_after} {beliefs:?}");
        }
    }
}

/// A client's traffic: gaps between requests with stalls among them, some writes, now and then a new connection; then
/// a write, the cut right after it is acknowledged, and pings and writes that go on.
fn traffic(timeout: u64) -> impl Strategy<Value = (Setup, Vec<(u64, Kind)>)> {
    let gap = prop_oneof![6 => 1..600_u64, 2 => 600..timeout / 2, 1 => timeout / 2..timeout];
    let kind = prop_oneof![5 => Just(Kind::Ping), 4 => Just(Kind::Write), 1 => Just(Kind::Connect)];
    let ensemble =
        (1..40_u64, 1..40_u64, 0..1_000_u64, prop::collection::vec(0..=100_u64, 1..12), 0..60_u64, 0..2_000_u64);
    (ensemble, prop::collection::vec((gap, kind), 1..30), 1..timeout, 50..3_000_u64).prop_map(
        move |((client_latency, quorum_latency, ping_phase, ping_lateness, cut_after, start), steps, stall, after)| {
            let mut now = start;
            let mut requests = vec![(now, Kind::Connect)];
            for (gap, kind) in steps {
                now += gap;
                requests.push((now, kind));
            }
            now += stall;
            requests.push((now, Kind::Write));
            let acknowledged_at = now + 2 * (client_latency + quorum_latency);
            requests.extend((1..8).map(|n| (now + n * after, if n % 3 == 0 { Kind::Write } else { Kind::Ping })));
            let cut_at = acknowledged_at + cut_after;
            let setup =
                Setup { tick: 2_000, timeout, client_latency, quorum_latency, ping_phase, ping_lateness, cut_at };
            (setup, requests)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_anchor_never_outlives_the_session(
        (setup, requests) in prop_oneof![traffic(4_000), traffic(6_000), traffic(12_000), traffic(30_000)]
    ) {
        let beliefs = believe(&setup, &run(&setup, &requests));
        if let Some(anchor) = beliefs.anchor {
            prop_assert!(anchor <= beliefs.expired_at, "{beliefs:?}");
            prop_assert!(beliefs.anchored_at.unwrap() <= beliefs.touched_at, "{beliefs:?}");
        }
    }
}

#[test]
fn the_model_catches_both_rules_that_look_as_good() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (rounds, mut any_answer, mut newest_write, mut anchored) = (2_000, 0, 0, 0);
    for _ in 0..rounds {
        let (setup, requests) = traffic(6_000).new_tree(&mut runner).unwrap().current();
        let beliefs = believe(&setup, &run(&setup, &requests));
        any_answer += usize::from(beliefs.any_answer > Some(beliefs.expired_at));
        newest_write += usize::from(beliefs.newest_write > Some(beliefs.expired_at));
        anchored += usize::from(beliefs.anchor.is_some());
        assert!(beliefs.anchor <= Some(beliefs.expired_at), "{beliefs:?}");
    }
    println!("of {rounds} rounds: any answer {any_answer}, newest write {newest_write}, anchored {anchored}");
    assert!(any_answer > rounds / 10, "{any_answer} double holds by any answer");
    assert!(newest_write > rounds / 50, "{newest_write} double holds by the newest write");
    assert!(anchored > rounds / 2, "the anchor has something to say in {anchored} rounds");
}
