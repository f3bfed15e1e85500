//! Ways to a server: each address of its name, its socket, and TLS; which servers and users are believed over TLS, and
//! why others are not.

use std::sync::Arc;

use lockkeeper_conformance::{SOON, soon, until};
use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, Ticket};
use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::mariadb::Setup;
use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_session::Names;
use tokio::net::TcpListener;

use super::client::Client;
use super::refusals::{REFUSED, assert_locks, assert_refused};
use super::server::{Kind, Need, SETTINGS, Server, can_run, each_with};
use crate::SqlBackend;
use crate::engine::{NamedLockWait, WakeMethod};
use crate::url::Config;

/// The name in the server's certificate.
const NAME: &str = "server.example";

fn authority() -> Authority {
    Authority::new(NAME).expect("an authority")
}

impl Server {
    /// A user's way over TLS, which must lead to this name by this authority.
    fn url_to(&self, user: &str, authority: &Authority, name: &str) -> String {
        let (scheme, database) = self.either(("postgres", "postgres"), ("mariadb", ""));
        let (address, ca) = (self.address(), authority.file("ca"));
        format!("{scheme}+tls://{user}@{address}/{database}?{SETTINGS}&server_name={name}&ca={}", ca.display())
    }
}

fn identified(url: &str, authority: &Authority) -> String {
    format!("{url}&cert={}&key={}", authority.file("client").display(), authority.file("client-key").display())
}

#[tokio::test]
async fn a_client_with_a_certificate_is_let_in_and_others_are_told_why_they_are_not() {
    let (ours, other) = (authority(), authority());
    for secured in each_with(Need::Certificates(ours.server_certificate_files())).await {
        let plain = secured.kind().start(Need::Nothing).await;
        let user = secured.either("postgres", "root");
        let url = secured.url_to(user, &ours, NAME);
        let good = identified(&url, &ours);
        let (tls, no_tls) = secured.either(("`postgres+tls:`", "`postgres:`"), ("`mysql+tls:`", "`mysql:`"));
        let strange = identified(&url, &other);
        let refused = [
            (identified(&secured.url_to(user, &other, NAME), &ours), &["`ca` names the authority"][..]),
            (good.replace(NAME, "elsewhere.example"), &["not for the name `elsewhere.example`"]),
            (good.replace(&format!("&server_name={NAME}"), ""), &["not for the name `127.0.0.1`"]),
            (url, &[secured.either("certificate", "`cert` and `key`")]),
            (secured.url(), &[tls]),
            (identified(&plain.url_to(user, &ours, NAME), &ours), &["does not speak TLS", no_tls]),
        ];
        for (url, says) in &refused {
            assert_refused(url, REFUSED, says).await;
        }
        if secured.kind() == Kind::Mariadb {
            assert_refused(&strange, REFUSED, &["the server refused the TLS handshake"]).await;
        }
        for server in [&secured, &plain] {
            server.assert_nothing_made().await;
        }
        assert_locks(&good.replace("+tls:", ":").replace("mariadb:", "mysql:").replace('?', "?sslmode=verify-full&"))
            .await;
        assert_locks(&good).await;
        secured.assert_nothing_left().await;
        let wake_method = Client::connect(&good, 1).await.greeting.wake_method;
        assert_eq!(wake_method, secured.either(WakeMethod::Notified, WakeMethod::NamedLocks));
    }
}

#[tokio::test]
async fn a_user_who_must_use_tls_is_told_so_and_needs_no_certificate() {
    if !can_run(lockkeeper_faults::mariadb::availability()) {
        return;
    }
    let ours = authority();
    let setup = Setup::new().tls(ours.server_certificate_files()).setting("require-secure-transport", "OFF");
    let secured = Server::Mariadb(setup.start().await.expect("a server"));
    secured.ask("CREATE USER app@'%' REQUIRE SSL; GRANT ALL ON lockkeeper.* TO app@'%'").await.expect("a user");
    let without = secured.url_as("app", None);
    assert_refused(&without, REFUSED, &["'app'", "must use TLS", "`mysql+tls:`"]).await;
    let url = secured.url_to("app", &ours, NAME);
    let (holder, waiter) = (Client::open(&url, 1).await, Client::open(&url, 2).await);
    holder.join("door", 10).await;
    // Over a second connection, which is not let in without TLS either.
    let free = waiter.wire.await_named_lock(Ticket::from_bits(10), SOON);
    let leave = async {
        let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'";
        until("a wait at the named lock", async || secured.value(waits).await.is_ok_and(|count| count == "1")).await;
        holder.leave("door", 10).await
    };
    let (opened, left) = soon("the named lock", async { tokio::join!(free, leave) }).await;
    assert_eq!((opened.expect("no failure"), left.as_str()), (NamedLockWait::Free, "left"));
}

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
