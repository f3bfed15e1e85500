//! Fences in long rounds: holders that are overtaken between their check and their write.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use lockkeeper::clock::RuntimeClock;
use lockkeeper::fence::http::FenceLayer;
use lockkeeper::fence::{MemoryTokens, TOKEN_HEADER, TokenHeader};
use lockkeeper::testing::MemoryService;
use lockkeeper::{FencingToken, MutexGuard};
use lockkeeper_faults::long;
use tower_layer::Layer as _;
use tower_service::Service;

/// How often a holder is overtaken.
const ROUNDS_LONG: u32 = 1_000;

/// A resource that writes down the tokens of its requests, some time after they came.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<FencingToken>>>);

impl Service<Request<u32>> for Ledger {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    /// The body says how long the write takes.
    fn call(&mut self, request: Request<u32>) -> Self::Future {
        let ledger = self.clone();
        Box::pin(async move {
            let header: TokenHeader = request.headers()[TOKEN_HEADER].to_str().unwrap().parse().unwrap();
            for _ in 0..*request.body() {
                tokio::task::yield_now().await;
            }
            ledger.0.lock().unwrap().push(header.token());
            Ok(Response::new(String::new()))
        })
    }
}

/// What a holder sends once it has checked its lock: its token, and how long the write takes.
async fn write<S>(mut service: S, guard: &MutexGuard, steps: u32) -> StatusCode
where
    S: Service<Request<u32>, Response = Response<String>, Error = Infallible>,
{
    let mut request = Request::new(steps);
    request.headers_mut().insert(TOKEN_HEADER, TokenHeader::from(guard.hold()).to_string().try_into().unwrap());
    service.call(request).await.unwrap().status()
}

/// Plays the rounds; returns the tokens in the order in which they were written.
async fn play<S>(rounds: u32, ledger: &Ledger, service: S) -> Vec<FencingToken>
where
    S: Service<Request<u32>, Response = Response<String>, Error = Infallible, Future: Send> + Clone,
{
    let memory = MemoryService::new(Arc::new(RuntimeClock::new()));
    for round in 0..rounds {
        let (slow, next) = (memory.keeper(), memory.keeper());
        let overtaken = slow.mutex("ledger").unwrap().lock().await.unwrap();
        assert!(overtaken.hold().is_held(), "it has checked, and is stopped from here on");
        slow.testing().unwrap().expire_session();
        let current = next.mutex("ledger").unwrap().lock().await.unwrap();
        // All ways in which the writes of both can overlap: which of them comes first, and which takes longer.
        let (slow_steps, next_steps) = (round / 2 % 5, round / 10 % 5);
        let late = write(service.clone(), &overtaken, slow_steps);
        let right = write(service.clone(), &current, next_steps);
        let status = if round % 2 == 0 { tokio::join!(late, right).1 } else { tokio::join!(right, late).0 };
        assert_eq!(status, StatusCode::OK, "round {round}: a holder that was not overtaken has written");
        current.release().await.unwrap();
    }
    std::mem::take(&mut ledger.0.lock().unwrap())
}

fn stale_writes(tokens: &[FencingToken]) -> usize {
    tokens.windows(2).filter(|pair| pair[1] < pair[0]).count()
}

#[tokio::test]
async fn overtaken_holders_write_nothing_behind_the_layer_and_something_without_it() {
    let rounds = long::rounds(ROUNDS_LONG);
    let ledger = Ledger::default();
    let fenced = FenceLayer::new("ledger".parse().unwrap(), MemoryTokens::new()).layer(ledger.clone());
    let tokens = play(rounds, &ledger, fenced).await;
    assert_eq!(stale_writes(&tokens), 0, "in {rounds} rounds");
    assert!(tokens.len() >= rounds as usize);

    let found = stale_writes(&play(rounds, &ledger, ledger.clone()).await);
    assert!(found > 0, "no stale write in {rounds} rounds without the layer");
    println!("{rounds} rounds: 0 stale writes behind the layer, {found} without it");
}
