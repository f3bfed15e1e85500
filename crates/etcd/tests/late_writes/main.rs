//! Writes that the server takes in late, when what they were meant for is gone: a deletion or a request when another
//! contender has the same key, a value when a later one was written. It is a separate binary, since it has long rounds.
//!
//! | file | what is there |
//! | --- | --- |
//! | `harm` | one round of each kind of write, and whether it did harm |
//! | `stopped` | a member of a cluster that stands still with a release unread, and goes on |
//! | `way` | a client whose bytes are held back on their way, while it goes on over its next connection |

#[path = "../support/client.rs"]
mod client;
mod harm;
mod stopped;
mod way;

use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::{figures, long};

use crate::client::can_run;
use crate::harm::{Stage, Write};

/// How many writes of a kind are tried in the long run; the plain one does a tenth.
const ROUNDS: u32 = 200;

/// How often it is tried at most until a write that must do harm was late: on a busy machine its bytes may not have
/// reached the proxy when its connection ends, or the server may not have read them when that ends behind them.
const TRIES_MAX: u32 = 200;

/// No write of this kind ever reaches what came after that which it was meant for.
async fn never_does_harm(write: Write, layout: &str) {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let stage = Stage::new(&server, layout).await;
    let rounds = long::rounds(ROUNDS);
    for round in 0..rounds {
        let harm = stage.play(write).await;
        assert_eq!(harm, None, "round {round}");
    }
    figures::tell(&format!("late_writes {write:?} {layout}: 0 of {rounds} reached what came after"));
}

/// Without their conditions the same writes do.
async fn does_harm_without_the_condition(write: Write, layout: &str) {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let stage = Stage::new(&server, layout).await.without_conditions();
    for tried in 1..=TRIES_MAX {
        if let Some(harm) = stage.play(write).await {
            println!("{write:?} {layout}: found in round {tried}: {harm}");
            return;
        }
    }
    panic!("none of {TRIES_MAX} came late enough to tell anything");
}

macro_rules! late {
    ($($write:ident, $layout:literal: $holds:ident, $planted:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $holds() {
            never_does_harm(Write::$write, $layout).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $planted() {
            does_harm_without_the_condition(Write::$write, $layout).await;
        }
    )*};
}

late! {
    Deletion, "":
        a_late_deletion_leaves_the_next_contender_of_its_session_alone,
        without_the_condition_a_late_deletion_takes_the_next_contender;
    Deletion, "&layout=etcdctl":
        a_late_deletion_of_a_key_that_etcdctl_shares_leaves_the_next_contender_alone,
        without_the_condition_a_late_deletion_of_a_shared_key_takes_the_next_contender;
    Withdrawal, "":
        a_late_withdrawal_of_an_unanswered_join_leaves_the_next_contender_alone,
        without_the_look_a_late_withdrawal_of_an_unanswered_join_takes_the_next_contender;
    Break, "":
        a_late_order_to_break_leaves_the_next_contender_alone,
        without_the_condition_a_late_order_to_break_takes_the_next_contender;
    Yield, "":
        a_late_request_to_yield_is_not_told_to_the_next_contender,
        without_the_condition_a_late_request_to_yield_overwrites_the_next_contender;
    Value, "":
        a_late_value_never_replaces_a_later_one,
        without_the_condition_a_late_value_replaces_a_later_one;
}
