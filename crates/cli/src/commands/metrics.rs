//! `server --metrics`: the server's metrics by HTTP, for Prometheus. What is measured is the server's matter.
//!
//! A build without the feature `metrics` has the same type, which refuses to listen.

#[cfg(feature = "metrics")]
mod served {
    use std::convert::Infallible;
    use std::time::Duration;

    use http_body_util::Full;
    use hyper::body::{Bytes, Incoming};
    use hyper::header::{ALLOW, CONTENT_TYPE};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Method, Request, Response, StatusCode};
    use hyper_util::rt::TokioIo;
    use lockkeeper_zk_server::EmbeddedServer;
    use tokio::net::TcpStream;
    use tokio::sync::{mpsc, oneshot};
    use tokio::time::timeout;

    use crate::exit::CommandFailure;
    use lockkeeper_console::config::Listen;
    use lockkeeper_console::process::{BoundPort, HEAD_BYTES_MAX};

    /// How many connections are served at a time: some monitors, each with one; more are closed.
    const CONNECTIONS_MAX: usize = 8;
    /// How long a connection may take for its request and its answer; a monitor asks anew each time.
    const CONNECTION_TIME_MAX: Duration = Duration::from_secs(5);
    const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

    type Question = oneshot::Sender<String>;

    pub(crate) struct Metrics(Option<BoundPort>);

    impl Metrics {
        /// Listens on the first address that can be had of those that `listen` stands for.
        pub(crate) fn listen(listen: Option<&Listen>) -> Result<Self, CommandFailure> {
            listen.map(|listen| BoundPort::bind("--metrics", listen)).transpose().map(Self)
        }

        pub(crate) fn url(&self) -> Option<String> {
            self.0.as_ref().map(|listening| format!("http://{}/metrics", listening.address()))
        }

        pub(crate) async fn serve(&self, server: &EmbeddedServer) -> Infallible {
            let Some(listening) = &self.0 else {
                return std::future::pending().await;
            };
            let (asking, mut questions) = mpsc::channel::<Question>(CONNECTIONS_MAX);
            let accepting = listening.serve(CONNECTIONS_MAX, |stream| serve_one(stream, asking.clone()));
            let answering = async {
                while let Some(question) = questions.recv().await {
                    // Who asked may be gone.
                    let _ = question.send(server.metrics().await);
                }
                // The one who asks is of this function.
                std::future::pending().await
            };
            tokio::select! {
                never = accepting => never,
                never = answering => never,
            }
        }
    }

    async fn serve_one(stream: TcpStream, asking: mpsc::Sender<Question>) {
        let service = service_fn(|request| answer(request, &asking));
        let connection = http1::Builder::new()
            .keep_alive(false)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        // A client that breaks off or takes too long is its own matter.
        let _ = timeout(CONNECTION_TIME_MAX, connection).await;
    }

    async fn answer(
        request: Request<Incoming>,
        asking: &mpsc::Sender<Question>,
    ) -> Result<Response<Full<Bytes>>, hyper::http::Error> {
        if request.uri().path() != "/metrics" {
            let response = Response::builder().status(StatusCode::NOT_FOUND);
            return response.body(Full::from("the metrics are at /metrics\n"));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let response = Response::builder().status(StatusCode::METHOD_NOT_ALLOWED).header(ALLOW, "GET, HEAD");
            return response.body(Full::default());
        }
        let (question, answered) = oneshot::channel();
        let metrics = match asking.send(question).await {
            Ok(()) => answered.await.ok().filter(|metrics| !metrics.is_empty()),
            Err(_) => None,
        };
        match metrics {
            Some(metrics) => Response::builder().header(CONTENT_TYPE, FORMAT).body(Full::from(metrics)),
            None => Response::builder().status(StatusCode::SERVICE_UNAVAILABLE).body(Full::default()),
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod refused {
    use std::convert::Infallible;

    use lockkeeper_zk_server::EmbeddedServer;

    use crate::exit::CommandFailure;
    use lockkeeper_console::config::Listen;

    pub(crate) struct Metrics;

    impl Metrics {
        pub(crate) fn listen(listen: Option<&Listen>) -> Result<Self, CommandFailure> {
            match listen {
                None => Ok(Self),
                Some(_) => Err(CommandFailure::without("--metrics", "metrics")),
            }
        }

        pub(crate) fn url(&self) -> Option<String> {
            None
        }

        pub(crate) async fn serve(&self, _: &EmbeddedServer) -> Infallible {
            std::future::pending().await
        }
    }
}

#[cfg(not(feature = "metrics"))]
pub(super) use refused::Metrics;
#[cfg(feature = "metrics")]
pub(super) use served::Metrics;
