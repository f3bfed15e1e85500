//! The packages of the published crates: which crates those are, and how cargo is asked for their `.crate` files.
//!
//! What must be inside them is `check`'s, and where a release puts them `release`'s.

use cargo_metadata::{Metadata, Package};

use crate::cargo::cargo;

/// Packages every published crate with these options of `cargo package`, and answers the crates.
pub(crate) fn package<'a>(metadata: &'a Metadata, options: &str) -> Result<Vec<&'a Package>, String> {
    let (published, private): (Vec<&Package>, Vec<&Package>) =
        metadata.workspace_packages().into_iter().partition(|package| is_published(package));
    if published.is_empty() {
        return Err("no published crate was found".to_owned());
    }
    let excluded: String = private.iter().map(|package| format!(" --exclude {}", package.name)).collect();
    cargo(&format!("package --workspace{excluded} {options}"), &[])?;
    Ok(published)
}

/// The file that `cargo package` makes of a crate, in `target/package`.
pub(crate) fn file_name(package: &Package) -> String {
    format!("{}-{}.crate", package.name, package.version)
}

fn is_published(package: &Package) -> bool {
    !package.publish.as_ref().is_some_and(Vec::is_empty)
}
