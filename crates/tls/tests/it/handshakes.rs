//! Handshakes over a stream in memory.

use std::fs;
use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_faults::authority::{Authority, CertificateFiles};
use lockkeeper_tls::rustls::pki_types::pem::PemObject;
use lockkeeper_tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use lockkeeper_tls::rustls::server::WebPkiClientVerifier;
use lockkeeper_tls::rustls::version::{TLS12, TLS13};
use lockkeeper_tls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, crypto::ring};
use lockkeeper_tls::{Connector, HandshakeError, TlsStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_rustls::TlsAcceptor;

use crate::{NAME, authority, identity, material, trusting};

/// Room for a handshake's flight, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Speaks one version of TLS, and asks clients for certificates of its authority if it is told to.
fn server(authority: &Authority, version: &'static SupportedProtocolVersion, asks_clients: bool) -> TlsAcceptor {
    showing(&authority.server_certificate_files(), version, asks_clients)
}

/// The same with other certificates than a server's.
fn showing(
    certificates: &CertificateFiles,
    version: &'static SupportedProtocolVersion,
    asks_clients: bool,
) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let certificate = |path| CertificateDer::from_pem_file(path).expect("a certificate");
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[version])
        .expect("the provider has it");
    let builder = if asks_clients {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&certificates.ca)).expect("an authority");
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        builder.with_client_cert_verifier(verifier.expect("one authority"))
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::from_pem_file(&certificates.key).expect("a key");
    TlsAcceptor::from(Arc::new(builder.with_single_cert(vec![certificate(&certificates.cert)], key).expect("they fit")))
}

type Shaken = Result<TlsStream<DuplexStream>, HandshakeError>;

/// Connects with these settings; the server answers what it is told first, and then closes.
async fn shake(query: &str, host: &str, server: TlsAcceptor) -> Shaken {
    let connector = Connector::new(&material(query).expect("good certificates"));
    let (client, end) = duplex(BUFFER_BYTES);
    let serving = tokio::spawn(async move {
        // A client that refuses us, or that we refuse, is what some tests are about.
        if let Ok(mut stream) = server.accept(end).await {
            stream.write_all(b"hello").await.expect("the client reads");
        }
    });
    let shaken = soon("the handshake", connector.connect(host, client)).await;
    if shaken.is_err() {
        soon("the end of the server", serving).await.expect("no panic");
    }
    shaken
}

async fn refusal(query: &str, host: &str, server: TlsAcceptor) -> String {
    let error = shake(query, host, server).await.expect_err("no handshake");
    assert!(matches!(error, HandshakeError::Refused(_)), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn a_server_whose_authority_is_trusted_is_believed_in_both_versions() {
    let ours = authority();
    let shown = format!("{}&{}", trusting(&ours.file("ca")), identity(&ours.file("client"), &ours.file("client-key")));
    for version in [&TLS12, &TLS13] {
        for asks_clients in [false, true] {
            let mut stream = shake(&shown, NAME, server(&ours, version, asks_clients)).await.expect("a handshake");
            let mut told = [0; 5];
            soon("the greeting", stream.read_exact(&mut told)).await.expect("the server's word");
            assert_eq!(&told, b"hello", "{version:?} {asks_clients}");
        }
    }
}

#[tokio::test]
async fn one_name_in_the_settings_stands_for_that_of_every_host() {
    let ours = authority();
    let query = format!("{}&server_name={NAME}", trusting(&ours.file("ca")));
    shake(&query, "127.0.0.1", server(&ours, &TLS13, false)).await.expect("a handshake");
    let told = refusal(&trusting(&ours.file("ca")), "127.0.0.1", server(&ours, &TLS13, false)).await;
    assert!(told.starts_with("its certificate is not for the name `127.0.0.1`; "), "{told}");
}

#[tokio::test]
async fn a_file_of_several_authorities_trusts_each_of_them() {
    let (ours, other) = (authority(), authority());
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both.pem");
    let text = |authority: &Authority| fs::read_to_string(authority.file("ca")).unwrap();
    fs::write(&both, text(&other) + &text(&ours)).unwrap();
    shake(&trusting(&both), NAME, server(&ours, &TLS13, false)).await.expect("a handshake");
}

#[tokio::test]
async fn a_server_that_is_not_trusted_is_refused_and_the_setting_that_helps_is_named() {
    let (ours, other) = (authority(), authority());
    let told = refusal(&trusting(&other.file("ca")), NAME, server(&ours, &TLS13, false)).await;
    assert!(told.contains("not by an authority that is trusted here; `ca` names"), "{told}");
    let told = refusal(&trusting(&ours.file("ca")), "other.example", server(&ours, &TLS13, false)).await;
    assert!(told.contains("`other.example`") && told.contains("`server_name=NAME`"), "{told}");
    let told = refusal(&trusting(&ours.file("ca")), "two..dots", server(&ours, &TLS13, false)).await;
    assert!(told.contains("`server_name=NAME`"), "{told}");
    let expired = CertificateFiles { cert: ours.file("expired"), ..ours.server_certificate_files() };
    let told = refusal(&trusting(&ours.file("ca")), NAME, showing(&expired, &TLS13, false)).await;
    assert!(told.contains("has expired, or this machine's clock is wrong"), "{told}");
}

/// As `openssl req -x509` makes one for a server by default.
#[tokio::test]
async fn a_server_that_shows_the_certificate_of_an_authority_is_refused_with_the_way_to_make_another() {
    let ours = authority();
    let certificates =
        CertificateFiles { cert: ours.file("ca"), key: ours.file("ca-key"), ..ours.server_certificate_files() };
    let told = refusal(&trusting(&ours.file("ca")), NAME, showing(&certificates, &TLS13, false)).await;
    assert!(told.contains("that of an authority") && told.contains("critical,CA:FALSE"), "{told}");
    assert!(!told.contains("CaUsed"), "{told}");
}

#[tokio::test]
async fn a_server_that_asks_for_our_certificate_in_vain_refuses_us() {
    let ours = authority();
    let query = trusting(&ours.file("ca"));
    let told = refusal(&query, NAME, server(&ours, &TLS12, true)).await;
    assert!(told.contains("ask") && told.contains("a certificate, which `cert` and `key` name"), "{told}");
    let theirs = authority();
    let shown = format!("{query}&{}", identity(&theirs.file("client"), &theirs.file("client-key")));
    let told = refusal(&shown, NAME, server(&ours, &TLS12, true)).await;
    assert!(told.contains("our certificate, which `cert` names") && !told.contains("`key`"), "{told}");
    // In TLS 1.3 it says so after the handshake.
    let mut stream = shake(&query, NAME, server(&ours, &TLS13, true)).await.expect("a handshake");
    let error = soon("the alert", stream.read_u8()).await.expect_err("an alert");
    assert!(error.to_string().contains("CertificateRequired"), "{error}");
}

/// Connects to a server that answers the client's first bytes with these, and then hangs up.
async fn answered_with(answer: &'static [u8]) -> HandshakeError {
    let ours = authority();
    let connector = Connector::new(&material(&trusting(&ours.file("ca"))).expect("good certificates"));
    let (client, mut end) = duplex(BUFFER_BYTES);
    tokio::spawn(async move {
        end.read_u8().await.expect("the client begins");
        end.write_all(answer).await.expect("the client reads");
    });
    soon("the handshake", connector.connect(NAME, client)).await.expect_err("no handshake")
}

#[tokio::test]
async fn a_server_without_tls_and_one_that_hangs_up_are_told_apart() {
    let stranger = answered_with(b"-ERR unknown command, with args beginning with:\r\n").await;
    assert!(matches!(stranger, HandshakeError::NotTls), "{stranger:?}");
    assert!(stranger.to_string().contains("does not speak TLS"), "{stranger}");
    let silent = answered_with(b"").await;
    assert!(matches!(silent, HandshakeError::HungUp), "{silent:?}");
    assert!(silent.to_string().contains("hung up during the TLS handshake"), "{silent}");
}

#[tokio::test]
async fn a_server_that_gives_up_for_a_moment_may_be_better_later_and_one_that_refuses_is_not() {
    // An alert: content type 21, TLS 1.2, two bytes: fatal, and which (RFC 8446, section 6).
    let in_trouble = answered_with(&[21, 3, 3, 0, 2, 2, 80]).await;
    assert!(matches!(in_trouble, HandshakeError::Broken(_)), "{in_trouble:?}");
    assert!(in_trouble.to_string().contains("the server gave up (internal error)"), "{in_trouble}");
    let refusing = answered_with(&[21, 3, 3, 0, 2, 2, 40]).await;
    assert!(matches!(refusing, HandshakeError::Refused(_)), "{refusing:?}");
    assert!(refusing.to_string().contains("(handshake failure)"), "{refusing}");
}
