//! TLS to real servers: through a relay of the test that ends it, and on the servers' own port.

mod relay;

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
use lockkeeper_faults::zookeeper::{self, Server, ServerWords, Setup};
use lockkeeper_recipes::Keeper;
use lockkeeper_zookeeper::{Client, ClientErrorKind, Config, ZooKeeperBackend};
use tokio::net::TcpListener;

use crate::support::server::can_run;
use crate::support::{Bench, Make};

use relay::{ClientCertificate, Relay};

/// What the servers' certificates are for.
const NAME: &str = "zk.example";

fn authority() -> Authority {
    Authority::new(NAME).expect("an authority")
}

/// How long a refusal for good, or the least connection timeout, may take.
const REFUSED_WITHIN: Duration = Duration::from_secs(3);

/// A bench, and a relay before its server that ends TLS.
struct Site {
    authority: Authority,
    relay: Relay,
    bench: Bench,
}

impl Site {
    /// None if the test is skipped.
    async fn start(clients: ClientCertificate) -> Option<Self> {
        Some(Self::before(Bench::start(Make::Apache).await?, clients).await)
    }

    async fn before(bench: Bench, clients: ClientCertificate) -> Self {
        let authority = authority();
        let relay = Relay::start(&authority.server_papers(), clients, bench.server.address()).await;
        Self { authority, relay, bench }
    }

    fn url(&self, settings: &str) -> ServiceUrl {
        let Self { authority, relay, bench } = self;
        let (servers, ca) = (format!("{}{}", relay.address(), bench.chroot()), authority.file("ca"));
        let url = format!("zk+tls://{servers}?connect_timeout=60s&ca={}&server_name={NAME}{settings}", ca.display());
        url.parse().expect("a URL")
    }

    fn identity(&self) -> String {
        identity(&self.authority)
    }
}

/// The settings that name a client's certificate.
fn identity(authority: &Authority) -> String {
    format!("&cert={}&key={}", authority.file("client").display(), authority.file("client-key").display())
}

/// Takes the lock and lets it go, twice: the second time finds the session open.
async fn lock_and_release(url: &ServiceUrl) {
    let keeper = Keeper::new(Arc::new(ZooKeeperBackend::open(url).expect("a good URL")));
    let mutex = keeper.mutex("reports").unwrap();
    let first = soon("the first grant", mutex.lock()).await.unwrap();
    let token = first.fencing_token();
    soon("the release", first.release()).await.unwrap();
    let second = soon("the second grant", mutex.lock()).await.unwrap();
    assert!(second.fencing_token() > token);
    soon("the release", second.release()).await.unwrap();
    soon("the end", keeper.close()).await.unwrap();
}

/// Opens a session that must be refused for good, and at once, or at the end of a connection timeout of a second.
async fn refusal(url: &ServiceUrl) -> Error {
    let backend = ZooKeeperBackend::open(url).expect("a good URL");
    let since_call = Sleeper::start();
    let error = soon("the refusal", backend.session()).await.expect_err("no session");
    assert!(since_call.slept() < REFUSED_WITHIN, "{:?}: {error}", since_call.slept());
    error
}

fn assert_hopeless(error: &Error, words: &str) {
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Refused, Advice::Permanent), "{error}");
    assert!(format!("{error:#}").contains(words), "{error}");
}

#[tokio::test]
async fn a_lock_is_taken_and_released_over_tls() {
    let Some(site) = Site::start(ClientCertificate::NotAsked).await else { return };
    lock_and_release(&site.url("")).await;
    assert!(site.relay.handshakes() > 0, "it went through the relay");
}

/// At any end of the runtime, the session's last bytes are whole records.
#[tokio::test]
async fn a_runtime_that_ends_frees_its_locks_over_tls_too() {
    let Some(site) = Site::start(ClientCertificate::NotAsked).await else { return };
    // Far longer than the next caller waits.
    const WAIT_MAX: Duration = Duration::from_secs(10);
    let url = site.url("&session_timeout=40s");
    let keeper = || Keeper::new(Arc::new(ZooKeeperBackend::open(&url).unwrap()));
    let (ours, theirs) = (keeper(), keeper());
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
    let Some(site) = Site::start(ClientCertificate::NotAsked).await else { return };
    let client = Client::connect(&Config::from_url(&site.url("")).unwrap()).await.unwrap();
    // Far more than a TLS record, and than a socket's buffer takes at once.
    let data: Vec<u8> = (0..900_000_u32).map(|position| position.to_le_bytes()[1]).collect();
    let node = lockkeeper_zookeeper::NewNode::persistent("/a").with_data(data.clone());
    soon("the creation", client.create(node)).await.unwrap();
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
    let Some(bench) = Bench::alone(Make::Apache).await else { return };
    let site = Site::before(bench, ClientCertificate::NotAsked).await;
    let stranger = authority();
    let url = format!("zk+tls://{}?connect_timeout=60s&server_name={NAME}", site.relay.address());
    let with_stranger = format!("{url}&ca={}", stranger.file("ca").display()).parse().unwrap();
    assert_hopeless(&refusal(&with_stranger).await, "its certificate is not by an authority that is trusted here");
    // The system knows this one even less.
    assert_hopeless(&refusal(&url.parse().unwrap()).await, "not by an authority that is trusted here");
    let connections = ServerWords::new(site.bench.server.address()).connections().await.unwrap();
    assert_eq!(connections.len(), 1, "nothing was asked of the server");
}

#[tokio::test]
async fn a_lock_is_not_tried_again_and_again_on_a_server_that_is_not_trusted() {
    let Some(site) = Site::start(ClientCertificate::NotAsked).await else { return };
    let url =
        format!("zk+tls://{}?connect_timeout=60s&ca={}", site.relay.address(), site.authority.file("ca").display());
    let keeper = Keeper::new(Arc::new(ZooKeeperBackend::open(&url.parse().unwrap()).unwrap()));
    let error = soon("the refusal", keeper.mutex("reports").unwrap().lock()).await.expect_err("no lock");
    assert_hopeless(&error, "its certificate is not for the name `127.0.0.1`");
}

#[tokio::test]
async fn a_host_that_no_certificate_can_be_for_is_told_of_the_setting_that_helps() {
    let ours = authority();
    let url = format!("zk+tls://zk..example?connect_timeout=1s&ca={}", ours.file("ca").display());
    assert_hopeless(&refusal(&url.parse().unwrap()).await, "`server_name=NAME`");
}

#[tokio::test]
async fn a_server_that_asks_for_our_certificate_gets_it() {
    let Some(site) = Site::start(ClientCertificate::Required).await else { return };
    lock_and_release(&site.url(&site.identity())).await;
}

#[tokio::test]
async fn without_the_certificate_that_a_server_asks_for_it_is_said_so() {
    let Some(site) = Site::start(ClientCertificate::Required).await else { return };
    assert_hopeless(&refusal(&site.url("")).await, "CertificateRequired");
}

#[tokio::test]
async fn a_server_that_resets_or_keeps_silent_may_be_better_later() {
    let ours = authority();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url =
        |address| format!("zk+tls://{address}?connect_timeout=1s&ca={}", ours.file("ca").display()).parse().unwrap();
    // The test does not accept: the kernel does the handshake of TCP, and there is none of TLS.
    let silent = refusal(&url(listener.local_addr().unwrap())).await;
    assert_eq!((silent.kind(), silent.advice()), (ErrorKind::ConnectionLost, Advice::Transient), "{silent}");
    let address = listener.local_addr().unwrap();
    let resetting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Unread bytes make the close a reset.
            stream.readable().await.expect("a ClientHello");
            drop(stream);
        }
    });
    let reset = refusal(&url(address)).await;
    resetting.abort();
    assert_eq!((reset.kind(), reset.advice()), (ErrorKind::ConnectionLost, Advice::Transient), "{reset}");
}

#[tokio::test]
async fn a_port_without_tls_is_said_to_be_one() {
    if !Make::Apache.can_start() {
        return;
    }
    let ours = authority();
    let server = Server::standalone(Setup::new()).await.expect("a server");
    let url = format!("zk+tls://{}?connect_timeout=60s&ca={}", server.address(), ours.file("ca").display());
    let error = refusal(&url.parse().unwrap()).await;
    assert_eq!(error.advice(), Advice::Transient, "{error}");
    assert!(format!("{error:#}").contains("TLS"), "{error}");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named_when_the_backend_is_opened() {
    let url: ServiceUrl = "zk+tls://h1?ca=/no/such/file".parse().unwrap();
    let error = ZooKeeperBackend::open(&url).expect_err("no such file");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidConfig, Advice::Permanent));
    assert!(format!("{error:#}").contains("/no/such/file"), "{error}");
    let error = Client::connect(&Config::from_url(&url).unwrap()).await.expect_err("no such file");
    assert_eq!((error.kind(), error.advice()), (ClientErrorKind::InvalidConfig, Advice::Permanent));
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
    let url =
        format!("zk+tls://{}?connect_timeout=60s&ca={}&server_name={NAME}", port.address(), ours.file("ca").display());
    let identity = identity(&ours);
    lock_and_release(&format!("{url}{identity}").parse().unwrap()).await;
    let error = refusal(&url.parse().unwrap()).await;
    assert_hopeless(&error, "Certificate");
    drop(server);
}
