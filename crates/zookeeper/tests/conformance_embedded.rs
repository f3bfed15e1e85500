//! The conformance suite on the embedded server.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/sniff.rs"]
mod sniff;

use std::process::ExitCode;

fn main() -> ExitCode {
    fixture::run_embedded()
}
