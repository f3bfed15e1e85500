//! The conformance suite on the embedded server.

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    support::fixture::run_embedded()
}
