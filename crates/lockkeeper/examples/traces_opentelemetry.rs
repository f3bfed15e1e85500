//! Traces for OpenTelemetry: the spans of a wait and of the hold that follows from it, within a span of the program.
//! They are written to the standard output here, and would go to a collector in a real program.

use std::error::Error;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Instrument, Level, info_span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let exporter = opentelemetry_stdout::SpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("example"));
    // The library's spans are of the level DEBUG.
    let chosen = Targets::new().with_target("lockkeeper", Level::DEBUG).with_target(module_path!(), Level::INFO);
    tracing_subscriber::registry().with(spans.with_filter(chosen)).init();

    let keeper = lockkeeper::connect("memory:")?;
    let backup = keeper.mutex("nightly-backup")?;
    let other = backup.lock().await?;
    let job = async {
        let guard = backup.lock().await?;
        guard.release().await
    };
    // The job waits by then.
    let release = async {
        tokio::task::yield_now().await;
        other.release().await
    };
    let (done, released) = tokio::join!(job.instrument(info_span!("job")), release);
    done.and(released)?;
    keeper.close().await?;
    Ok(provider.shutdown()?)
}
