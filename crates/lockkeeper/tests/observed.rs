//! The runnable examples of metrics and traces, and what operators are given for the metrics: they are built with the
//! tests, run, and held together by the names of the library.

use std::collections::BTreeSet;
use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use lockkeeper::metrics::ALL;
use lockkeeper_faults::Availability;

const PROMTOOL: &str = "/usr/bin/promtool";

/// Tells whether Prometheus' own tool is there.
fn has_promtool(test: &str) -> bool {
    let is_there = match Path::new(PROMTOOL).exists() {
        true => Availability::Present,
        false => Availability::Missing(format!("{PROMTOOL} is not there (Debian: prometheus)")),
    };
    is_there.or_skip(test)
}

/// Runs Prometheus' own tool with this input, and expects no complaint.
fn check_by_prometheus(arguments: &[&str], input: &str) {
    let mut command = Command::new(PROMTOOL);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut checking = command.spawn().unwrap();
    checking.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = checking.wait_with_output().unwrap();
    let said = [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(status.success() && said[1].is_empty(), "{said:?}");
}

/// Runs an example, which cargo builds with the tests beside it, and returns what it prints.
fn run(example: &str) -> String {
    let path = env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples").join(example);
    assert!(path.exists(), "{} is built by `cargo test -p lockkeeper --features full`", path.display());
    let Output { status, stdout, stderr } = Command::new(path).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(stdout).unwrap();
    assert!(status.success(), "{example}: {said}{}", String::from_utf8_lossy(&stderr));
    said
}

fn in_the_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn the_metrics_of_the_example_are_what_prometheus_accepts() {
    let page = run("metrics_prometheus");
    for line in [
        "# TYPE lockkeeper_acquire_seconds histogram",
        "lockkeeper_held{backend=\"memory\",kind=\"mutex\",lock=\"nightly-backup\"} 0",
        "lockkeeper_waiters{backend=\"memory\",kind=\"semaphore\",lock=\"other\"} 0",
        "lockkeeper_timeouts_total{lock=\"nightly-backup\"} 1",
        "lockkeeper_lost_total{reason=\"expired\",lock=\"nightly-backup\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
    for (outcome, calls) in [("granted", 1), ("busy", 1), ("timeout", 1)] {
        let kind = "backend=\"memory\",kind=\"mutex\",lock=\"nightly-backup\"";
        let count = format!("lockkeeper_acquire_seconds_count{{{kind},outcome=\"{outcome}\"}} {calls}");
        assert!(page.lines().any(|found| found == count), "{count} is not in\n{page}");
    }
    if has_promtool("the_metrics_of_the_example_are_what_prometheus_accepts") {
        check_by_prometheus(&["check", "metrics"], &page);
    }
}

#[test]
fn the_example_of_traces_shows_the_wait_and_the_hold_that_follows_from_it() {
    let said = run("traces_opentelemetry");
    for (what, count) in [("lockkeeper.wait", 2), ("lockkeeper.hold", 2), ("waited_for", 1)] {
        assert_eq!(said.matches(what).count(), count, "{what}: {said}");
    }
    assert!(said.contains("nightly-backup") && said.to_lowercase().contains("links"), "{said}");
}

#[test]
fn the_rules_for_the_metrics_of_programs_are_sound_and_tell_what_they_should() {
    if !has_promtool("the_rules_for_the_metrics_of_programs_are_sound_and_tell_what_they_should") {
        return;
    }
    for (what, file) in [("check", "lockkeeper-programs.rules.yml"), ("test", "lockkeeper-programs.rules.test.yml")] {
        let file = in_the_repository("contrib/prometheus").join(file);
        check_by_prometheus(&[what, "rules", file.to_str().unwrap()], "");
    }
}

/// The parts of a histogram have names of their own.
fn without_part(name: &str) -> &str {
    ["_bucket", "_count", "_sum"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name)
}

#[test]
fn every_metric_of_the_library_is_in_the_guide_and_no_other_is_named_for_operators() {
    let named_in = |file: &str| -> BTreeSet<String> {
        let text = std::fs::read_to_string(in_the_repository(file)).unwrap();
        let words = text.split(|mark: char| !mark.is_ascii_alphanumeric() && mark != '_');
        words.filter(|word| word.starts_with("lockkeeper_")).map(|name| without_part(name).to_owned()).collect()
    };
    let all: BTreeSet<String> = ALL.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(named_in("docs/guide/metrics.md"), all);
    let in_rules = named_in("contrib/prometheus/lockkeeper-programs.rules.yml");
    assert!(!in_rules.is_empty() && in_rules.is_subset(&all), "{in_rules:?}");
    let dashboard = "contrib/grafana/lockkeeper-programs.json";
    assert_eq!(named_in(dashboard), all, "each one is on the dashboard");
    let text = std::fs::read_to_string(in_the_repository(dashboard)).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(parsed["panels"].as_array().is_some_and(|panels| panels.len() >= all.len()), "{parsed}");
}
