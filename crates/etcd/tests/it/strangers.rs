//! Servers that are no member: one clear line each. `etcd grpc-proxy` answers for leases by itself, so that no lock can
//! be proven behind it.

use lockkeeper_conformance::soon;
use lockkeeper_core::{Advice, Backend, Error, ErrorKind, Scrutiny, Severity};
use lockkeeper_faults::etcd::{GrpcProxy, Release, Server, availability_of};
use lockkeeper_faults::ports::ReservedPort;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::{backend, keeper};

/// A server that says this to each client once it has heard something.
async fn stranger(says: &'static [u8]) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut heard = [0; 256];
                let _ = stream.read(&mut heard).await;
                let _ = stream.write_all(says).await;
                // It says no more, and stays.
                while stream.read(&mut heard).await.is_ok_and(|length| length > 0) {}
            });
        }
    });
    address
}

/// As long as a busy machine takes for any answer, and much less than that.
const PATIENT: &str = "?connect_timeout=60s";
const HASTY: &str = "?connect_timeout=500ms";

async fn failure(address: std::net::SocketAddr, settings: &str) -> Error {
    let backend = backend(address, settings);
    soon("the failure", backend.session()).await.map(drop).expect_err("no etcd is there")
}

#[tokio::test]
async fn what_is_no_etcd_is_told_in_one_line_with_its_address() {
    let unused = ReservedPort::take().expect("a port");
    let silent = stranger(b"").await;
    let hangs_up = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let hanging_up = hangs_up.local_addr().expect("it is bound");
    tokio::spawn(async move { while hangs_up.accept().await.is_ok() {} });
    for (address, kind, word) in [
        (unused.address(), ErrorKind::ConnectionLost, "refused"),
        (stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n").await, ErrorKind::Backend, "an HTTP server"),
        (silent, ErrorKind::ConnectionLost, "not answered"),
        (
            hanging_up,
            ErrorKind::ConnectionLost,
            "if it is an etcd that speaks TLS, the URL must begin with `etcd+tls:`",
        ),
    ] {
        let error = failure(address, if address == silent { HASTY } else { PATIENT }).await;
        let told = format!("{error:#}");
        assert_eq!(error.kind(), kind, "{told}");
        assert!(told.contains(word) && told.contains(&address.to_string()) && !told.contains('\n'), "{told}");
    }
}

async fn is_refused_by_name(release: Release) {
    let server = Server::standalone_of(release).await.expect("a server");
    let proxy = GrpcProxy::start(&server).await.expect("a proxy");
    let locking = keeper(proxy.address(), "").mutex("door").expect("a name");
    let error = soon("the refusal", locking.lock()).await.expect_err("no lock can be had");
    let told = format!("{error:#}");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidConfig, Advice::Permanent), "{told}");
    assert!(told.contains("`etcd grpc-proxy`") && told.contains("name the members"), "{told}");
    let examined = soon("the examination", backend(proxy.address(), "").admin().examine(Scrutiny::Full)).await;
    let found = examined.expect("the proxy answers");
    let is_found = found.iter().any(|it| it.severity == Severity::Error && it.what.contains("`etcd grpc-proxy`"));
    assert!(is_found, "{found:?}");
    let guard = soon("the lock", keeper(server.address(), "").mutex("door").expect("a name").lock()).await;
    soon("the release", guard.expect("the member serves").release()).await.expect("it was held");
}

#[tokio::test]
async fn a_grpc_proxy_is_refused_by_its_name_at_once_and_an_examination_says_so() {
    for release in Release::ALL {
        if availability_of(release).or_skip_here() {
            is_refused_by_name(release).await;
        }
    }
}
