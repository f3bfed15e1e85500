//! TLS: which servers and users are believed, and why others are not.

use lockkeeper_conformance::until;
use lockkeeper_core::Ticket;
use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::mariadb::{Server, Setup};
use lockkeeper_session::FailureKind;

use crate::engine::{Door, Waking};
use crate::mysql::tests::support::{Client, SOON, can_run, connect, refused, server, soon};

/// The name in the server's certificate.
const NAME: &str = "mariadb.example";

fn authority() -> Authority {
    Authority::new(NAME).expect("an authority")
}

/// A user's way over TLS to a server, which must have this name by this authority.
fn url(server: &Server, user: &str, authority: &Authority, name: &str) -> String {
    let (address, ca) = (server.address(), authority.file("ca"));
    format!("mariadb+tls://{user}@{address}/?session_timeout=10s&server_name={name}&ca={}", ca.display())
}

/// The same with a certificate of the client.
fn identified(url: &str, authority: &Authority) -> String {
    format!("{url}&cert={}&key={}", authority.file("client").display(), authority.file("client-key").display())
}

#[tokio::test]
async fn a_client_with_a_certificate_is_let_in_and_others_are_told_why_they_are_not() {
    if !can_run() {
        return;
    }
    let (ours, other) = (authority(), authority());
    let secured = Setup::new().tls(ours.server_papers()).start().await.expect("a server");
    let good = identified(&url(&secured, "root", &ours, NAME), &ours);
    let client = Client::open(&good, 1).await;
    client.join("door", 10).await;
    assert_eq!(client.greeting.waking, Waking::Doors);
    let by_sslmode = good.replace("mariadb+tls:", "mysql:") + "&sslmode=verify-full";
    drop(connect(&by_sslmode).await.expect("a connection"));
    let unknown = identified(&url(&secured, "root", &other, NAME), &ours);
    refused(&unknown, FailureKind::Refused, &["`ca` names the authority"]).await;
    let elsewhere = identified(&url(&secured, "root", &ours, "elsewhere.example"), &ours);
    refused(&elsewhere, FailureKind::Refused, &["not for the name `elsewhere.example`"]).await;
    let by_address = good.replace(&format!("server_name={NAME}&"), "");
    refused(&by_address, FailureKind::Refused, &["not for the name `127.0.0.1`"]).await;
    let strange = identified(&url(&secured, "root", &ours, NAME), &other);
    refused(&strange, FailureKind::Refused, &["the server refused the TLS handshake"]).await;
    refused(&url(&secured, "root", &ours, NAME), FailureKind::Refused, &["`cert` and `key`"]).await;
    refused(&secured.url(""), FailureKind::Refused, &["`mysql+tls:`"]).await;
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_the_url_asks_for_it() {
    if !can_run() {
        return;
    }
    let (ours, plain) = (authority(), server().await);
    refused(&url(&plain, "root", &ours, NAME), FailureKind::Refused, &["does not speak TLS", "`mysql:`"]).await;
}

#[tokio::test]
async fn a_user_who_must_use_tls_is_told_so_and_needs_no_certificate() {
    if !can_run() {
        return;
    }
    let ours = authority();
    let secured =
        Setup::new().tls(ours.server_papers()).setting("require-secure-transport", "OFF").start().await.expect("it");
    secured.ask("CREATE USER app@'%' REQUIRE SSL; GRANT ALL ON lockkeeper.* TO app@'%'").await.expect("a user");
    refused(&secured.url_as("app", None, ""), FailureKind::Refused, &["'app'", "must use TLS", "`mysql+tls:`"]).await;
    let url = url(&secured, "app", &ours, NAME);
    let (holder, waiter) = (Client::open(&url, 1).await, Client::open(&url, 2).await);
    holder.join("door", 10).await;
    // Over a second connection, which is not let in without TLS either.
    let door = waiter.wire.door(Ticket::from_bits(10), SOON);
    let leave = async {
        let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'";
        until("a wait at the door", async || secured.value(waits).await.is_ok_and(|count| count == "1")).await;
        holder.leave("door", 10).await
    };
    let (opened, left) = soon("the door", async { tokio::join!(door, leave) }).await;
    assert_eq!((opened.expect("no failure"), left.as_str()), (Door::Opened, "left"));
}
