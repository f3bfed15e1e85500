//! The conformance suite on Debian's Redis with `layout=setnx`: as far as the kinds of lock go that plain locks have.

#[path = "support/fixture.rs"]
mod fixture;

use std::process::ExitCode;

use crate::fixture::Suite;

fn main() -> ExitCode {
    Suite { is_setnx: true, ..Suite::DEBIAN }.run("conformance_setnx")
}
