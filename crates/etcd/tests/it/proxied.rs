//! `etcd grpc-proxy`: it answers for leases by itself, so that no lock can be proven behind it.

use lockkeeper_conformance::soon;
use lockkeeper_core::{Advice, Backend, ErrorKind, Scrutiny, Severity};
use lockkeeper_faults::etcd::{GrpcProxy, Release, Server, availability_of};

use crate::client::{backend, keeper};

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
