//! The conformance suite on the memory backend.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{Arguments, Fixture, Handoff, MemoryFixture, run_under};
use lockkeeper_core::{BoxFuture, Result};

/// Short, since many cases wait until nothing is left.
const STICKY: Handoff = Handoff::Sticky { idle_max: Duration::from_millis(50) };

fn main() -> ExitCode {
    run_under(&Arguments::from_args(), fixture, &[Handoff::Strict, Handoff::local(), STICKY])
}

fn fixture() -> BoxFuture<Result<Arc<dyn Fixture>>> {
    let fixture: Arc<dyn Fixture> = Arc::new(MemoryFixture::start());
    Box::pin(std::future::ready(Ok(fixture)))
}
