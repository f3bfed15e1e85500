//! TLS to servers with a TLS port: the embedded one, and Apache's. What certificates are believed is
//! `lockkeeper-tls`'s.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Advice, Backend, Error, ErrorKind, ServiceUrl};
use lockkeeper_faults::Availability;
use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_faults::zookeeper::{self, Server, Setup};
use lockkeeper_recipes::Keeper;
use lockkeeper_zk_server::{EmbeddedServer, Tls};
use lockkeeper_zookeeper::{Client, Config, NewNode, ZooKeeperBackend};

use crate::support::server::can_run;

/// What the servers' certificates are for.
const NAME: &str = "zk.example";

/// How long a refusal for good may take.
const REFUSED_WITHIN: Duration = Duration::from_secs(3);

fn authority() -> Authority {
    Authority::new(NAME).expect("an authority")
}

/// A server with a TLS port.
async fn embedded(authority: &Authority) -> EmbeddedServer {
    let certificates = authority.server_certificate_files();
    let tls = Tls::from_files(&certificates.cert, &certificates.key, None).expect("good files");
    EmbeddedServer::builder().tls(tls).start().await.expect("a server")
}

/// The URL of a server that is believed if its certificate is by this authority.
fn url(server: impl std::fmt::Display, authority: &Authority, settings: &str) -> ServiceUrl {
    let ca = authority.file("ca");
    let url = format!("zk+tls://{server}?connect_timeout=60s&ca={}&server_name={NAME}{settings}", ca.display());
    url.parse().expect("a URL")
}

fn keeper(url: &ServiceUrl) -> Keeper {
    Keeper::new(Arc::new(ZooKeeperBackend::open(url).expect("a good URL")))
}

/// Opens a session that must be refused for good, and at once.
async fn refusal(url: &ServiceUrl, words: &str) {
    let backend = ZooKeeperBackend::open(url).expect("a good URL");
    let since_call = Sleeper::start();
    let error: Error = soon("the refusal", backend.session()).await.expect_err("no session");
    assert!(since_call.slept() < REFUSED_WITHIN, "{:?}: {error}", since_call.slept());
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Refused, Advice::Permanent), "{error:#}");
    assert!(format!("{error:#}").contains(words), "{error}");
}

/// At any end of the runtime, the session's last bytes are whole records.
#[tokio::test]
async fn a_runtime_that_ends_frees_its_locks_over_tls_too() {
    // Far longer than the next caller waits.
    const WAIT_MAX: Duration = Duration::from_secs(10);
    let authority = authority();
    let server = embedded(&authority).await;
    let url = url(server.address().unwrap(), &authority, "&session_timeout=40s");
    let (ours, theirs) = (keeper(&url), keeper(&url));
    let ended = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let guard = theirs.mutex("reports").unwrap().lock().await.unwrap();
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(guard);
            });
            tokio::task::yield_now().await;
        });
    });
    soon("the end of the runtime", ended).await.unwrap();
    let since_end = Sleeper::start();
    let granted = soon("the grant", ours.mutex("reports").unwrap().lock()).await.unwrap();
    assert!(granted.hold().is_held() && since_end.slept() < WAIT_MAX, "{:?}", since_end.slept());
}

#[tokio::test]
async fn more_than_one_record_is_written_and_read_whole() {
    let authority = authority();
    let server = embedded(&authority).await;
    let url = url(server.address().unwrap(), &authority, "");
    let client = Client::connect(&Config::from_url(&url).unwrap()).await.unwrap();
    // Far more than a TLS record, and than a socket's buffer takes at once.
    let data: Vec<u8> = (0..900_000_u32).map(|position| position.to_le_bytes()[1]).collect();
    soon("the creation", client.create(NewNode::persistent("/a").with_data(data.clone()))).await.unwrap();
    let mut reads = tokio::task::JoinSet::new();
    for _ in 0..8 {
        reads.spawn(client.get_data("/a"));
    }
    while let Some(read) = soon("a read", reads.join_next()).await {
        assert!(read.unwrap().unwrap().0 == data);
    }
}

#[tokio::test]
async fn a_server_whose_authority_is_not_trusted_is_refused_in_time() {
    let (ours, stranger) = (authority(), authority());
    let server = embedded(&ours).await;
    let url = url(server.address().unwrap(), &stranger, "");
    refusal(&url, "its certificate is not by an authority that is trusted here").await;
    let locking = soon("the refusal", keeper(&url).mutex("reports").unwrap().lock()).await;
    assert_eq!(locking.expect_err("no lock").kind(), ErrorKind::Refused, "it is not tried again and again");
    assert!(server.session_ids().await.is_empty(), "nothing was asked of the server");
}

/// What a server needs for a TLS port and `zookeeper.jar` does not name.
const NETTY: [&str; 2] = ["/usr/share/java/netty-codec.jar", "/usr/share/java/netty-resolver.jar"];

#[tokio::test]
async fn a_real_server_with_its_own_tls_port_gives_locks_to_clients_it_trusts() {
    let netty = || match NETTY.iter().find(|jar| !Path::new(jar).exists()) {
        None => Availability::Present,
        Some(jar) => Availability::Missing(format!("{jar} is not there (Debian: libnetty-java)")),
    };
    if !can_run(zookeeper::availability().and(netty)) {
        return;
    }
    let ours = authority();
    // Java takes the key and the certificate in one.
    let store = ours.file("store");
    let text = |name| fs::read_to_string(ours.file(name)).unwrap();
    fs::write(&store, text("server-key") + &text("server")).unwrap();
    let port = ReservedPort::take().unwrap();
    let setup = NETTY
        .into_iter()
        .fold(Setup::new(), Setup::jar)
        .entry("secureClientPort", &port.number().to_string())
        .entry("secureClientPortAddress", "127.0.0.1")
        .entry("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
        .entry("ssl.keyStore.location", &store.display().to_string())
        .entry("ssl.trustStore.location", &ours.file("ca").display().to_string());
    let server = Server::standalone(setup).await.expect("a server");
    let identity = format!("&cert={}&key={}", ours.file("client").display(), ours.file("client-key").display());
    let keeper = keeper(&url(port.address(), &ours, &identity));
    let mutex = keeper.mutex("reports").unwrap();
    for _ in 0..2 {
        let guard = soon("the grant", mutex.lock()).await.unwrap();
        soon("the release", guard.release()).await.unwrap();
    }
    soon("the end", keeper.close()).await.unwrap();
    refusal(&url(port.address(), &ours, ""), "a certificate, which `cert` and `key` name").await;
    drop(server);
}
