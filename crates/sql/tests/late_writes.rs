//! Writes that a server takes in late, when what they were meant for is gone: a removal or a request when the same
//! session stands in the queue again, a value when a later one was written. A planted fault leaves out what each write
//! is meant for. It is a separate binary, since it has long rounds.

#[path = "support/service.rs"]
mod service;

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_core::{Backend, Request, Revocation};
use lockkeeper_faults::{mariadb, postgres};
use lockkeeper_sql::SqlBackend;
use lockkeeper_trials::Service;
use lockkeeper_trials::late::{Stage, Write};

use crate::service::{MARIADB, POSTGRES};

const SETTINGS: &str = "session_timeout=60s";

/// A server of either kind.
enum Server {
    Postgres(postgres::Server),
    Mariadb(mariadb::Server),
}

impl Server {
    /// `None` if there is no such server here.
    async fn postgres(test: &str) -> Option<Self> {
        if !postgres::availability().or_skip(test) {
            return None;
        }
        Some(Self::Postgres(postgres::Server::standalone().await.expect("a server")))
    }

    async fn mariadb(test: &str) -> Option<Self> {
        if !mariadb::availability().or_skip(test) {
            return None;
        }
        Some(Self::Mariadb(mariadb::Server::standalone().await.expect("a server")))
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Postgres(server) => server.address(),
            Self::Mariadb(server) => server.address(),
        }
    }

    fn service(&self) -> &'static Service {
        match self {
            Self::Postgres(_) => &POSTGRES,
            Self::Mariadb(_) => &MARIADB,
        }
    }

    async fn stage(&self) -> Stage {
        let service = self.service();
        Stage::new(self.address(), move |servers| service.backend(servers, SETTINGS)).await
    }

    /// A stage whose clients do not end what their former connections may still do.
    async fn stage_without_epochs(&self) -> Stage {
        let service = self.service();
        let open = move |servers: &[SocketAddr]| -> Arc<dyn Backend> {
            let url = (service.url)(servers, SETTINGS);
            let backend = SqlBackend::open(&url.parse().expect("a URL")).expect("a good URL");
            backend.testing().ignore_epochs();
            Arc::new(backend)
        };
        Stage::new(self.address(), open).await
    }

    /// Changes the text of a function. What is to be changed must be there.
    async fn plant(&self, function: &str, is: &str, becomes: &str) {
        let text = match self {
            Self::Postgres(server) => {
                server.value(&format!("SELECT pg_get_functiondef('lockkeeper.{function}_v1'::regproc)")).await
            }
            Self::Mariadb(server) => {
                let text = format!(
                    "SELECT CONCAT('CREATE OR REPLACE PROCEDURE lockkeeper.{function}_v1(', param_list, ') ', body) \
                     FROM mysql.proc WHERE db = 'lockkeeper' AND name = '{function}_v1'"
                );
                server.value(&text).await
            }
        };
        let text = text.expect("its text");
        assert!(text.contains(is), "there is no `{is}` to be changed in: {text}");
        let planted = text.replace(is, becomes);
        match self {
            Self::Postgres(server) => server.ask(&planted).await,
            Self::Mariadb(server) => server.ask(&planted).await,
        }
        .expect("the changed function");
    }
}

/// No write of any kind does harm; and each does where it does not say what it is meant for.
async fn none_does_harm_and_each_planted_one_does(server: Server, name: &str, planted: [(&str, &str, &str); 3]) {
    let order = Write::Request(|first| Request::Break { token: first.token });
    let yielding = Write::Request(|_| Request::Yield(Revocation::new(None, None)));
    let stage = server.stage().await;
    stage.play(&format!("{name}, removals"), Write::Removal).await;
    stage.play(&format!("{name}, orders to break"), order).await;
    stage.play(&format!("{name}, requests to yield"), yielding).await;
    stage.play(&format!("{name}, values"), Write::Value).await;
    server.stage_without_epochs().await.find(Write::Value).await;
    for (function, is, becomes) in planted {
        server.plant(function, is, becomes).await;
    }
    stage.find(Write::Removal).await;
    stage.find(order).await;
    stage.find(yielding).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_write_reaches_nothing_that_came_after_on_postgresql() {
    let test = "a_late_write_reaches_nothing_that_came_after_on_postgresql";
    let Some(server) = Server::postgres(test).await else { return };
    let planted = [
        ("leave", "c.ticket = p_ticket AND (c.session = p_session OR c.session IS NULL)", "c.session = p_session"),
        (
            "request",
            "c.ticket = p_ticket AND",
            "c.ticket = (SELECT f.ticket FROM lockkeeper.contender f WHERE f.name = p_name ORDER BY f.token LIMIT 1) \
             AND",
        ),
        ("request", "c.token = p_token", "true"),
    ];
    none_does_harm_and_each_planted_one_does(server, "PostgreSQL", planted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_write_reaches_nothing_that_came_after_on_mariadb() {
    let test = "a_late_write_reaches_nothing_that_came_after_on_mariadb";
    let Some(server) = Server::mariadb(test).await else { return };
    let planted = [
        ("leave", "ticket = p_ticket AND (session = p_session OR session IS NULL)", "session = p_session"),
        (
            "request",
            "SELECT TRUE, c.session INTO v_is_there, v_owner",
            "SELECT c.ticket INTO p_ticket FROM lockkeeper.contender c WHERE c.name = p_name ORDER BY c.token LIMIT 1; \
             SELECT TRUE, c.session INTO v_is_there, v_owner",
        ),
        ("request", "c.token = COALESCE(p_token, c.token)", "TRUE"),
    ];
    none_does_harm_and_each_planted_one_does(server, "MariaDB", planted).await;
}
