//! Metrics for Prometheus: what a page at `/metrics` would say. A recorder is installed before the first keeper is
//! made.

use std::error::Error;
use std::time::Duration;

use lockkeeper::NamePattern;
use lockkeeper::metrics::BUCKETS_SECONDS;
use metrics_exporter_prometheus::PrometheusBuilder;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let recorder = PrometheusBuilder::new().set_buckets(&BUCKETS_SECONDS)?.install_recorder()?;
    // Without `label_locks` no lock has separate series.
    let keeper = lockkeeper::builder("memory:")?.label_locks([NamePattern::new("nightly-*")?]).build();
    let backup = keeper.mutex("nightly-backup")?;

    let guard = backup.lock().await?;
    assert!(backup.try_lock().await?.is_none());
    assert!(backup.lock_timeout(Duration::from_millis(5)).await?.is_none());
    guard.release().await?;
    drop(keeper.semaphore("slots", 3)?.acquire_many(2).await?);

    // A program serves this by its own HTTP server.
    print!("{}", recorder.render());
    Ok(keeper.close().await?)
}
