//! A name with several addresses: each is a way to the service.

use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::Backend;
use lockkeeper_core::clock::SystemClock;
use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_session::Names;
use tokio::net::TcpListener;

use super::server::{Need, Server, each_with};
use crate::SqlBackend;
use crate::url::Config;

#[tokio::test]
async fn the_server_that_writes_is_found_past_a_silent_address_and_a_standby() {
    for server in each_with(Need::Standby).await {
        let standby = server.standby().await;
        // It accepts connections by the kernel alone.
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let gone = ReservedPort::take().expect("a port");
        let addresses =
            [silent.local_addr().expect("its address"), gone.address(), standby.address(), server.address()];
        let url = server.url().replace("connect_timeout=60s", "connect_timeout=12s");
        let backend = || {
            let mut config = Config::from_url(&url.parse().expect("a URL")).expect("a good URL");
            config.names = Names::at(addresses.to_vec());
            SqlBackend::with(config, Arc::new(SystemClock)).expect("it is compiled in")
        };
        soon("a set-up", backend().admin().set_up()).await.expect("it is made at the last");
        soon("a session", backend().session()).await.expect("the last serves");
        soon("a look", backend().admin().queues("")).await.expect("the last shows");
    }
}

#[tokio::test]
async fn a_server_is_reached_by_its_unix_socket() {
    for server in each_with(Need::Nothing).await {
        let (user, database, socket) = match &server {
            Server::Postgres(server) => ("postgres", "/postgres", server.socket()),
            Server::Mariadb(server) => ("root", "", server.socket()),
        };
        let socket = socket.display().to_string().replace('/', "%2F");
        let port = server.address().port();
        let url = format!("{}://{user}@{socket}:{port}{database}", server.either("postgres", "mariadb"));
        let backend = SqlBackend::open(&url.parse().expect("a URL")).expect("a good URL");
        soon("a session", backend.session()).await.expect("it serves");
        soon("a look", backend.admin().queues("")).await.expect("it shows");
    }
}
