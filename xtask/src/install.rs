//! Installing the system packages that tests use, for `cargo xtask test --install`.
//!
//! The packages are one table, [`NEEDS`]; nothing else knows them. A test that lacks its programs skips itself and says
//! so, whether or not this ran. Only Debian's apt-get is spoken here.

use std::env;
use std::path::Path;
use std::process::Command;

/// One system package, and why the tests want it.
struct Need {
    package: &'static str,
    why: &'static str,
    /// The package is there when all of these are: programs to be found in `PATH`, or files by absolute path.
    signs: &'static [&'static str],
}

/// All that the tests use beyond Rust. None of these packages brings a daemon; one that does must be kept from starting
/// it when it is added, since the tests start their own on free ports.
const NEEDS: &[Need] = &[
    Need {
        package: "util-linux",
        why: "flock to measure against, setpriv for a second user, unshare for namespaces",
        signs: &["flock", "setpriv", "unshare"],
    },
    Need { package: "procps", why: "ps to look at processes from outside", signs: &["ps"] },
    Need { package: "iproute2", why: "ip, to make network namespaces", signs: &["ip"] },
    Need {
        package: "default-jdk-headless",
        why: "to run Apache ZooKeeper, and to compile Curator's driver",
        signs: &["java", "javac"],
    },
    Need {
        package: "libzookeeper-java",
        why: "Apache ZooKeeper, started by the tests themselves",
        signs: &["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"],
    },
    Need {
        package: "libcurator-recipes-java",
        why: "Curator, to queue with",
        signs: &["/usr/share/java/curator-recipes.jar", "/usr/share/java/slf4j-nop.jar"],
    },
    Need { package: "python3-pip", why: "to install kazoo in the target directory", signs: &["python3", "pip3"] },
    Need { package: "golang-go", why: "to compile the driver of go-zookeeper", signs: &["go"] },
    Need {
        package: "golang-github-samuel-go-zookeeper-dev",
        why: "go-zookeeper, to queue with",
        signs: &["/usr/share/gocode/src/github.com/samuel/go-zookeeper/zk/lock.go"],
    },
];

/// Installs the packages of [`NEEDS`] that are missing, and nothing when none is.
///
/// # Errors
///
/// One sentence with the cure: not root, no apt-get, apt-get failed, or a sign still missing afterwards.
pub(crate) fn install_missing() -> Result<(), String> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !need.is_there()).collect();
    if missing.is_empty() {
        println!("nothing to install");
        return Ok(());
    }
    for need in &missing {
        println!("missing: {} ({})", need.package, need.why);
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let packages_text = packages.join(" ");
    if !rustix::process::geteuid().is_root() {
        return Err(format!("installing needs root; run as root: apt-get install {packages_text}"));
    }
    if !is_there("apt-get") {
        return Err(format!("no apt-get here; install by hand what Debian calls: {packages_text}"));
    }
    apt_get(&["update"])?;
    apt_get(&[&["install", "--yes", "--no-install-recommends"], packages.as_slice()].concat())?;
    match missing.iter().find(|need| !need.is_there()) {
        Some(need) => Err(format!("{} is installed, yet not all of {:?} is there", need.package, need.signs)),
        None => Ok(()),
    }
}

impl Need {
    fn is_there(&self) -> bool {
        self.signs.iter().all(|sign| is_there(sign))
    }
}

/// Whether a program is in `PATH`; an absolute path is looked at as it is.
fn is_there(sign: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    Path::new(sign).is_absolute() && Path::new(sign).exists()
        || env::split_paths(&path).any(|folder| folder.join(sign).is_file())
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let status = Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("apt-get {} failed: {status}", arguments.join(" "))),
        Err(error) => Err(format!("apt-get could not be started: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_is_a_program_in_path_or_an_absolute_file() {
        assert!(is_there("sh"));
        assert!(is_there("/bin/sh"));
        assert!(!is_there("no-such-program-anywhere"));
        assert!(!is_there("/no/such/file"));
    }
}
