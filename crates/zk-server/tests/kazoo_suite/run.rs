//! One run of kazoo's tests on one server, and the outcome of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use lockkeeper_faults::process::{self, Process};
use tokio::net::TcpListener;

use crate::PACKAGES;
use crate::host::Host;

/// How long all tests may take: two minutes are usual on Apache, which is slow to start, on two cores that have nothing
/// else to do.
const RUN_WITHIN: Duration = Duration::from_secs(2_400);
/// How long one test may take, in seconds.
const TEST_SECONDS_MAX: &str = "300";
/// How often those are run again that have failed, on a machine with other work to do.
const REPEATS_MAX: usize = 3;
/// How much of what pytest wrote is shown when a run cannot be read.
const TAIL_BYTES: usize = 4_000;

/// The outcome of the tests.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) passed: BTreeSet<String>,
    pub(crate) failed: BTreeSet<String>,
    pub(crate) skipped: BTreeSet<String>,
    /// How many were left out, by reason.
    pub(crate) left_out: BTreeMap<String, usize>,
}

/// Which of the tests one pytest runs.
enum Which<'a> {
    /// Every second test, from this one on.
    Half(usize),
    /// Those of these names.
    Named(&'a [String]),
}

/// Runs all tests, each half on a separate server, since most of their time is spent waiting. Those that fail run
/// again, alone: many wait for a second and hope.
pub(crate) async fn run(mut hosts: [Host; 2]) -> Outcomes {
    let [first, second] = &mut hosts;
    let (mut outcomes, other) = tokio::join!(pytest(first, Which::Half(0)), pytest(second, Which::Half(1)));
    outcomes.add(other);
    let host = first;
    assert!(!outcomes.passed.is_empty(), "{}: nothing passed", host.name());
    for _ in 0..REPEATS_MAX {
        if outcomes.failed.is_empty() {
            break;
        }
        let names: Vec<_> = outcomes.failed.iter().cloned().collect();
        let again = pytest(host, Which::Named(&names)).await;
        outcomes.failed.retain(|name| !again.passed.contains(name));
        outcomes.passed.extend(again.passed);
    }
    println!(
        "{}: {} passed, {} failed, skipped by themselves: {:?}",
        host.name(),
        outcomes.passed.len(),
        outcomes.failed.len(),
        outcomes.skipped
    );
    outcomes
}

impl Outcomes {
    fn add(&mut self, other: Self) {
        self.passed.extend(other.passed);
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
        for (reason, count) in other.left_out {
            *self.left_out.entry(reason).or_default() += count;
        }
    }
}

async fn pytest(host: &mut Host, which: Which<'_>) -> Outcomes {
    let all = ["kazoo/tests".to_owned()];
    let (part, names) = match which {
        Which::Half(half) => (format!("{half}/2"), &all[..]),
        Which::Named(names) => ("0/1".to_owned(), names),
    };
    host.wipe().await;
    let folder = tempfile::tempdir().unwrap();
    let (outcomes, output) = (folder.path().join("outcomes"), folder.path().join("output"));
    let control = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kazoo_suite");
    let log = File::create(&output).unwrap();
    let packages = PACKAGES.folder().unwrap();
    let mut command = process::command("python3");
    command
        .args(["-m", "pytest", "-p", "kazoo_cluster", "-p", "no:cacheprovider", "-q", "--tb=short"])
        // Names are told relative to it, and taken so when they are run again.
        .args(["--rootdir", "."])
        .args(["--timeout", TEST_SECONDS_MAX])
        .args(names)
        .current_dir(&packages)
        .env("PYTHONPATH", std::env::join_paths([packages, plugins]).unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("KAZOO_SUITE_ADDRESS", host.address().to_string())
        .env("KAZOO_SUITE_CONTROL", control.local_addr().unwrap().port().to_string())
        .env("KAZOO_SUITE_PART", &part)
        .env("KAZOO_SUITE_OUTCOMES", &outcomes)
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    let mut suite = Process::start(command).unwrap();
    let ended = tokio::select! {
        ended = suite.exited(RUN_WITHIN) => ended,
        never = host.obey(&control) => match never {},
    };
    let tail = || {
        let output = fs::read(&output).unwrap_or_default();
        String::from_utf8_lossy(&output[output.len().saturating_sub(TAIL_BYTES)..]).into_owned()
    };
    if let Err(error) = ended {
        panic!("{}, part {part}: {error}: {}", host.name(), tail());
    }
    read(&fs::read_to_string(&outcomes).unwrap_or_else(|error| panic!("{error}: {}", tail())))
}

fn read(text: &str) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for line in text.lines() {
        let columns: Vec<_> = line.split('\t').collect();
        match *columns.as_slice() {
            ["passed", name] => _ = outcomes.passed.insert(name.to_owned()),
            ["failed", name] => _ = outcomes.failed.insert(name.to_owned()),
            ["skipped", name] => _ = outcomes.skipped.insert(name.to_owned()),
            ["left out", _, reason] => *outcomes.left_out.entry(reason.to_owned()).or_default() += 1,
            _ => panic!("not an outcome: {line:?}"),
        }
    }
    // A test that passed and could not be cleaned up has failed.
    outcomes.passed.retain(|name| !outcomes.failed.contains(name));
    outcomes
}
