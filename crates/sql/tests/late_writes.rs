//! Writes that a server takes in late, when what they were meant for is gone: a removal or a request when the same
//! session stands in the queue again, a value when a later one was written. A planted fault leaves out what each write
//! is meant for. It is a separate binary, since it has long rounds.

#[path = "support/pools.rs"]
mod pools;
#[path = "support/service.rs"]
mod service;

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_core::{Backend, Request, Revocation};
use lockkeeper_faults::server::Server;
use lockkeeper_faults::sql::{Setup, Sql};
use lockkeeper_faults::{mariadb, postgres};
use lockkeeper_sql::{Bug, SqlBackend};
use lockkeeper_trials::Service;
use lockkeeper_trials::late::{Stage, Write};

use crate::service::{MARIADB, POSTGRES};

const SETTINGS: &str = "session_timeout=60s";

struct Kind {
    name: &'static str,
    service: &'static Service,
    text_of: fn(&str) -> String,
    /// Functions, and what is changed in each so that a write does not say what it is meant for.
    planted: [(&'static str, &'static str, &'static str); 3],
}

impl Kind {
    /// A stage whose clients are prepared.
    async fn stage(&self, server: SocketAddr, prepare: fn(&SqlBackend)) -> Stage {
        let service = self.service;
        let open = move |servers: &[SocketAddr]| -> Arc<dyn Backend> {
            let url = (service.url)(servers, SETTINGS);
            let backend = SqlBackend::open(&url.parse().expect("a URL")).expect("a good URL");
            prepare(&backend);
            Arc::new(backend)
        };
        Stage::new(server, open).await
    }
}

/// No write of any kind does harm; and each does where it does not say what it is meant for.
async fn none_does_harm_and_each_planted_one_does<Own>(setup: fn() -> Setup<Own>, kind: Kind)
where
    Setup<Own>: Sql,
{
    let Some(server) = Server::start_or_skip(setup()).await else { return };
    let order = Write::Request(|first| Request::Break { token: first.token });
    let yielding = Write::Request(|_| Request::Yield(Revocation::new(None, None)));
    let (stage, name) = (kind.stage(server.address(), |_| {}).await, kind.name);
    stage.play(&format!("{name}, removals"), Write::Removal).await;
    stage.play(&format!("{name}, orders to break"), order).await;
    stage.play(&format!("{name}, requests to yield"), yielding).await;
    stage.play(&format!("{name}, values"), Write::Value).await;
    // Its clients do not end what their former connections may still do.
    let without_epochs = kind.stage(server.address(), |backend| backend.testing().plant(Bug::IgnoresEpochs));
    without_epochs.await.find(Write::Value).await;
    for (function, is, becomes) in kind.planted {
        let text = server.value(&(kind.text_of)(function)).await.expect("its text");
        assert!(text.contains(is), "there is no `{is}` to be changed in: {text}");
        server.ask(&text.replace(is, becomes)).await.expect("the changed function");
    }
    stage.find(Write::Removal).await;
    stage.find(order).await;
    stage.find(yielding).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_write_reaches_nothing_that_came_after_on_postgresql() {
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
    let text_of = |function: &str| format!("SELECT pg_get_functiondef('lockkeeper.{function}_v1'::regproc)");
    let kind = Kind { name: "PostgreSQL", service: &POSTGRES, text_of, planted };
    none_does_harm_and_each_planted_one_does(postgres::Setup::new, kind).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_write_reaches_nothing_that_came_after_on_mariadb() {
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
    let text_of = |function: &str| {
        format!(
            "SELECT CONCAT('CREATE OR REPLACE PROCEDURE lockkeeper.{function}_v1(', param_list, ') ', body) \
             FROM mysql.proc WHERE db = 'lockkeeper' AND name = '{function}_v1'"
        )
    };
    let kind = Kind { name: "MariaDB", service: &MARIADB, text_of, planted };
    none_does_harm_and_each_planted_one_does(mariadb::Setup::new, kind).await;
}

/// A stage whose clients have a pool of deadpool each, over which nothing keeps its order.
async fn over_pools(server: SocketAddr, prepare: fn(&SqlBackend)) -> Stage {
    let open = move |ways: &[SocketAddr]| -> Arc<dyn Backend> {
        let url = format!("postgres://app-db?{SETTINGS}").parse().expect("a URL");
        let backend = SqlBackend::on_pool(pools::deadpool(ways, pools::POOLED), &url).expect("a good URL");
        prepare(&backend);
        Arc::new(backend)
    };
    Stage::new(server, open).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_write_over_another_connection_of_a_pool_reaches_nothing_that_came_after() {
    let Some(server) = Server::start_or_skip(postgres::Setup::new()).await else { return };
    let stage = over_pools(server.address(), |_| {}).await;
    stage.play("a pool, joins", Write::Join).await;
    stage.play("a pool, removals", Write::Removal).await;
    stage.play("a pool, values", Write::Value).await;
    // Its clients do not end what their former connections may still do.
    let without_epochs = over_pools(server.address(), |backend| backend.testing().plant(Bug::IgnoresEpochs)).await;
    without_epochs.find(Write::Join).await;
    without_epochs.find(Write::Value).await;
}
