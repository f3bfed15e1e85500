//! The acts of an operator on a server of either kind of database, for the unit tests and for trials under faults.

use lockkeeper_conformance::SOON;
use lockkeeper_faults::{Availability, mariadb, postgres, wait};

use super::database::{Server, either};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Postgres,
    Mariadb,
}

impl Kind {
    pub(crate) fn availability(self) -> Availability {
        match self {
            Self::Postgres => postgres::availability(),
            Self::Mariadb => mariadb::availability(),
        }
    }
}

impl Server {
    pub(crate) fn kill(&mut self) {
        either!(self, server => server.kill());
    }

    /// Starts it with the data that it has, and waits until it serves.
    pub(crate) async fn start_again(&mut self) {
        either!(self, server => {
            server.start().expect("it starts");
            server.serving().await.expect("it serves");
        });
    }

    /// Moves its clock so many seconds ahead of the machine's.
    pub(crate) async fn move_clock(&self, ahead_s: i64) {
        either!(self, server => server.move_clock(ahead_s).await).expect("its clock is moved");
    }

    /// A standby that has all, and receives what this one commits, a little later.
    pub(crate) async fn standby(&self) -> Self {
        match self {
            Self::Postgres(server) => {
                let standby = server.standby().await.expect("a standby");
                standby.caught_up(server).await.expect("it has all");
                Self::Postgres(standby)
            }
            Self::Mariadb(server) => {
                let replica = server.replica().await.expect("a replica");
                replica.caught_up(server).await.expect("it has all");
                Self::Mariadb(replica)
            }
        }
    }

    pub(crate) async fn promote(&mut self) {
        either!(self, server => server.promote().await).expect("it is promoted");
    }

    /// Holds rows that a query locks until they are let go by [`wake`](Self::wake), as another program's transaction.
    pub(crate) async fn hold(&self, query: &str) {
        let sleep = self.either("SELECT pg_sleep(600)", "SELECT SLEEP(600) INTO @slept");
        self.ask(&format!("BEGIN; {query}; {sleep}; COMMIT")).await.expect_err("it is woken");
    }

    /// Waits until a statement sleeps: one of a function that was made slow, or of another's transaction.
    pub(crate) async fn until_asleep(&self) {
        let is_one = async || self.ask(self.asleep()).await.is_ok_and(|rows| !rows.is_empty()).then_some(());
        wait::until("a statement that sleeps", SOON, is_one).await.expect("one sleeps");
    }

    /// Ends the statements that sleep, as an operator does.
    pub(crate) async fn wake(&self) {
        self.end(self.asleep(), ["SELECT pg_cancel_backend", "KILL QUERY "]).await;
    }

    /// Ends what each of these does, by the statement with its number.
    pub(crate) async fn end(&self, found: &str, [postgres, mariadb]: [&str; 2]) {
        for row in self.ask(found).await.expect("the operator's right") {
            let id = row[0].as_deref().expect("its number");
            let end = self.either(format!("{postgres}({id})"), format!("{mariadb}{id}"));
            self.ask(&end).await.expect("the operator's right");
        }
    }

    fn asleep(&self) -> &'static str {
        self.either(
            "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
            "SELECT id FROM information_schema.processlist WHERE state = 'User sleep'",
        )
    }
}
