//! TLS: a server that asks for a certificate, and clients that have one, or another authority's, or none.

use lockkeeper_core::{Advice, ErrorKind, Operation};
use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::redis::{Server, Setup};

use crate::connection::tests::{ask, open_url, soon};

const NAME: &str = "redis.example";

#[tokio::test]
async fn a_client_with_a_certificate_is_let_in_and_others_are_told_why_they_are_not() {
    if !lockkeeper_faults::redis::availability().or_skip_here() {
        return;
    }
    let authority = || Authority::new(NAME).expect("an authority");
    let (ours, other) = (authority(), authority());
    let secured = Setup::new().tls(ours.server_certificate_files()).start().await.expect("a server");
    let plain = Server::standalone().await.expect("a server");
    let url = |address, authority: &Authority, name: &str| {
        format!("redis+tls://{address}?connect_timeout=2s&server_name={name}&ca={}", authority.file("ca").display())
    };
    let address = secured.address();
    let identified =
        |url: String| format!("{url}&cert={}&key={}", ours.file("client").display(), ours.file("client-key").display());
    let connection = open_url(&identified(url(address, &ours, NAME))).await.expect("a connection");
    ask(&connection, "SET key value").await;
    for (url, address, kind, word) in [
        (identified(url(address, &other, NAME)), address, ErrorKind::Refused, "`ca` names"),
        (identified(url(address, &ours, "elsewhere.example")), address, ErrorKind::Refused, "elsewhere.example"),
        (url(address, &ours, NAME), address, ErrorKind::Refused, "`cert` and `key`"),
        (format!("redis://{address}?connect_timeout=2s"), address, ErrorKind::ConnectionLost, "`redis+tls:`"),
        (identified(url(plain.address(), &ours, NAME)), plain.address(), ErrorKind::ConnectionLost, "`redis:`"),
    ] {
        let failure = soon("the failure", open_url(&url)).await.map(drop).expect_err(&url);
        let error = failure.into_core(Operation::Connect, false);
        let told = format!("{error:#}");
        eprintln!("{told}");
        assert_eq!(error.kind(), kind, "{told}");
        assert_eq!(error.advice() == Advice::Permanent, kind == ErrorKind::Refused, "{told}");
        assert!(told.contains(word) && told.contains(&address.to_string()) && !told.contains('\n'), "{told}");
    }
}
