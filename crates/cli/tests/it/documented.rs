//! The scripts that the guide shows for files are run, word for word.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::support::{Place, finish};

/// The pages whose scripts need no service, and one that each of them needs.
const PAGES: [&str; 3] = ["start.md", "files.md", "recipes.md"];

/// The programs that the scripts start.
const SCRIPTS: [&str; 4] = ["backup.sh", "bill.sh", "migrate.sh", "report.sh"];

/// The blocks of shell of a page, but for those that install the command.
fn scripts(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks
        .map(|block| block.lines().filter(|line| !line.starts_with("cargo ")).map(|line| format!("{line}\n")).collect())
        .collect()
}

#[test]
fn the_scripts_of_the_guide_for_files_run_word_for_word() {
    let place = Place::new();
    for name in SCRIPTS {
        place.write(name, "#!/bin/sh\necho ran >> ran\n");
        fs::set_permissions(place.notes().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let mut count = 0;
    for page in PAGES {
        for script in scripts(&fs::read_to_string(guide.join(page)).unwrap()) {
            // The directory of an example is one of the test.
            let script = script.replace("file:/srv/locks", &place.service());
            let mut shell = Command::new("sh");
            place.surround(shell.args(["-ec", &script]));
            let ended = finish(shell.current_dir(place.notes()));
            assert_eq!(ended.code, Some(0), "{page}:\n{script}\n{ended:?}");
            count += 1;
        }
    }
    assert!(count >= PAGES.len(), "{count} scripts");
    assert!(place.read("ran").lines().count() >= 6, "{}", place.read("ran"));
}
