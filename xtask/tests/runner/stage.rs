//! A machine of stand-ins for the command under test: its own search path, target directory and notes.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The user and group of a run that must not be root's: by custom, those without any rights.
const OTHER_USER_ID: &str = "65534";

/// What every stand-in for tests begins with: `say PASSED FAILED` prints what a test harness prints.
const SAY: &str = r#"say() { echo "test result: ok. $1 passed; $2 failed; 0 ignored; 0 measured; 0 filtered out"; }"#;

/// A stand-in for cargo. It tells of a workspace of one crate, with one feature, one dependency and one test binary,
/// which passes the checks of dependencies and packages; tests are run by the program `tests`.
const CARGO: &str = r#"case "$1 $2" in
    "metadata --format-version") echo '{"version": 1, "workspace_root": "/", "target_directory": "/target",
        "resolve": null, "workspace_members": ["lockkeeper"], "packages": [{"name": "lockkeeper", "version": "0.1.0",
        "id": "lockkeeper", "manifest_path": "/Cargo.toml", "dependencies": [], "targets": [{"kind": ["test"],
        "crate_types": ["bin"], "name": "it", "src_path": "/it.rs", "test": true}],
        "features": {"tls": []}, "metadata": {"tests": {"long": ["it"]}}}, {"name": "tokio", "version": "1.0.0",
        "id": "tokio", "license": "MIT", "source": "registry+https://github.com/rust-lang/crates.io-index",
        "manifest_path": "/tokio/Cargo.toml", "dependencies": [], "targets": [], "features": {}}]}'; exit ;;
    "package --list") printf 'Cargo.toml\nLICENSE-APACHE\nLICENSE-MIT\nREADME.md\n'; exit ;;
esac
case "$*" in
    "test --workspace"*--no-run*)
        echo "$*" >> "$NOTES/builds"; read -r line < "$PROGRAMS/artifact"; echo "$line" ;;
    "test "*) exec "$PROGRAMS/tests" "$@" ;;
esac"#;

pub(crate) struct Stage {
    folder: TempDir,
    search: OsString,
}

/// How a run ended, and what it printed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) is_success: bool,
    pub(crate) output: String,
}

impl Stage {
    /// A machine with nothing but a shell's own words and a cargo whose tests pass.
    pub(crate) fn bare() -> Self {
        Self::new(OsString::new())
    }

    /// A machine with the programs of this one beside the stand-ins, but for those that install.
    pub(crate) fn with_this_machines_programs() -> Self {
        let stage = Self::new(env::var_os("PATH").unwrap_or_default());
        stage.program("apt-get", "exit 100");
        stage.program("rustup", "exit 100");
        stage
    }

    fn new(search: OsString) -> Self {
        let stage = Self { folder: tempfile::tempdir().expect("a temporary folder"), search };
        // Other users need access too: a run is made as another user.
        set_mode(stage.folder.path(), 0o777);
        for name in ["programs", "notes", "target"] {
            fs::create_dir(stage.path(name)).expect("made");
            set_mode(&stage.path(name), 0o777);
        }
        for name in ["sh", "touch", "test", "env", "true"] {
            let found =
                ["/bin", "/usr/bin"].iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
            std::os::unix::fs::symlink(found.expect("every system has it"), stage.path("programs").join(name))
                .expect("linked");
        }
        stage.program("cargo", CARGO);
        stage.tests("say 1 0");
        fs::write(stage.path("programs").join("artifact"), stage.artifact()).expect("written");
        stage
    }

    /// Puts a program of this script into the search path.
    pub(crate) fn program(&self, name: &str, script: &str) {
        let path = self.path("programs").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        set_mode(&path, 0o755);
    }

    /// What cargo tells of the test binary, in one line.
    fn artifact(&self) -> String {
        let parts = [
            r#"{"reason": "compiler-artifact", "package_id": "lockkeeper", "manifest_path": "/Cargo.toml""#,
            r#""target": {"kind": ["test"], "crate_types": ["bin"], "name": "it", "src_path": "/it.rs", "test": true}"#,
            r#""profile": {"opt_level": "0", "debug_assertions": true, "overflow_checks": true, "test": true}"#,
            r#""features": [], "filenames": [], "fresh": true"#,
        ];
        format!("{}, \"executable\": \"{}\"}}\n", parts.join(", "), self.path("programs").join("tests").display())
    }

    /// Says what the test binary does, and cargo's own tests of documentation and features.
    pub(crate) fn tests(&self, script: &str) {
        self.program("tests", &format!("{SAY}\n{script}"));
    }

    /// Makes the calls of cargo fail whose arguments are of this pattern, and no other.
    pub(crate) fn cargo_fails_at(&self, pattern: &str) {
        self.program("cargo", &format!("case \"$*\" in {pattern}) exit 101 ;; esac\n{CARGO}"));
    }

    /// Runs the command under test.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(arguments);
        self.finish(command)
    }

    /// The same as a job in the background of a shell, and under `nohup`.
    pub(crate) fn run_with_ignored_signals(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new("env");
        command.arg("--ignore-signal=HUP,INT").arg(env!("CARGO_BIN_EXE_xtask")).args(arguments);
        self.finish(command)
    }

    /// The same as a user who is not root.
    ///
    /// # Errors
    ///
    /// Why that cannot be tried here.
    pub(crate) fn run_as_another_user(&self, arguments: &[&str]) -> Result<Ended, String> {
        if !is_root() {
            return Ok(self.run(arguments));
        }
        let setpriv = find("setpriv").ok_or("setpriv is not in PATH (Debian: util-linux)")?;
        let as_other = |program: &Path| {
            let mut command = Command::new(&setpriv);
            command.args(["--reuid", OTHER_USER_ID, "--regid", OTHER_USER_ID, "--clear-groups"]).arg(program);
            command
        };
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
        let entered = as_other(Path::new("/bin/sh")).args(["-c", "cd \"$0\""]).arg(workspace).status();
        if !entered.is_ok_and(|status| status.success()) {
            return Err(format!("other users may not enter {}", workspace.display()));
        }
        // In some target directories they cannot enter the folder of the binary either.
        let copy = self.path("xtask");
        fs::copy(env!("CARGO_BIN_EXE_xtask"), &copy).expect("copied");
        let mut command = as_other(&copy);
        command.args(arguments);
        Ok(self.finish(command))
    }

    fn finish(&self, mut command: Command) -> Ended {
        let programs = self.path("programs");
        let search = [programs.clone()].into_iter().chain(env::split_paths(&self.search));
        let output = command
            .env("PATH", env::join_paths(search).expect("a search path"))
            .env("CARGO", programs.join("cargo"))
            .env("CARGO_TARGET_DIR", self.path("target"))
            .env("TMPDIR", self.folder.path())
            .env("PROGRAMS", programs)
            .env("NOTES", self.path("notes"))
            .env_remove("LOCKKEEPER_TEST_SKIPS")
            // The plain run takes it away itself.
            .env("LOCKKEEPER_TEST_LONG", "set by the user who runs this test")
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .expect("the command can be started");
        Ended { is_success: output.status.success(), output: String::from_utf8_lossy(&output.stdout).into_owned() }
    }

    /// What stand-ins wrote into the note.
    pub(crate) fn note(&self, name: &str) -> String {
        fs::read_to_string(self.path("notes").join(name)).expect("a note was written")
    }

    pub(crate) fn has_note(&self, name: &str) -> bool {
        self.path("notes").join(name).exists()
    }

    /// Why pip cannot fetch a wheel here; `None` if it can.
    pub(crate) fn cannot_reach_pypi(&self) -> Option<String> {
        let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/faults/peers/kazoo/requirements.txt");
        let mut command = Command::new("python3");
        command.args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--retries",
            "1",
            "--dest",
        ]);
        let output = command.arg(self.path("notes")).arg("--requirement").arg(requirements).output();
        match output {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(format!("pip: {}", String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "))),
            Err(error) => Some(format!("python3: {error} (Debian: python3-pip)")),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Writes down that a test did not run, and why.
///
/// # Panics
///
/// If it cannot: a skip that is not reported would be counted as passed.
pub(crate) fn skip(name: &str, reason: &str) {
    eprintln!("skipped: {name}: {reason}");
    if let Some(path) = env::var_os("LOCKKEEPER_TEST_SKIPS") {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("the file of skips opens");
        file.write_all(format!("{name}: {reason}\n").as_bytes()).expect("the file of skips can be written");
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let search = env::var_os("PATH")?;
    env::split_paths(&search).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its owner changes the mode");
}
