//! PostgreSQL loses what it had not flushed when it is killed, and when one of its processes is: places in queues among
//! it. Until those who had them have given up nothing is granted, over no connection, and no token comes a second time.
//!
//! The log is flushed so seldom here that a place which was just taken is always lost.

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::pgbouncer::{self, Lending, PgBouncer};
use lockkeeper_faults::wait;
use lockkeeper_session::FailureKind;

use super::client::{Client, look, open, text, tickets, token};
use super::server::{Kind, Need, Server, can_run, server_with};
use super::states::LONGEST;
use crate::statement::{Argument, RowKind};

/// How often the server writes its log where no commit waits for that: as seldom as it can be told.
const SELDOM: Need = Need::Settings([&[("wal_writer_delay", "10s")], &[]]);

/// What is killed.
#[derive(Clone, Copy, Debug)]
enum Killed {
    Server,
    OwnProcess,
    OtherProcess,
}

const ALL: [Killed; 3] = [Killed::Server, Killed::OwnProcess, Killed::OtherProcess];

/// An hour of tokens.
const HOUR: &str = "(3600000::bigint << 20)";

impl Server {
    async fn suffer(&mut self, killed: Killed) {
        let of_client = |operator| {
            format!(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() \
                 AND application_name {operator} 'lockkeeper' LIMIT 1"
            )
        };
        match killed {
            Killed::Server => self.crash().await,
            Killed::OwnProcess => self.postgres().kill_process(&of_client("=")).await.expect("it recovers"),
            Killed::OtherProcess => {
                let other = self.ask("SELECT pg_sleep(600)");
                let killing = async {
                    self.until_asleep().await;
                    self.postgres().kill_process(&of_client("<>")).await
                };
                let (ended, recovered) = tokio::join!(other, killing);
                ended.expect_err("its process was killed");
                recovered.expect("it recovers");
            }
        }
    }

    async fn tokens_are_an_hour_ahead(&self) {
        let of_queues = format!("UPDATE lockkeeper.queue SET last = last + {HOUR}");
        let of_all = format!(
            "UPDATE lockkeeper.state SET token_ceiling = token_ceiling + 2 * {HOUR}, mark = pg_current_xact_id()::xid"
        );
        for change in [of_queues, of_all] {
            self.ask(&change).await.expect("the operator's right");
        }
    }
}

/// What came of a place that was lost.
#[derive(Debug, Eq, PartialEq)]
struct Loss {
    /// Whether a statement that has not greeted the server was granted the same lock, or saw it free.
    is_granted_unseen: bool,
    is_token_repeated: bool,
}

const SAFE: Loss = Loss { is_granted_unseen: false, is_token_repeated: false };

/// Has a client lose a place, and another one take the lock when that may be had.
async fn lose(server: &mut Server, pooler: Option<&PgBouncer>, killed: Killed, session: u128) -> Loss {
    let url = pooler.map_or_else(|| server.url(), |pooler| pooler.url("postgres"));
    let client = Client::open(&url, session).await;
    let ticket = 10 * session;
    client.join("door", ticket).await;
    assert_eq!(client.leave("door", ticket).await, "left");
    server.tokens_are_an_hour_ahead().await;
    let lost = token(&client.join("door", ticket + 1).await);
    server.suffer(killed).await;
    let mut is_granted_unseen = false;
    for (function, arguments) in [
        ("look", look("door", Some(ticket + 1), false)),
        ("missing", vec![Argument::Ids(vec![ticket + 1])]),
        ("join", client.to_join("door", &[ticket + 2], &[0])),
    ] {
        // A refusal ends a connection that is no pooler's, and so does the death of its process.
        let unseen = if pooler.is_none() { Some(Client::connect(&url, session).await) } else { None };
        match soon(function, unseen.as_ref().unwrap_or(&client).call(function, arguments)).await {
            Ok(_) => is_granted_unseen = true,
            Err(failure) => assert_eq!(failure.kind, FailureKind::Broken, "{failure}"),
        }
    }
    let next = Client::connect(&url, session + 1).await;
    let (_, wait_ms, state) = next.greet().await;
    if !is_granted_unseen {
        assert_eq!(wait_ms, LONGEST, "{killed:?}");
    }
    next.told("settle", vec![text(&state)]).await;
    let next = Client::open(&url, session + 1).await;
    let missing = next.ok("missing", vec![Argument::Ids(vec![ticket + 1])]).await;
    assert_eq!(tickets(&missing, RowKind::Missing), [ticket + 1], "{killed:?}: the place was lost");
    let granted = token(&next.join("door", ticket + 3).await);
    Loss { is_granted_unseen, is_token_repeated: granted <= lost }
}

#[tokio::test]
async fn a_place_that_is_lost_is_granted_only_when_it_is_given_up_and_its_token_never() {
    let Some(mut server) = server_with(Kind::Postgres, SELDOM).await else { return };
    for (session, killed) in (1..).step_by(2).zip(ALL) {
        assert_eq!(lose(&mut server, None, killed, session).await, SAFE, "{killed:?}");
    }
}

#[tokio::test]
async fn a_place_that_is_lost_behind_a_pooler_is_granted_only_when_it_is_given_up() {
    if !can_run(pgbouncer::availability()) {
        return;
    }
    let Some(mut server) = server_with(Kind::Postgres, SELDOM).await else { return };
    let pooler = PgBouncer::start(server.postgres(), Lending::Transaction, 2).await.expect("a pooler");
    for (session, killed) in (1..).step_by(2).zip([Killed::Server, Killed::OtherProcess]) {
        assert_eq!(lose(&mut server, Some(&pooler), killed, session).await, SAFE, "{killed:?}");
    }
}

#[tokio::test]
async fn without_each_of_its_rules_a_lost_place_or_its_token_is_granted_twice() {
    let Some(mut server) = server_with(Kind::Postgres, SELDOM).await else { return };
    server.open(1).await;
    server
        .plant(&[(
            "greatest(((date_part('epoch', clock_timestamp()) * 1000)::bigint << 20), v_floor) + v_count",
            "((date_part('epoch', clock_timestamp()) * 1000)::bigint << 20) + v_count",
        )])
        .await;
    let loss = lose(&mut server, None, Killed::OwnProcess, 3).await;
    assert_eq!(loss, Loss { is_token_repeated: true, ..SAFE }, "no floor");
    server.plant(&[("EXISTS (SELECT FROM lockkeeper.start t WHERE t.started = s.started)", "true")]).await;
    assert!(lose(&mut server, None, Killed::OwnProcess, 5).await.is_granted_unseen, "no row that a crash empties");
    server.plant_grants().await;
    server.wait_ms().await;
    assert!(lose(&mut server, None, Killed::Server, 7).await.is_granted_unseen, "no check in a statement");
}

#[tokio::test]
async fn what_outlives_its_session_and_what_is_asked_to_be_flushed_is_not_lost() {
    let Some(mut server) = server_with(Kind::Postgres, SELDOM).await else { return };
    let synced = format!("{}&commit=sync", server.url());
    let client = Client::open(&synced, 1).await;
    client.join("door", 10).await;
    server.suffer(Killed::OwnProcess).await;
    let client = Client::connect(&synced, 1).await;
    assert_eq!(client.greet().await.0, "ok", "nothing can be lost, and no lock rests");
    assert!(tickets(&client.ok("missing", vec![Argument::Ids(vec![10])]).await, RowKind::Missing).is_empty());
    let client = server.open(2).await;
    let mut kept = client.to_join("gate", &[20], &[0]);
    kept[6] = Argument::Flag(true);
    client.ok("join", kept).await;
    server.suffer(Killed::OwnProcess).await;
    server.wait_ms().await;
    let missing = server.connect(2).await.ok("missing", vec![Argument::Ids(vec![20])]).await;
    assert!(tickets(&missing, RowKind::Missing).is_empty());
}

/// Opens two sessions at the same time, where the ceiling of tokens is to be raised.
async fn open_both(server: &Server, sessions: [u128; 2]) {
    let [first, second] = [server.connect(sessions[0]).await, server.connect(sessions[1]).await];
    server.ask("UPDATE lockkeeper.state SET token_ceiling = 0, mark = pg_current_xact_id()::xid").await.expect("reset");
    let both = async {
        tokio::join!(first.told("open", open(sessions[0], 10_000)), second.told("open", open(sessions[1], 10_000)))
    };
    let (first, second) = soon("both sessions", both).await;
    assert_eq!((first.0.as_str(), second.0.as_str()), ("ok", "ok"));
}

#[tokio::test]
async fn sessions_that_are_opened_at_the_same_time_raise_the_ceiling_without_waiting_for_each_other() {
    const RAISED: &str = "  -- Before the row is locked: two that shared it would wait for each other.\n";
    let Some(server) = server_with(Kind::Postgres, Need::Nothing).await else { return };
    server.open(1).await;
    open_both(&server, [2, 3]).await;
    server.plant(&[(RAISED, "  PERFORM FROM lockkeeper.state s FOR SHARE;\n  PERFORM pg_sleep(0.2);\n")]).await;
    open_both(&server, [4, 5]).await;
    // The server tells of a deadlock a little later. It has seen that of the planted fault, and no other.
    let seen = wait::until("the planted fault is found", SOON, async || {
        let seen = server.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await;
        seen.ok().filter(|seen| seen != "0")
    });
    assert_eq!(seen.await.expect("it waits for itself"), "1");
}
