//! A relay that speaks TLS to clients and nothing but TCP to the server behind it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::ring};

use lockkeeper_faults::authority::Papers;

/// Whether clients must say who they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ClientCertificate {
    NotAsked,
    Required,
}

/// Stands before a server until it is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    handshakes: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn start(papers: &Papers, clients: ClientCertificate, server: SocketAddr) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(config(papers, clients)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let handshakes = Arc::new(AtomicUsize::new(0));
        let count = handshakes.clone();
        let accepting = tokio::spawn(async move {
            let mut carrying = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                carrying.spawn(carry(acceptor.clone(), stream, server, count.clone()));
            }
        });
        Self { address, handshakes, accepting }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many clients have shaken hands.
    pub(crate) fn handshakes(&self) -> usize {
        self.handshakes.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(acceptor: TlsAcceptor, stream: TcpStream, server: SocketAddr, handshakes: Arc<AtomicUsize>) {
    stream.set_nodelay(true).expect("an open socket");
    // A client that refuses us, or that we refuse, is what some tests are about.
    let Ok(mut client) = acceptor.accept(stream).await else {
        return;
    };
    handshakes.fetch_add(1, Ordering::Relaxed);
    let mut server = TcpStream::connect(server).await.expect("the server accepts");
    server.set_nodelay(true).expect("an open socket");
    // However it ends, both sides are closed.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}

fn config(papers: &Papers, clients: ClientCertificate) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider has them");
    let builder = match clients {
        ClientCertificate::NotAsked => builder.with_no_client_auth(),
        ClientCertificate::Required => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate(&papers.ca)).expect("an authority");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("one authority"))
        }
    };
    let key = PrivateKeyDer::from_pem_file(&papers.key).expect("a key");
    builder.with_single_cert(vec![certificate(&papers.cert)], key).expect("they fit")
}

fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}
