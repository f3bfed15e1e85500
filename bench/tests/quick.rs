//! A quick run of what needs no server: every row has its figures, in JSON and with its plots.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn quick_rows(groups: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (json, plots) = (folder.path().join("rows.json"), folder.path().join("plots"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper-bench"));
    command.arg("--quick").args(groups).arg("--json").arg(&json).arg("--plots").arg(&plots);
    let output = command.output().expect("the benchmark runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    if groups.contains(&"memory") {
        assert_is_svg(&plots.join("throughput-memory.svg"));
    }
    serde_json::from_slice(&fs::read(json).expect("the rows were written")).expect("an array of rows")
}

fn assert_is_svg(file: &Path) {
    let text = fs::read_to_string(file).expect("the plot was drawn");
    assert!(text.contains("<svg") && text.contains("Local"), "{text}");
}

#[test]
fn a_quick_run_of_memory_and_files_has_figures_in_every_row() {
    let rows = quick_rows(&["memory", "file"]);
    assert_eq!(rows.len(), 11);
    for row in rows {
        assert!(row["ours"].as_f64().is_some_and(|ours| ours > 0.0), "{row}");
        assert!(row["budget"].is_f64() && row["met"].is_boolean() && row["server"].is_string(), "{row}");
        let has_peer = row["peer_name"].is_string();
        assert_eq!((row["peer"].is_f64(), row["ratio"].is_f64()), (has_peer, has_peer), "{row}");
    }
}
