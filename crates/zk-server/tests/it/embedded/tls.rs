//! A server that speaks TLS: whom it serves, whom it refuses, and that no handshake holds up another client.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::wait::PATIENCE;
use lockkeeper_zk_server::{EmbeddedServer, Tls};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const NAME: &str = "zk.example";

/// A server that asks its clients for certificates of this authority, if of any.
async fn server(authority: &Authority, clients: Option<&Authority>) -> EmbeddedServer {
    let material = authority.server_certificate_files();
    let ca = clients.map(|clients| clients.file("ca"));
    let tls = Tls::from_files(&material.cert, &material.key, ca.as_deref()).unwrap();
    EmbeddedServer::builder().tls(tls).start().await.unwrap()
}

/// A client that trusts one authority and, with another, shows a certificate of that.
async fn connect(
    authority: &Authority,
    own: Option<&Authority>,
    to: SocketAddr,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file("ca")).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_file(own.file("client")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(own.file("client-key")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let stream = TcpStream::connect(to).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(NAME).unwrap(), stream).await
}

/// Asks the server how it is; empty if it does not answer.
async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
    let mut answer = Vec::new();
    let _ = stream.write_all(b"ruok").await;
    let _ = stream.flush().await;
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_client_is_served_over_tls_and_a_plain_one_is_not() {
    let authority = Authority::new(NAME).unwrap();
    let server = server(&authority, None).await;
    let address = server.address().unwrap();
    assert_eq!(server.url(), format!("zk+tls://{address}"));
    assert_eq!(ask(&mut connect(&authority, None, address).await.unwrap()).await, "imok");
    let answer = ask(&mut TcpStream::connect(address).await.unwrap()).await;
    assert!(!answer.contains("imok"), "{answer}");
}

#[tokio::test]
async fn only_clients_with_a_certificate_of_the_authority_are_served_if_one_is_named() {
    let (authority, another) = (Authority::new(NAME).unwrap(), Authority::new(NAME).unwrap());
    let server = server(&authority, Some(&authority)).await;
    let address = server.address().unwrap();
    assert_eq!(ask(&mut connect(&authority, Some(&authority), address).await.unwrap()).await, "imok");
    // TLS 1.3 tells the refusal after the client's part of the handshake.
    for stranger in [None, Some(&another)] {
        let mut refused = connect(&authority, stranger, address).await.unwrap();
        assert_eq!(ask(&mut refused).await, "");
    }
}

#[tokio::test]
async fn peers_that_never_finish_the_handshake_count_as_connections_and_hold_up_no_client() {
    let authority = Authority::new(NAME).unwrap();
    let server = server(&authority, None).await;
    let address = server.address().unwrap();
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let serve = async { ask(&mut connect(&authority, None, address).await.unwrap()).await };
    assert_eq!(tokio::time::timeout(PATIENCE, serve).await.expect("no other is waited for"), "imok");
    let stand = async {
        while server.connections_count().await != silent.len() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, stand).await.expect("they count");
    // A cut reaches them too, as it does all connections.
    assert_eq!(server.reset_connections().await, silent.len());
    let mut byte = [0];
    for mut peer in silent {
        let ended = tokio::time::timeout(PATIENCE, peer.read(&mut byte)).await.expect("it is closed");
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_the_reason() {
    let (authority, another) = (Authority::new(NAME).unwrap(), Authority::new(NAME).unwrap());
    let (good, foreign) = (authority.server_certificate_files(), another.server_certificate_files());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let garbled = file("garbled.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let expired = authority.file("expired");
    let empty = file("empty.pem", "");
    let missing = folder.path().join("missing.pem");
    for (cert, key, ca, culprit, why) in [
        (&missing, &good.key, &good.ca, &missing, "cannot be read"),
        (&good.cert, &missing, &good.ca, &missing, "cannot be read"),
        (&good.cert, &good.key, &missing, &missing, "cannot be read"),
        (&garbled, &good.key, &good.ca, &garbled, "holds a certificate that cannot be read"),
        (&good.cert, &good.key, &garbled, &garbled, "holds a certificate that cannot be trusted"),
        (&expired, &good.key, &good.ca, &expired, "holds a certificate that every client refuses: certificate expired"),
        (&good.ca, &good.key, &good.ca, &good.ca, "holds the certificate of an authority"),
        (&empty, &good.key, &good.ca, &empty, "holds no certificate"),
        (&good.cert, &empty, &good.ca, &empty, "holds no usable private key"),
        (&good.cert, &foreign.key, &good.ca, &good.cert, "is not the certificate of the key in"),
    ] {
        let error = Tls::from_files(cert, key, Some(ca)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{} {why}", culprit.display())), "{error}");
    }
}
