//! The conformance suite on Redis 6.2, a server alone for each case. It is a separate binary, since the long run has
//! all cases and the plain one those about tokens.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/suite.rs"]
mod suite;

use std::process::ExitCode;

use lockkeeper_conformance::Arguments;
use lockkeeper_faults::long;
use lockkeeper_faults::redis::{self, Release};

/// What the names of the cases have in them that the plain run has.
const PLAIN: &str = "token";

fn main() -> ExitCode {
    if !redis::availability_of(Release::Redis6).or_skip("conformance_redis6") {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    if !long::is_asked_for() {
        arguments.filter.get_or_insert_with(|| PLAIN.to_owned());
    }
    suite::run(arguments, Release::Redis6, None, false)
}
