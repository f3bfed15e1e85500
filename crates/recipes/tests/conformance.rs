//! The conformance suite on the memory backend.

use std::process::ExitCode;
use std::sync::Arc;

use lockkeeper_conformance::{Arguments, Fixture, HANDOFFS, MemoryFixture, run_under};
use lockkeeper_core::{BoxFuture, Result};

fn main() -> ExitCode {
    run_under(&Arguments::from_args(), fixture, &HANDOFFS)
}

fn fixture() -> BoxFuture<Result<Arc<dyn Fixture>>> {
    let fixture: Arc<dyn Fixture> = Arc::new(MemoryFixture::start());
    Box::pin(std::future::ready(Ok(fixture)))
}
