//! The stage of writes that come late.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_core::Backend;
use lockkeeper_faults::redis::Server;
use lockkeeper_redis::RedisBackend;
use lockkeeper_trials::late::Stage;

use crate::service::REDIS;

/// A server, and its clients, each prepared; `None` if there is no Redis here.
pub(crate) async fn stage(settings: &'static str, prepare: fn(&RedisBackend)) -> Option<(Server, Stage)> {
    let server = Server::standalone_or_skip().await?;
    let open = move |servers: &[SocketAddr]| -> Arc<dyn Backend> {
        let url = (REDIS.url)(servers, &format!("session_timeout=60s{settings}"));
        let backend = RedisBackend::open(&url.parse().expect("a URL")).expect("a good URL");
        prepare(&backend);
        Arc::new(backend)
    };
    let stage = Stage::new(server.address(), open).await;
    Some((server, stage))
}
