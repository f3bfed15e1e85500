//! `cargo xtask release`: all that a release uploads, in one folder, from one commit.
//!
//! This file has the order of the steps, the tree's state, the notes and the check sums. The crates are those of
//! `packages`, the command is built and packed by `tarball`, and for Debian by `debian`. Nothing is uploaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::Metadata;
use clap::Args;

use crate::cargo::{metadata, root, target_folder};
use crate::install::is_there;
use crate::staging::{git, output};
use crate::{debian, packages, tarball};

/// The crate of the command, whose version and authors are those of all.
const COMMAND: &str = "lockkeeper-cli";

/// Where the artifacts go unless a folder is named, in the target directory.
const FOLDER: &str = "release-artifacts";

/// The names of the check sums and of the notes in it.
const SUMS: &str = "SHA256SUMS";
const NOTES: &str = "NOTES.md";

/// Options of `cargo xtask release`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// An empty or a new folder for the artifacts; otherwise target/release-artifacts, which is emptied first.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Release changes that are not committed too.
    #[arg(long)]
    allow_dirty: bool,
    /// Compile each package from its own files, as cargo publish does; slow.
    #[arg(long)]
    verify: bool,
}

/// Makes all artifacts, and prints them.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let changed = git(&["status", "--porcelain"])?;
    if !changed.is_empty() && !options.allow_dirty {
        return Err(format!("these are not committed; commit them, or add --allow-dirty:\n{changed}"));
    }
    let time = git(&["log", "-1", "--format=%ct"])?;
    let time = time.trim();
    let metadata = metadata()?;
    let command = metadata.workspace_packages().into_iter().find(|package| package.name == COMMAND);
    let command = command.ok_or_else(|| format!("the workspace has no crate {COMMAND}"))?;
    let version = command.version.to_string();
    let changelog =
        fs::read_to_string(root().join("CHANGELOG.md")).map_err(|error| format!("CHANGELOG.md: {error}"))?;
    let notes = notes(&changelog, &version)?;
    let folder = folder(options.out.as_deref())?;
    fs::write(folder.join(NOTES), notes).map_err(|error| format!("{NOTES}: {error}"))?;
    collect_crates(&metadata, options, &folder)?;
    let shipped = tarball::build()?;
    tarball::pack(&shipped, &version, time, &folder)?;
    if is_there("dpkg-deb") {
        let maintainer = command.authors.first().map_or("Lockkeeper", String::as_str);
        debian::pack(&shipped, debian::About { version: &version, maintainer }, time, &folder)?;
    } else {
        println!("no package for Debian: there is no dpkg-deb (apt-get install dpkg)");
    }
    sum_and_print(&folder)
}

/// Packages the crates as `cargo publish` uploads them, with their lock files, and copies them into the folder.
fn collect_crates(metadata: &Metadata, options: &Options, folder: &Path) -> Result<(), String> {
    let verification = if options.verify { "" } else { " --no-verify" };
    let dirty = if options.allow_dirty { " --allow-dirty" } else { "" };
    for package in packages::package(metadata, &format!("--locked --quiet{verification}{dirty}"))? {
        let file = packages::file_name(package);
        fs::copy(target_folder().join("package").join(&file), folder.join(&file))
            .map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(())
}

/// Writes the check sums of all files, and prints each file with its size.
fn sum_and_print(folder: &Path) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        files.push((entry.file_name(), entry.metadata().map_err(failed)?.len()));
    }
    files.sort();
    let names = files.iter().map(|(name, _)| name);
    let sums = output(Command::new("sha256sum").current_dir(folder).arg("--").args(names))?;
    fs::write(folder.join(SUMS), sums).map_err(failed)?;
    println!("{} files and their {SUMS} are in {}:", files.len(), folder.display());
    files.iter().for_each(|(name, bytes)| println!("{:>10.1} KiB  {}", *bytes as f64 / 1024.0, name.display()));
    Ok(())
}

/// The folder of the artifacts, which is there and empty. One that the user named is never emptied.
fn folder(named: Option<&Path>) -> Result<PathBuf, String> {
    let usual = target_folder().join(FOLDER);
    let folder = named.unwrap_or(&usual);
    let failed = |error| format!("{}: {error}", folder.display());
    if named.is_none() && folder.exists() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(format!("{} is not empty; name a new folder", folder.display()));
    }
    // Programs are run in other folders.
    folder.canonicalize().map_err(failed)
}

/// The newest section of the change log, which must be that of the version.
fn notes(changelog: &str, version: &str) -> Result<String, String> {
    let is_heading = |line: &&str| line.starts_with("## ");
    let mut lines = changelog.lines().skip_while(|line| !is_heading(line));
    let heading = lines.next().ok_or("CHANGELOG.md has no section")?;
    let named = heading.split(|c: char| c.is_whitespace() || "[]".contains(c)).any(|word| word == version);
    if !named {
        return Err(format!("the newest section of CHANGELOG.md is `{heading}`, and not that of {version}"));
    }
    let text: Vec<&str> = lines.take_while(|line| !is_heading(line)).collect();
    Ok(format!("{heading}\n\n{}\n", text.join("\n").trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\nAbout.\n\n## [1.3.0] - 2027-01-31\n\n### The library\n\n- New.\n\n\
        ## [1.2.0] - 2026-12-31\n\n- Old.\n";

    #[test]
    fn the_notes_are_the_newest_section_of_the_change_log() {
        assert_eq!(notes(CHANGELOG, "1.3.0").unwrap(), "## [1.3.0] - 2027-01-31\n\n### The library\n\n- New.\n");
        let first = notes("## [Unreleased] 0.1.0\n\n- First.\n", "0.1.0").unwrap();
        assert_eq!(first, "## [Unreleased] 0.1.0\n\n- First.\n");
    }

    #[test]
    fn a_newest_section_of_another_version_stops_the_release() {
        assert!(notes(CHANGELOG, "1.2.0").unwrap_err().contains("not that of 1.2.0"));
        assert!(notes(CHANGELOG, "3.0").is_err(), "a part of a version is not it");
        assert!(notes("# Changelog\n", "1.2.0").is_err());
    }

    #[test]
    fn a_folder_that_the_user_named_is_never_emptied() {
        let named = tempfile::tempdir().unwrap();
        assert_eq!(folder(Some(named.path())).unwrap(), named.path().canonicalize().unwrap());
        let kept = named.path().join("kept");
        fs::write(&kept, "").unwrap();
        assert!(folder(Some(named.path())).unwrap_err().contains("not empty"));
        assert!(kept.exists());
    }
}
