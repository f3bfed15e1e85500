//! Which test binaries have long rounds: those that `cargo xtask test --long` runs, and nothing else.
//!
//! Each test itself decides how many rounds it plays (`lockkeeper_faults::long`).

use crate::lanes::WORKSPACE_TESTS;

/// A test binary with long rounds.
pub(crate) struct LongTest {
    /// The name of the binary, which is that of its stage; one of the same name in another crate is run with it.
    pub(crate) name: &'static str,
    /// The folder of its crate, for readers.
    #[cfg_attr(not(test), expect(dead_code, reason = "cargo finds it by its name"))]
    pub(crate) krate: &'static str,
}

/// The longest comes last, so that an early failure is known early.
pub(crate) const TESTS: &[LongTest] = &[
    LongTest { name: "crash", krate: "zk-server" },
    LongTest { name: "differential", krate: "zk-server" },
    LongTest { name: "handoff_rounds", krate: "lockkeeper" },
    LongTest { name: "fence_rounds", krate: "cli" },
    LongTest { name: "fence_rounds", krate: "lockkeeper" },
    LongTest { name: "fence_resources", krate: "lockkeeper" },
    LongTest { name: "crowded_page", krate: "cli" },
    LongTest { name: "leftovers", krate: "cli" },
    LongTest { name: "endings", krate: "zookeeper" },
    LongTest { name: "late_joins", krate: "etcd" },
    LongTest { name: "late_joins", krate: "redis" },
    LongTest { name: "etcdctl", krate: "etcd" },
    LongTest { name: "setnx", krate: "redis" },
    LongTest { name: "waits", krate: "etcd" },
    LongTest { name: "waits", krate: "redis" },
    LongTest { name: "conformance", krate: "etcd" },
    LongTest { name: "conformance", krate: "redis" },
    LongTest { name: "conformance", krate: "zookeeper" },
    LongTest { name: "conformance_aof", krate: "redis" },
    LongTest { name: "conformance_cluster", krate: "etcd" },
    LongTest { name: "conformance_distro", krate: "etcd" },
    LongTest { name: "conformance_embedded", krate: "zookeeper" },
    LongTest { name: "conformance_ensemble", krate: "zookeeper" },
    LongTest { name: "conformance_etcdctl", krate: "etcd" },
    LongTest { name: "conformance_mariadb", krate: "sql" },
    LongTest { name: "conformance_pgbouncer", krate: "sql" },
    LongTest { name: "conformance_postgres", krate: "sql" },
    LongTest { name: "conformance_redis6", krate: "redis" },
    LongTest { name: "conformance_setnx", krate: "redis" },
    LongTest { name: "conformance_valkey", krate: "redis" },
    LongTest { name: "crowd", krate: "etcd" },
    LongTest { name: "crowd", krate: "redis" },
    LongTest { name: "crowd", krate: "sql" },
    LongTest { name: "crowd", krate: "zookeeper" },
    LongTest { name: "following", krate: "zookeeper" },
    LongTest { name: "remnants", krate: "zookeeper" },
    LongTest { name: "zookeeper", krate: "cli" },
    LongTest { name: "elections", krate: "zookeeper" },
    LongTest { name: "cut_off", krate: "zookeeper" },
    LongTest { name: "faults", krate: "etcd" },
    LongTest { name: "remnants", krate: "etcd" },
    LongTest { name: "faults", krate: "redis" },
    LongTest { name: "faults", krate: "sql" },
    LongTest { name: "kill_stress", krate: "cli" },
];

/// Those that judge what our own code costs: they are built as users build it, since unoptimised code takes many times
/// the work and says nothing of it.
const OPTIMIZED: &[&str] = &["crowded_page", "following"];

/// What is asked of cargo for a stage of the long run. It is not captured, so that its progress can be seen.
pub(crate) fn order(stage: &str) -> String {
    let profile = if OPTIMIZED.contains(&stage) { " --release" } else { "" };
    format!("{WORKSPACE_TESTS}{profile} --test {stage} -- --nocapture")
}

/// The stages of the long run: each name once, since binaries of one name are run together, where it comes last.
pub(crate) fn stages() -> impl Iterator<Item = &'static str> {
    let is_last = |&(at, test): &(usize, &LongTest)| !TESTS[at + 1..].iter().any(|later| later.name == test.name);
    TESTS.iter().enumerate().filter(is_last).map(|(_, test)| test.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::cargo::root;

    /// The call by which a test asks for its rounds, or has the shared trials ask.
    const ASKS: &[&str] = &[
        "long::rounds(",
        "long::time(",
        "long::is_asked_for(",
        "LOCKKEEPER_TEST_LONG",
        "rounds::play(",
        "lockkeeper_trials::crowd",
        "lockkeeper_trials::waits",
    ];

    /// The files of a test folder with their texts.
    fn texts(path: &Path, texts: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(path).into_iter().flatten() {
            let path = entry.expect("an entry of the tree can be read").path();
            if path.is_dir() {
                self::texts(&path, texts);
            } else if let Ok(text) = fs::read_to_string(&path) {
                texts.push((path, text));
            }
        }
    }

    /// Every test binary of a crate that asks for its long rounds, itself or by a file of `support` that it shares.
    fn asking(krate: &str) -> impl Iterator<Item = (String, String)> {
        let tests = root().join("crates").join(krate).join("tests");
        let mut texts = Vec::new();
        self::texts(&tests, &mut texts);
        let asks = |text: &str| ASKS.iter().any(|ask| text.contains(ask));
        let (shared, own): (Vec<_>, Vec<_>) =
            texts.into_iter().partition(|(path, _)| path.starts_with(tests.join("support")));
        let shared = shared.into_iter().filter(move |(_, text)| asks(text));
        let shared = shared.map(|(path, _)| path.strip_prefix(&tests).expect("it lies there").display().to_string());
        let shared: Vec<_> = shared.collect();
        let tests = root().join("crates").join(krate).join("tests");
        let krate = krate.to_owned();
        own.into_iter().filter(move |(_, text)| asks(text) || shared.iter().any(|path| text.contains(path))).map(
            move |(path, _)| {
                let name = path.strip_prefix(&tests).expect("it lies there").iter().next().expect("it has a name");
                let name = Path::new(name).file_stem().expect("it has a name");
                (krate.clone(), name.to_string_lossy().into_owned())
            },
        )
    }

    #[test]
    fn what_judges_the_cost_of_our_code_is_built_as_users_build_it_and_nothing_else_is() {
        let optimized = stages().filter(|stage| order(stage).contains(" --release "));
        assert!(optimized.eq(OPTIMIZED.iter().copied()), "{OPTIMIZED:?} are stages, in this order");
    }

    #[test]
    fn each_test_that_asks_for_long_rounds_is_run_by_the_long_run_and_no_other_is() {
        let mut found = BTreeSet::new();
        for krate in fs::read_dir(root().join("crates")).expect("the crates can be listed") {
            let krate = krate.expect("a crate").file_name().to_string_lossy().into_owned();
            found.extend(asking(&krate));
        }
        let listed = TESTS.iter().map(|test| (test.krate.to_owned(), test.name.to_owned())).collect();
        assert_eq!(found, listed, "found in crates/*/tests, and listed in xtask/src/long.rs");
    }
}
