//! A folder of files that become an archive, and the programs that pack them.
//!
//! An archive depends on what it is made of alone: modes are set here, and its makers name owner, order and time.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::cargo::{at_root, succeeded};

/// The mode of a folder, and of a program.
const MODE_PROGRAM: u32 = 0o755;

/// The mode of a file that is only read.
const MODE_FILE: u32 = 0o644;

/// A folder that is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Staging {
    folder: TempDir,
    bytes: u64,
}

impl Staging {
    pub(crate) fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("no folder for what is packed: {error}"))?;
        set_mode(folder.path(), MODE_PROGRAM)?;
        Ok(Self { folder, bytes: 0 })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The sum of the files' sizes, which no file system's blocks change.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts a file that is read at this path below the folder.
    pub(crate) fn put(&mut self, path: &str, contents: impl AsRef<[u8]>) -> Result<(), String> {
        self.put_with(path, contents, MODE_FILE)
    }

    /// Puts a file that is executed at this path below the folder.
    pub(crate) fn put_program(&mut self, path: &str, contents: impl AsRef<[u8]>) -> Result<(), String> {
        self.put_with(path, contents, MODE_PROGRAM)
    }

    fn put_with(&mut self, path: &str, contents: impl AsRef<[u8]>, mode: u32) -> Result<(), String> {
        let mut at = self.path().to_owned();
        for folder in Path::new(path).parent().into_iter().flatten() {
            at.push(folder);
            if !at.exists() {
                fs::create_dir(&at).map_err(|error| format!("{}: {error}", at.display()))?;
                // The umask does not count.
                set_mode(&at, MODE_PROGRAM)?;
            }
        }
        let file = self.path().join(path);
        self.bytes += contents.as_ref().len() as u64;
        fs::write(&file, contents).map_err(|error| format!("{}: {error}", file.display()))?;
        set_mode(&file, mode)
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads a file of the tree.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a program to its end; what it prints on standard output is answered.
pub(crate) fn output_of(program: &str, arguments: &[&str]) -> Result<String, String> {
    output(Command::new(program).args(arguments))
}

/// Runs a command to its end; what it prints on standard output is answered.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    // What some print depends on the language.
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{name} could not be started: {error}"))?;
    succeeded(output.status).map_err(|why| format!("{name}: {why}"))?;
    String::from_utf8(output.stdout).map_err(|error| format!("{name} did not print text: {error}"))
}

/// Runs git at the workspace's root; what it prints is answered.
pub(crate) fn git(arguments: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    git.args(arguments);
    output(&mut at_root(git))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_their_folders_have_the_modes_that_a_package_ships() {
        let mut staging = Staging::new().unwrap();
        staging.put_program("usr/bin/x", "x").unwrap();
        staging.put("usr/share/x", "xy").unwrap();
        let mode = |path: &str| staging.path().join(path).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(["", "usr", "usr/bin", "usr/bin/x", "usr/share/x"].map(mode), [0o755, 0o755, 0o755, 0o755, 0o644]);
        assert_eq!(staging.bytes(), 3);
    }

    #[test]
    fn a_program_that_fails_or_is_missing_is_named() {
        assert!(output_of("false", &[]).unwrap_err().starts_with("false: "));
        assert!(output_of("no-such-program", &[]).unwrap_err().contains("no-such-program could not be started"));
    }
}
