//! Bounded views: they show what decides for a place, whatever the queue looks like.

use std::collections::HashSet;

use lockkeeper_core::{ConnectionNumber, Contender, ContenderId, Mode, QueueView, Ticket};

use super::client::{all, look, tickets};
use super::server::each;
use crate::statement::{Argument, RowKind};

const MODES: [Mode; 8] =
    [Mode::Mutex, Mode::Read, Mode::Write, Mode::Exclusive, Mode::Acquire, Mode::Permit, Mode::Candidate, Mode::Member];

/// Queues of some kinds, first contender first.
fn queues() -> Vec<Vec<u8>> {
    let mixed = |seed: usize, count: usize, kinds: usize| -> Vec<u8> {
        (0..count).map(|at| u8::try_from((at * at * 7 + seed * at + seed) % 11 % kinds).unwrap()).collect()
    };
    let mut one_far_ahead = vec![1; 60];
    one_far_ahead[2] = 2;
    let mut one_behind = vec![0; 40];
    one_behind[39] = 4;
    vec![vec![0; 3], vec![0; 17], vec![0; 50], one_far_ahead, one_behind, mixed(3, 60, 3), mixed(5, 45, 8)]
}

#[tokio::test]
async fn a_bounded_view_shows_at_least_what_decides_for_its_place_and_counts_the_others_ahead() {
    for server in each().await {
        let client = server.open(1).await;
        for (number, modes) in queues().into_iter().enumerate() {
            let name = format!("queue-{number}");
            let base = u128::try_from(number).unwrap() << 64;
            // An older contender that has left, whose mode must not matter any more.
            client.ok("join", client.to_join(&name, &[base | 5_000], &[7])).await;
            client.leave(&name, base | 5_000).await;
            let all_tickets: Vec<u128> = (0..modes.len()).map(|at| base | (at as u128)).collect();
            for (ticket, mode) in all_tickets.iter().zip(&modes) {
                client.ok("join", client.to_join(&name, &[*ticket], &[*mode])).await;
            }
            let id = |ticket: u128| ContenderId::new(Ticket::from_bits(ticket).to_string());
            let contender =
                |at: usize| Contender { id: id(all_tickets[at]), ticket: None, mode: MODES[usize::from(modes[at])] };
            let whole = QueueView::new(ConnectionNumber(1), (0..modes.len()).map(contender).collect::<Vec<_>>());
            for at in (0..modes.len()).map(Some).chain([None]) {
                let around = at.map(|at| all_tickets[at]);
                let rows = client.ok("look", look(&name, around, false)).await;
                let shown: HashSet<_> = tickets(&rows, RowKind::Contender).into_iter().map(id).collect();
                assert_eq!(
                    shown.len(),
                    all(&rows, RowKind::Contender).len(),
                    "none is shown twice: {name} around {at:?}"
                );
                let least = whole.clone().around(around.map(id).as_ref());
                let missing: Vec<_> = least.contenders.iter().filter(|least| !shown.contains(&least.id)).collect();
                assert!(missing.is_empty(), "{name} around {at:?} lacks {missing:?}");
                let ahead = at.unwrap_or(modes.len());
                let shown_ahead = all_tickets[..ahead].iter().filter(|ticket| shown.contains(&id(**ticket))).count();
                let omitted = all(&rows, RowKind::Omitted).first().map_or(0, |row| row.number.expect("a count"));
                assert_eq!(usize::try_from(omitted).unwrap(), ahead - shown_ahead, "{name} around {at:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_join_behind_thousands_reads_few_and_counts_a_thousand() {
    for server in each().await {
        let client = server.open(1).await;
        for batch in 0..3_u128 {
            let tickets: Vec<u128> = (1..=1_000).map(|ticket| batch << 64 | ticket).collect();
            client.ok("join", client.to_join("door", &tickets, &[0; 1_000])).await;
        }
        let rows = client.join("door", 9 << 64).await;
        assert!(all(&rows, RowKind::Contender).len() <= 24, "{} rows", rows.len());
        let omitted = all(&rows, RowKind::Omitted)[0].number.expect("a count");
        assert!((990..=1_000).contains(&omitted), "{omitted}");
        assert!(tickets(&rows, RowKind::Contender).contains(&1), "the first is shown");
    }
}

#[tokio::test]
async fn a_view_shows_what_the_other_part_of_a_lock_is_used_for() {
    for server in each().await {
        let client = server.open(1).await;
        let mut permit = client.to_join("pool", &[10], &[5]);
        permit[3] = Argument::Int(2);
        let rows = client.ok("join", permit).await;
        assert!(all(&rows, RowKind::Elsewhere).is_empty());
        let rows = client.join("pool", 11).await;
        assert_eq!(all(&rows, RowKind::Elsewhere)[0].mode, Some(5));
        assert_eq!(tickets(&rows, RowKind::Contender), [11]);
        let mut waiter = client.to_join("pool", &[12], &[4]);
        waiter[3] = Argument::Int(1);
        let rows = client.ok("join", waiter).await;
        assert_eq!(all(&rows, RowKind::Elsewhere)[0].mode, Some(0));
    }
}
