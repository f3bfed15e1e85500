//! Data behind an HTTP service, with the layer before it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use lockkeeper::clock::RuntimeClock;
use lockkeeper::fence::http::FenceLayer;
use lockkeeper::fence::{MemoryTokens, TOKEN_HEADER, TokenHeader};
use lockkeeper::testing::MemoryService;
use lockkeeper::{FencingToken, Hold};
use tower_layer::Layer as _;
use tower_service::Service;

use crate::rounds::{compare, steps};

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
            steps(*request.body()).await;
            ledger.0.lock().unwrap().push(header.token());
            Ok(Response::new(String::new()))
        })
    }
}

#[tokio::test]
async fn overtaken_holders_write_nothing_behind_the_layer_and_something_without_it() {
    let (behind, without) = (Ledger::default(), Ledger::default());
    let fenced = FenceLayer::new("ledger".parse().unwrap(), MemoryTokens::new()).layer(behind.clone());
    let memory = MemoryService::new(Arc::new(RuntimeClock::new()));
    let write = async |hold: &Hold, pause, is_fenced| {
        let mut request = Request::new(pause);
        request.headers_mut().insert(TOKEN_HEADER, TokenHeader::from(hold).to_string().try_into().unwrap());
        let answer = if is_fenced { fenced.clone().call(request).await } else { without.clone().call(request).await };
        answer.unwrap().status() == StatusCode::OK
    };
    let written = async |is_fenced| (if is_fenced { &behind } else { &without }).0.lock().unwrap().clone();
    compare("HTTP", &[memory.keeper(), memory.keeper()], write, written).await;
}
