//! The layer before an HTTP service: what it answers, and what it lets pass.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use lockkeeper::backend::BoxFuture;
use lockkeeper::fence::http::{FenceLayer, Fenced, StoreFailure, WAITING_MAX};
use lockkeeper::fence::{MemoryTokens, Seen, TOKEN_HEADER, TokenHeader, TokenStore};
use lockkeeper::{Error, ErrorKind, FencingToken, Operation, QueueName};
use tokio::sync::Semaphore;
use tower_layer::Layer as _;
use tower_service::Service as _;

/// A resource that says which requests have begun and ended; each waits until it may end.
#[derive(Clone)]
struct Resource {
    log: Arc<Mutex<Vec<String>>>,
    may_end: Arc<Semaphore>,
}

impl Resource {
    fn new() -> Self {
        Self { log: Arc::default(), may_end: Arc::new(Semaphore::new(0)) }
    }

    /// A resource whose requests end at once.
    fn quick() -> Self {
        let resource = Self::new();
        resource.may_end.add_permits(1_000_000);
        resource
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits until so many lines were written.
    async fn logged(&self, lines: usize) -> Vec<String> {
        while self.log().len() < lines {
            tokio::task::yield_now().await;
        }
        self.log()
    }
}

impl tower_service::Service<Request<String>> for Resource {
    type Response = Response<String>;
    type Error = &'static str;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, &'static str>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let resource = self.clone();
        Box::pin(async move {
            let token = request.extensions().get::<TokenHeader>().expect("the layer adds it").token();
            let what = request.into_body();
            resource.log.lock().unwrap().push(format!("begin {what} {token}"));
            resource.may_end.acquire().await.unwrap().forget();
            match &*what {
                "fail" => return Err("failed"),
                "panic" => panic!("a request panicked"),
                _ => resource.log.lock().unwrap().push(format!("end {what} {token}")),
            }
            Ok(Response::new("done".to_owned()))
        })
    }
}

fn request(what: &str, token: &str) -> Request<String> {
    Request::builder().uri(format!("/{what}")).header(TOKEN_HEADER, token).body(what.to_owned()).unwrap()
}

fn fenced(resource: &Resource, store: impl TokenStore) -> Fenced<Resource> {
    FenceLayer::new("x".parse().unwrap(), store).layer(resource.clone())
}

async fn answer(service: &mut Fenced<Resource>, request: Request<String>) -> (u16, String) {
    let (parts, body) = service.call(request).await.unwrap().into_parts();
    if body != "done" {
        assert_eq!(parts.headers["content-type"], "application/problem+json");
        assert!(body.starts_with('{') && body.ends_with("}\n"), "{body}");
    }
    (parts.status.as_u16(), body)
}

#[tokio::test]
async fn bad_input_is_refused_and_nothing_reaches_the_resource_or_the_store() {
    let resource = Resource::quick();
    let mut service = fenced(&resource, MemoryTokens::new());
    let bare = Request::builder().body("bare".to_owned()).unwrap();
    assert_eq!(answer(&mut service, bare).await.0, 428);
    for token in ["", "42", "x", "x -1", "x 9223372036854775808", "y 9223372036854775807", "x 9 9"] {
        assert_eq!(answer(&mut service, request("bad", token)).await.0, 400, "{token:?}");
    }
    let mut two = request("bad", "x 9");
    two.headers_mut().append(TOKEN_HEADER, "x 10".parse().unwrap());
    assert_eq!(answer(&mut service, two).await.0, 400);
    assert_eq!(resource.log(), [""; 0]);
    assert_eq!(answer(&mut service, request("good", "x 1")).await.0, 200, "no greater token was kept");
}

#[tokio::test]
async fn a_smaller_token_is_refused_and_an_equal_or_greater_one_passes() {
    let resource = Resource::quick();
    let mut service = fenced(&resource, MemoryTokens::new());
    for token in ["41", "41", "42", "42.3", "42.3"] {
        assert_eq!(answer(&mut service, request("good", &format!("x {token}"))).await, (200, "done".to_owned()));
    }
    let written = resource.log();
    for token in ["42.2", "42", "41.9", "0"] {
        let (status, body) = answer(&mut service.clone(), request("stale", &format!("x {token}"))).await;
        assert_eq!(status, 412);
        assert!(body.contains(&format!(r#""name":"x","token":"{token}","greatest":"42.3""#)), "{body}");
    }
    assert_eq!(resource.log(), written, "nothing stale has reached the resource");
}

#[cfg(all(feature = "file", target_os = "linux"))]
#[tokio::test]
async fn a_restart_forgets_no_token_that_is_kept_in_a_file() {
    let place = tempfile::TempDir::new().unwrap();
    let tokens = lockkeeper::fence::FileTokens::new(place.path().join("tokens"));
    let resource = Resource::quick();
    assert_eq!(answer(&mut fenced(&resource, tokens.clone()), request("good", "x 42")).await.0, 200);
    let mut restarted = fenced(&resource, tokens);
    assert_eq!(answer(&mut restarted, request("stale", "x 41")).await.0, 412);
    assert_eq!(answer(&mut restarted, request("good", "x 42")).await.0, 200);
}

/// As in two processes: what is under way in one of them is nothing that the other one knows.
#[cfg(all(feature = "file", target_os = "linux"))]
#[tokio::test]
async fn two_layers_over_one_file_refuse_the_same_tokens_and_do_not_wait_for_each_other() {
    let place = tempfile::TempDir::new().unwrap();
    let tokens = lockkeeper::fence::FileTokens::new(place.path().join("tokens"));
    let resource = Resource::new();
    let (mut one, mut other) = (fenced(&resource, tokens.clone()), fenced(&resource, tokens));
    let slow = tokio::spawn(one.call(request("slow", "x 1")));
    resource.logged(1).await;
    let next = tokio::spawn(other.call(request("next", "x 2")));
    assert_eq!(resource.logged(2).await, ["begin slow 1", "begin next 2"], "both are under way");
    resource.may_end.add_permits(2);
    assert_eq!(slow.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(next.await.unwrap().unwrap().status(), StatusCode::OK);
    for service in [&mut one, &mut other] {
        assert_eq!(answer(service, request("stale", "x 1")).await.0, 412);
    }
    assert!(!resource.log().iter().any(|line| line.contains("stale")));
}

#[tokio::test]
async fn each_request_is_behind_the_lock_that_its_path_names() {
    let resource = Resource::quick();
    let by = FenceLayer::by(
        |request| format!("account/{}", request.uri.path().strip_prefix("/account-")?).parse().ok(),
        MemoryTokens::new(),
    );
    let mut service = by.layer(resource);
    assert_eq!(answer(&mut service, request("account-1", "account%2F1 7")).await.0, 200);
    assert_eq!(answer(&mut service, request("account-2", "account%2F2 3")).await.0, 200);
    assert_eq!(answer(&mut service, request("account-1", "account%2F1 3")).await.0, 412);
    assert_eq!(answer(&mut service, request("account-1", "account%2F2 9")).await.0, 400);
    assert_eq!(answer(&mut service, request("other", "account%2F1 9")).await.0, 400);
}

#[tokio::test]
async fn one_request_of_a_lock_runs_at_a_time_also_when_its_client_goes_away() {
    let resource = Resource::new();
    let mut service = fenced(&resource, MemoryTokens::new());
    let gone = tokio::spawn(service.call(request("gone", "x 1")));
    resource.logged(1).await;
    let stale = tokio::spawn(service.call(request("stale", "x 1")));
    let next = tokio::spawn(service.call(request("next", "x 2")));
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(resource.log(), ["begin gone 1"], "the others wait for its end");
    resource.may_end.add_permits(3);
    assert_eq!(next.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(stale.await.unwrap().unwrap().status(), StatusCode::OK, "it came before the next");
    let lines = ["begin gone 1", "end gone 1", "begin stale 1", "end stale 1", "begin next 2", "end next 2"];
    assert_eq!(resource.log(), lines);
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_is_forgotten() {
    let resource = Resource::new();
    let mut service = fenced(&resource, MemoryTokens::new());
    let first = tokio::spawn(service.call(request("first", "x 1")));
    resource.logged(1).await;
    let waiting = tokio::spawn(service.call(request("waiting", "x 2")));
    tokio::task::yield_now().await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    resource.may_end.add_permits(2);
    assert_eq!(first.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(answer(&mut service, request("last", "x 1")).await.0, 200, "the token of the other was never compared");
    assert!(!resource.log().iter().any(|line| line.contains("waiting")));
}

#[tokio::test]
async fn one_request_more_than_may_wait_is_answered_at_once() {
    let resource = Resource::new();
    let mut service = fenced(&resource, MemoryTokens::new());
    let first = tokio::spawn(service.call(request("first", "x 1")));
    resource.logged(1).await;
    let waiting: Vec<_> = (0..WAITING_MAX).map(|_| tokio::spawn(service.call(request("w", "x 1")))).collect();
    assert_eq!(answer(&mut service, request("more", "x 1")).await.0, 503);
    resource.may_end.add_permits(WAITING_MAX + 2);
    for request in waiting.into_iter().chain([first]) {
        assert_eq!(request.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!(answer(&mut service, request("later", "x 1")).await.0, 200);
}

#[tokio::test]
async fn a_request_that_fails_or_panics_ends_its_turn() {
    let resource = Resource::quick();
    let mut service = fenced(&resource, MemoryTokens::new());
    assert_eq!(service.call(request("fail", "x 1")).await.unwrap_err(), "failed");
    assert!(tokio::spawn(service.call(request("panic", "x 1"))).await.unwrap_err().is_panic());
    assert_eq!(answer(&mut service, request("next", "x 1")).await.0, 200);
}

/// A store that fails once.
#[derive(Debug, Default)]
struct Failing(AtomicU32);

impl TokenStore for Failing {
    fn see(&self, _: &QueueName, _: FencingToken) -> BoxFuture<Result<Seen, Error>> {
        let is_first = self.0.fetch_add(1, Ordering::Relaxed) == 0;
        let error = || Error::transient(ErrorKind::ConnectionLost, Operation::Connect, "password=hunter2");
        Box::pin(std::future::ready(if is_first { Err(error()) } else { Ok(Seen::Passes) }))
    }
}

#[tokio::test]
async fn a_store_that_fails_lets_nothing_pass_and_its_error_is_for_the_operator_alone() {
    let resource = Resource::quick();
    let mut service = fenced(&resource, Failing::default());
    let response = service.call(request("refused", "x 1")).await.unwrap();
    assert_eq!(response.status(), 500);
    assert!(!response.body().contains("hunter2"), "{}", response.body());
    let failure = response.extensions().get::<StoreFailure>().expect("it is there for a log");
    assert!(failure.error().to_string().contains("hunter2"));
    assert_eq!(resource.log(), [""; 0]);
    assert_eq!(answer(&mut service, request("next", "x 1")).await.0, 200);
}
