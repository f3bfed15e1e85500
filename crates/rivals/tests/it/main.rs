//! The program, run with two locks that need no server: it plays rounds, and it sees two holders where there are two.

use std::process::Command;

#[test]
fn flock_has_two_holders_where_its_file_is_removed_and_lockkeeper_has_not() {
    if !lockkeeper_faults::process::availability().or_skip_here() {
        return;
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_lockkeeper-rivals"));
    program.args(["--rounds", "1", "--lock", "files", "--lock", "flock", "--fault", "killed", "--fault", "emptied"]);
    let output = program.output().expect("the program is built");
    let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    let cells = |name: &str| -> Vec<String> {
        let row = table.lines().find(|line| line.starts_with(&format!("| {name} |")));
        let row = row.unwrap_or_else(|| panic!("no row of {name}: {table}"));
        row.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let (ours, flock) = (cells("Lockkeeper on files"), cells("`flock(1)`"));
    // The killed, then those whose data are lost.
    for killed in [&ours[2], &flock[2]] {
        assert!(killed.starts_with("0 / ") && killed.ends_with("/ –"), "{table}");
    }
    assert!(ours[3].starts_with("0 / ") && !ours[3].ends_with("/ never"), "{table}");
    assert!(!flock[3].starts_with("0 / ") && flock[3].ends_with("/ never"), "{table}");
}
