//! Harm to a database of either kind, and what stands before it.

use std::net::SocketAddr;

use lockkeeper_faults::pgbouncer::{self, Lending, PgBouncer};
use lockkeeper_faults::{Availability, mariadb, postgres};
use lockkeeper_trials::Service;

use crate::database::{Server, either};
use crate::operator::Kind;
use crate::service::{MARIADB, POSTGRES};

/// How many connections PgBouncer has: fewer than there are clients.
const POOLED: u32 = 2;

/// What a server is to be able to do, beyond the plain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Need {
    Nothing,
    /// To know what it acknowledged after it was killed.
    Durability,
    Clock,
    Standby,
}

/// How its data were copied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Copied {
    Cold,
    Running,
}

/// What stands between clients and servers, and keeps the clients when a server ends.
#[derive(Debug)]
pub(crate) enum Pooler {
    Postgres(PgBouncer),
    Mariadb(mariadb::Pooler),
}

impl Kind {
    pub(crate) fn clock_availability(self) -> Availability {
        let clock = match self {
            Self::Postgres => postgres::clock_availability,
            Self::Mariadb => mariadb::clock_availability,
        };
        self.availability().and(clock)
    }

    pub(crate) fn pooler_availability(self) -> Availability {
        match self {
            Self::Postgres => self.availability().and(pgbouncer::availability),
            Self::Mariadb => self.availability(),
        }
    }

    pub(crate) const fn service(self) -> &'static Service {
        match self {
            Self::Postgres => &POSTGRES,
            Self::Mariadb => &MARIADB,
        }
    }

    pub(crate) async fn start(self, need: Need) -> Server {
        match self {
            Self::Postgres => {
                let setup = postgres::Setup::new();
                let setup = match need {
                    Need::Nothing | Need::Standby => setup,
                    Need::Durability => setup.durable(),
                    Need::Clock => setup.movable_clock(),
                };
                Server::Postgres(setup.start().await.expect("a server"))
            }
            Self::Mariadb => {
                let setup = mariadb::Setup::new();
                let setup = match need {
                    Need::Nothing => setup,
                    Need::Durability => setup.durable(),
                    Need::Clock => setup.movable_clock(),
                    Need::Standby => setup.replicated(),
                };
                Server::Mariadb(setup.start().await.expect("a server"))
            }
        }
    }
}

impl Pooler {
    pub(crate) async fn start(server: &Server) -> Self {
        match server {
            Server::Postgres(server) => {
                let pooler = PgBouncer::start(server, Lending::Transaction, POOLED).await;
                Self::Postgres(pooler.expect("a pooler"))
            }
            Server::Mariadb(server) => Self::Mariadb(mariadb::Pooler::start(server).await.expect("a pooler")),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Postgres(pooler) => pooler.address(),
            Self::Mariadb(pooler) => pooler.address(),
        }
    }

    /// Has it reach another server from now on.
    pub(crate) fn point_to(&self, server: &Server) {
        match (self, server) {
            (Self::Postgres(pooler), Server::Postgres(server)) => pooler.point_to(server).expect("it reaches it"),
            (Self::Mariadb(pooler), Server::Mariadb(server)) => pooler.point_to(server),
            _ => unreachable!("they are of one kind"),
        }
    }
}

impl Server {
    /// Kills the process of a client's connection, and waits until the server has recovered.
    pub(crate) async fn lose_process(&self) {
        let Self::Postgres(server) = self else { unreachable!("the other has one process") };
        let finding =
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'lockkeeper' ORDER BY random() LIMIT 1";
        server.kill_process(finding).await.expect("it recovers");
    }

    pub(crate) fn pause(&mut self) -> lockkeeper_faults::Result<()> {
        either!(self, server => server.pause())
    }

    pub(crate) fn resume(&mut self) -> lockkeeper_faults::Result<()> {
        either!(self, server => server.resume())
    }

    /// Ends a connection of a client: on PostgreSQL one that was asked for this function last, on MariaDB any. Answers
    /// whether there was one.
    pub(crate) async fn end_connection(&self, function: &str) -> bool {
        match self {
            Self::Postgres(server) => {
                let ending = format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lockkeeper' \
                     AND query LIKE '%.{function}_v1%' ORDER BY random() LIMIT 1"
                );
                !server.ask(&ending).await.expect("the operator's right").is_empty()
            }
            Self::Mariadb(server) => {
                let finding = "SELECT id FROM information_schema.processlist WHERE host LIKE '127.0.0.1:%' \
                               ORDER BY rand() LIMIT 1";
                let Ok(id) = server.value(finding).await else { return false };
                // It may have gone by itself.
                server.ask(&format!("KILL {id}")).await.is_ok()
            }
        }
    }

    /// Ends what one of the clients' connections executes; answers whether one executed anything.
    pub(crate) async fn interrupt_statement(&self) -> bool {
        match self {
            Self::Postgres(server) => {
                let ending = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
                              WHERE application_name = 'lockkeeper' AND state = 'active' ORDER BY random() LIMIT 1";
                !server.ask(ending).await.expect("the operator's right").is_empty()
            }
            Self::Mariadb(server) => {
                // In one statement, since most last for less than two round trips. Waits at doors would be met most.
                let ending = "BEGIN NOT ATOMIC DECLARE v_id BIGINT; \
                              SELECT id INTO v_id FROM information_schema.processlist \
                              WHERE host LIKE '127.0.0.1:%' AND command = 'Query' AND info NOT LIKE '%GET_LOCK%' \
                              ORDER BY rand() LIMIT 1; \
                              IF v_id IS NOT NULL THEN KILL QUERY v_id; SELECT v_id; END IF; END";
                // Its connection may have ended by itself.
                server.ask(ending).await.is_ok_and(|ended| !ended.is_empty())
            }
        }
    }

    /// Copies its data: cold, behind a clean end, or as a snapshot of its volume; and lets it serve again.
    pub(crate) async fn copy(&mut self, copy: Copied) {
        match copy {
            Copied::Cold => {
                self.stop().await;
                self.copy_data();
                self.start_again().await;
            }
            Copied::Running => {
                self.pause().expect("it runs");
                self.copy_data();
                self.resume().expect("it runs");
            }
        }
    }

    async fn stop(&mut self) {
        either!(self, server => server.stop().await);
    }

    fn copy_data(&self) {
        either!(self, server => server.copy_data()).expect("its data are copied");
    }

    /// Puts the copy into the place of its data, and waits until it serves.
    pub(crate) async fn put_back(&mut self) {
        self.kill();
        either!(self, server => server.put_data_back()).expect("the copy is put back");
        self.start_again().await;
    }

    /// Waits until this standby has all that its primary has committed; from then on it receives nothing more.
    pub(crate) async fn catch_up_and_fall_behind(&self, primary: &Self) {
        let done = match (self, primary) {
            (Self::Postgres(standby), Self::Postgres(primary)) => {
                standby.caught_up(primary).await.expect("it catches up");
                standby.fall_behind().await
            }
            (Self::Mariadb(standby), Self::Mariadb(primary)) => {
                standby.caught_up(primary).await.expect("it catches up");
                standby.fall_behind().await
            }
            _ => unreachable!("they are of one kind"),
        };
        done.expect("it falls behind");
    }
}
