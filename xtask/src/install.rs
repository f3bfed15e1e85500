//! Installing the system packages that tests use and this machine lacks, for `cargo xtask test`; `python` installs what
//! comes from PyPI, `oldest` the oldest Rust.
//!
//! The packages are one table, [`NEEDS`]; nothing else knows them. Nothing here fails a run: what is left out is
//! reported with its cure, and a test that lacks its programs skips itself and says so. Only Debian's apt-get is
//! supported.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, io};

use crate::progress::during;

/// What the developer wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wish {
    Install,
    /// Install nothing, and say what is missing.
    LookOnly,
}

/// Something that tests use and that is missing after all, and why, with the cure.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct LeftOut {
    pub(crate) what: String,
    pub(crate) why: String,
}

/// One system package, and why the tests want it.
struct Need {
    package: &'static str,
    why: &'static str,
    /// The package is there when all of these are: programs to be found in `PATH`, or files by absolute path, where one
    /// folder may be a `*`.
    signs: &'static [&'static str],
}

/// The packages that bring a daemon, and its unit. The tests start their own servers on free ports, so one that is
/// installed here is neither started nor left enabled.
const DAEMONS: &[(&str, &str)] = &[
    ("etcd-server", "etcd.service"),
    ("redis-server", "redis-server.service"),
    ("redis-sentinel", "redis-sentinel.service"),
    ("postgresql", "postgresql.service"),
    ("pgbouncer", "pgbouncer.service"),
    ("mariadb-server", "mariadb.service"),
    ("prometheus", "prometheus.service"),
];

/// What `invoke-rc.d` asks whether it may start a daemon; it is there only while packages are installed, unless the
/// machine has one.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// All that the tests use beyond Rust.
const NEEDS: &[Need] = &[
    Need {
        package: "util-linux",
        why: "flock to measure against, setpriv for a second user, unshare for namespaces",
        signs: &["flock", "setpriv", "unshare"],
    },
    Need { package: "procps", why: "ps to look at processes from outside", signs: &["ps"] },
    Need { package: "zsh", why: "zsh, to complete the names of locks in", signs: &["zsh"] },
    Need { package: "fish", why: "fish, to complete the names of locks in", signs: &["fish"] },
    Need { package: "systemd", why: "systemd-analyze, to check the server's unit", signs: &["systemd-analyze"] },
    Need { package: "prometheus", why: "promtool, to check metrics and rules", signs: &["promtool"] },
    Need { package: "chromium", why: "a browser, to look at the monitor's page", signs: &["chromium"] },
    Need { package: "chromium-driver", why: "chromedriver, to drive it", signs: &["chromedriver"] },
    Need { package: "tmux", why: "a terminal, to look at `lockkeeper top`", signs: &["tmux"] },
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
    Need {
        package: "python3-pip",
        why: "to install kazoo, its own tests, and other releases of servers in the target directory",
        signs: &["python3", "pip3"],
    },
    Need { package: "etcd-server", why: "etcd, started by the tests themselves", signs: &["etcd"] },
    Need { package: "etcd-client", why: "etcdctl, to operate etcd with", signs: &["etcdctl"] },
    Need { package: "redis-server", why: "Redis, started by the tests themselves", signs: &["redis-server"] },
    Need { package: "redis-sentinel", why: "sentinels, to replace a master of Redis", signs: &["redis-sentinel"] },
    Need {
        package: "postgresql",
        why: "PostgreSQL, started by the tests themselves",
        signs: &["/usr/lib/postgresql/*/bin/postgres", "/usr/lib/postgresql/*/bin/initdb"],
    },
    Need { package: "pgbouncer", why: "to put between clients and PostgreSQL", signs: &["/usr/sbin/pgbouncer"] },
    Need {
        package: "mariadb-server",
        why: "MariaDB, started by the tests themselves",
        signs: &["/usr/sbin/mariadbd", "/usr/bin/mariadb-install-db"],
    },
    Need {
        package: "galera-4",
        why: "to make MariaDB a node of a cluster",
        signs: &["/usr/lib/galera/libgalera_smm.so"],
    },
    Need { package: "sqlite3", why: "SQLite, as a resource that a fence guards", signs: &["sqlite3"] },
    Need { package: "faketime", why: "to move the clock of a server that runs", signs: &["faketime"] },
    Need { package: "golang-go", why: "to compile the driver of go-zookeeper", signs: &["go"] },
    Need {
        package: "golang-github-samuel-go-zookeeper-dev",
        why: "go-zookeeper, to queue with",
        signs: &["/usr/share/gocode/src/github.com/samuel/go-zookeeper/zk/lock.go"],
    },
];

/// Installs the packages of [`NEEDS`] that are missing, and nothing when none is.
pub(crate) fn set_up(wish: Wish) -> Vec<LeftOut> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !need.is_there()).collect();
    if missing.is_empty() {
        println!("all {} system packages that tests use are there", NEEDS.len());
        return Vec::new();
    }
    for need in &missing {
        println!("missing: {} ({})", need.package, need.why);
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let (is_root, has_apt_get) = (rustix::process::geteuid().is_root(), is_there("apt-get"));
    if let Some(why) = obstacle(wish, is_root, has_apt_get, &packages) {
        return vec![LeftOut { what: packages.join(", "), why }];
    }
    let failure = without_daemons(&packages, || apt_install(&packages)).err();
    missing.iter().filter_map(|need| need.left_out_after(failure.as_deref())).collect()
}

/// Why packages cannot be installed here, with the cure; `None` if they can.
fn obstacle(wish: Wish, is_root: bool, has_apt_get: bool, packages: &[&str]) -> Option<String> {
    let packages = packages.join(" ");
    if !has_apt_get {
        return Some(format!("there is no apt-get here; install by hand what Debian calls {packages}"));
    }
    let command = format!("apt-get install --no-install-recommends {packages}");
    match (wish, is_root) {
        (Wish::LookOnly, _) => Some(format!("not installed, as --no-install says; as root: {command}")),
        (Wish::Install, false) => Some(format!("installing needs root; as root: {command}")),
        (Wish::Install, true) => None,
    }
}

/// Installs packages so that no daemon of theirs starts, now or when the machine starts the next time.
fn without_daemons<T>(packages: &[&str], install: impl FnOnce() -> T) -> T {
    let is_ours = !Path::new(POLICY).exists() && forbid_daemons().is_ok();
    let installed = install();
    if is_ours {
        // What is left forbids daemons to packages that are installed later; the next run cannot tell whose it is.
        if let Err(error) = fs::remove_file(POLICY) {
            println!("remove {POLICY}, which lets no package start a daemon: {error}");
        }
    }
    if is_there("systemctl") {
        for (_, unit) in DAEMONS.iter().filter(|(package, _)| packages.contains(package)) {
            // One that is not there needs no more.
            let _ = Command::new("systemctl").args(["--quiet", "disable", unit]).stderr(Stdio::null()).status();
        }
    }
    installed
}

fn forbid_daemons() -> io::Result<()> {
    fs::write(POLICY, "#!/bin/sh\nexit 101\n")?;
    fs::set_permissions(POLICY, Permissions::from_mode(0o755))
}

/// Installs all packages at once; if that fails, one by one, so that a missing one does not keep the others away.
fn apt_install(packages: &[&str]) -> Result<(), String> {
    // Without fresh lists the old ones may be enough.
    let updated = apt_get(&["update"]);
    let install = |packages: &[&str]| apt_get(&[&["install", "--yes", "--no-install-recommends"], packages].concat());
    let Err(failure) = install(packages) else {
        return Ok(());
    };
    let failures = packages.iter().filter(|package| install(&[package]).is_err()).count();
    if failures == 0 { Ok(()) } else { Err(updated.err().unwrap_or(failure)) }
}

impl Need {
    fn is_there(&self) -> bool {
        self.signs.iter().all(|sign| is_there(sign))
    }

    /// Why it is still missing after apt-get ran, which failed if `failure` says so.
    fn left_out_after(&self, failure: Option<&str>) -> Option<LeftOut> {
        let missing: Vec<&str> = self.signs.iter().copied().filter(|sign| !is_there(sign)).collect();
        let why = match (missing.as_slice(), failure) {
            ([], _) => return None,
            (_, Some(failure)) => failure.to_owned(),
            (missing, None) => format!("it is installed, but {} is missing", missing.join(" and ")),
        };
        Some(LeftOut { what: self.package.to_owned(), why })
    }
}

/// Whether a program is in `PATH`; an absolute path is checked as it is, but for a folder `*`, which is any.
pub(crate) fn is_there(sign: &str) -> bool {
    if let Some((before, after)) = sign.split_once("/*/") {
        return fs::read_dir(before).into_iter().flatten().flatten().any(|folder| folder.path().join(after).exists());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    Path::new(sign).is_absolute() && Path::new(sign).exists()
        || env::split_paths(&path).any(|folder| folder.join(sign).is_file())
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let command = format!("apt-get {}", arguments.join(" "));
    let mut asked = Command::new("apt-get");
    asked.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    match during(&command, || asked.output()) {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            // What it says of each package is of use only if it fails.
            print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            Err(format!("{command} failed: {}", output.status))
        }
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
        assert!(is_there("/proc/*/stat"));
        assert!(!is_there("/proc/*/no-such-file"));
        assert!(!is_there("no-such-program-anywhere"));
        assert!(!is_there("/no/such/file"));
    }
}
