//! kazoo's own tests, which its package contains, on the embedded server and on Apache, side by side.
//!
//! What is left out on both, and why, is in `kazoo_cluster.py`; `host` runs the servers, `run` the tests.

mod host;
mod run;

use lockkeeper_faults::Packages;
use lockkeeper_faults::zookeeper;

use host::Host;

/// kazoo with its tests, and what they need.
const PACKAGES: Packages = Packages::new("kazoo-suite", include_str!("requirements.txt"));
const NAME: &str = "what_kazoos_own_tests_find_right_on_apache_they_find_right_here";
/// How many of the tests pass at least on either; fewer means that they were not found.
const PASSED_MIN: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn what_kazoos_own_tests_find_right_on_apache_they_find_right_here() {
    if !zookeeper::availability().and(|| PACKAGES.availability()).or_skip(NAME) {
        return;
    }
    let (apache, embedded) = tokio::join!(
        async {
            let (first, second) = tokio::join!(Host::apache(), Host::apache());
            run::run([first, second]).await
        },
        run::run([Host::embedded(), Host::embedded()])
    );
    for (reason, count) in &embedded.left_out {
        println!("left out: {count:>3}, {reason}");
    }
    println!("failed on Apache: {:?}\nfailed here: {:?}", apache.failed, embedded.failed);
    let missing: Vec<_> = apache.passed.difference(&embedded.passed).collect();
    assert!(missing.is_empty(), "they pass on Apache and not here: {missing:?}");
    assert!(apache.passed.len() >= PASSED_MIN, "only {} passed on Apache", apache.passed.len());
}
