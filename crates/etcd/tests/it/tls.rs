//! TLS: a server that asks for a certificate, and clients that have one, or another authority's, or none.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Advice, Error, ErrorKind};
use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::etcd::{self, Server};
use lockkeeper_recipes::Keeper;

use crate::open;

const NAME: &str = "etcd.example";

fn keeper(url: &str) -> Keeper {
    Keeper::new(Arc::new(open(url)))
}

async fn failure(url: &str) -> Error {
    let locking = keeper(url).mutex("door").expect("a name").try_lock().await;
    locking.map(drop).expect_err("there is no way to lock")
}

#[tokio::test]
async fn a_client_with_a_certificate_locks_and_others_are_told_why_they_cannot() {
    if !etcd::availability().or_skip_here() {
        return;
    }
    let authority = || Authority::new(NAME).expect("an authority");
    let (ours, other) = (authority(), authority());
    let server = Server::over_tls(ours.server_certificate_files()).await.expect("a server");
    let address: SocketAddr = server.address();
    let url = |authority: &Authority, name: &str| {
        format!("etcd+tls://{address}?connect_timeout=60s&server_name={name}&ca={}", authority.file("ca").display())
    };
    let identified =
        |url: String| format!("{url}&cert={}&key={}", ours.file("client").display(), ours.file("client-key").display());
    let keeper = keeper(&identified(url(&ours, NAME)));
    let guard = soon("the grant", keeper.mutex("door").expect("a name").lock()).await.expect("the lock is granted");
    assert_eq!(keeper.contenders("door").await.expect("a look").len(), 1);
    soon("the release", guard.release()).await.expect("it is given back");
    for (url, kind, word) in [
        (identified(url(&other, NAME)), ErrorKind::Refused, "`ca` names"),
        (identified(url(&ours, "elsewhere.example")), ErrorKind::Refused, "elsewhere.example"),
        (url(&ours, NAME), ErrorKind::Refused, "`cert` and `key`"),
        (format!("etcd://{address}?connect_timeout=60s"), ErrorKind::ConnectionLost, "`etcd+tls:`"),
    ] {
        let error = soon("the failure", failure(&url)).await;
        let told = format!("{error:#}");
        assert_eq!(error.kind(), kind, "{told}");
        assert!(kind != ErrorKind::Refused || error.advice() == Advice::Permanent, "{told}");
        assert!(told.contains(word) && told.contains(&address.to_string()) && !told.contains('\n'), "{told}");
        eprintln!("{told}");
    }
}
