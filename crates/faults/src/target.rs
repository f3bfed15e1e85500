//! Where the target directory is, in which things are kept from run to run.

use std::env;
use std::path::{Path, PathBuf};

pub(crate) fn folder() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"))
}
