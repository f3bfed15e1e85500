//! A quick run of each group: every row has its figures, in JSON and with its plots. A group whose server is not
//! installed is skipped by name.

use std::fs;
use std::path::Path;
use std::process::Command;

use lockkeeper_faults::peers::curator;
use lockkeeper_faults::{etcd, mariadb, postgres, redis, zookeeper};
use serde_json::Value;

fn quick_rows(groups: &[&str], plots_drawn: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (json, plots) = (folder.path().join("rows.json"), folder.path().join("plots"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper-bench"));
    command.arg("--quick").args(groups).arg("--json").arg(&json).arg("--plots").arg(&plots);
    let output = command.output().expect("the benchmark runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    plots_drawn.iter().for_each(|plot| assert_is_svg(&plots.join(plot)));
    serde_json::from_slice(&fs::read(json).expect("the rows were written")).expect("an array of rows")
}

fn assert_is_svg(file: &Path) {
    let text = fs::read_to_string(file).expect("the plot was drawn");
    assert!(text.contains("<svg") && text.contains("polyline"), "{text}");
}

fn assert_all_have_figures(rows: &[Value], count: usize) {
    assert_eq!(rows.len(), count);
    for row in rows {
        assert!(row["ours"].as_f64().is_some_and(|ours| ours > 0.0), "{row}");
        assert!(row["met"].is_boolean() && row["server"].is_string(), "{row}");
        let has_budget = row["bound"] != "none";
        assert_eq!(row["budget"].is_f64(), has_budget, "{row}");
        let has_peer = row["peer_name"].is_string();
        assert_eq!((row["peer"].is_f64(), row["ratio"].is_f64()), (has_peer, has_peer), "{row}");
    }
}

#[test]
fn a_quick_run_of_memory_and_files_has_figures_in_every_row() {
    assert_all_have_figures(&quick_rows(&["memory", "file"], &["throughput-memory.svg"]), 12);
}

#[test]
fn a_quick_run_of_etcd_has_figures_in_every_row() {
    if etcd::availability().or_skip("a_quick_run_of_etcd_has_figures_in_every_row") {
        assert_all_have_figures(&quick_rows(&["etcd"], &[]), 2);
    }
}

#[test]
fn a_quick_run_of_redis_has_figures_in_every_row() {
    if redis::availability().or_skip("a_quick_run_of_redis_has_figures_in_every_row") {
        assert_all_have_figures(&quick_rows(&["redis"], &[]), 8);
    }
}

#[test]
fn a_quick_run_of_sql_has_figures_in_every_row() {
    let databases = postgres::availability().and(mariadb::availability);
    if databases.or_skip("a_quick_run_of_sql_has_figures_in_every_row") {
        assert_all_have_figures(&quick_rows(&["sql"], &[]), 11);
    }
}

#[test]
fn a_quick_run_of_zookeeper_has_figures_in_every_row() {
    let all = zookeeper::availability().and(redis::availability).and(curator::availability);
    if all.or_skip("a_quick_run_of_zookeeper_has_figures_in_every_row") {
        let plots = ["latency-zookeeper.svg", "hand-off-zookeeper.svg", "throughput-zookeeper.svg"];
        assert_all_have_figures(&quick_rows(&["zookeeper"], &plots), 52);
    }
}

#[test]
fn a_quick_run_of_the_server_has_figures_in_every_row() {
    if zookeeper::availability().or_skip("a_quick_run_of_the_server_has_figures_in_every_row") {
        assert_all_have_figures(&quick_rows(&["server"], &[]), 9);
    }
}

#[test]
fn a_quick_run_of_followers_has_figures_in_every_row() {
    let servers = zookeeper::availability().and(etcd::availability).and(redis::availability);
    let all = servers.and(postgres::availability).and(mariadb::availability);
    if all.or_skip("a_quick_run_of_followers_has_figures_in_every_row") {
        assert_all_have_figures(&quick_rows(&["following"], &[]), 7);
    }
}

#[test]
fn rows_of_a_server_that_is_not_installed_say_so_and_are_not_met() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("rows.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper-bench"));
    // Nothing is in its path.
    command.args(["--quick", "etcd", "--json"]).arg(&json).env("PATH", folder.path());
    assert!(!command.output().expect("the benchmark runs").status.success());
    let rows: Vec<Value> =
        serde_json::from_slice(&fs::read(json).expect("the rows were written")).expect("an array of rows");
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(row["missing"].as_str().is_some_and(|why| why.contains("is not in PATH")), "{row}");
        assert_eq!(row["met"], false, "{row}");
    }
}
