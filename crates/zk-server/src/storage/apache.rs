//! Data of Apache ZooKeeper. They are told apart so that they are not taken for an empty directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The directory in which Apache ZooKeeper has its files, below its data directory.
const BELOW: &str = "version-2";
/// Files that only its directory below has.
const EPOCH_NAMES: [&str; 2] = ["acceptedEpoch", "currentEpoch"];
/// How its snapshots and logs begin, as ours do. A number in hexadecimal follows: without leading zeros, while ours has
/// 16 digits.
const PREFIXES: [&str; 2] = ["log.", "snapshot."];
/// How many digits our numbers have.
const OUR_DIGITS: usize = 16;

/// Looks for data of Apache ZooKeeper in a directory; returns the first of it.
///
/// # Errors
///
/// Fails if the directory cannot be read.
pub(super) fn data_in(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(is_apaches) {
            found.push(path);
        }
    }
    Ok(found.into_iter().min())
}

fn is_apaches(name: &str) -> bool {
    let number = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    let is_numbered = number.is_some_and(|number| {
        let is_hexadecimal = number.bytes().all(|byte| byte.is_ascii_hexdigit());
        (1..OUR_DIGITS).contains(&number.len()) && is_hexadecimal
    });
    name == BELOW || EPOCH_NAMES.contains(&name) || is_numbered
}
