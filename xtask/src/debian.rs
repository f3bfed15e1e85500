//! The Debian package of the command: what it holds, where, and what `dpkg` is told of it.
//!
//! The units for systemd are installed and not enabled. A removal disables and stops them. What the command has kept in
//! `/var/lib` stays: programs with the library have locks there too, and no fencing token may be granted twice.

use std::path::Path;
use std::process::Command;

use crate::cargo::root;
use crate::glibc::Glibc;
use crate::staging::{Staging, output, read};
use crate::tarball::Shipped;

/// The units of `contrib/systemd`.
const UNITS: [&str; 2] = ["lockkeeper-monitor.service", "lockkeeper-server.service"];

/// Where Debian looks for the completions of bash, zsh and fish.
const COMPLETIONS: [&str; 3] = [
    "usr/share/bash-completion/completions/lockkeeper",
    "usr/share/zsh/vendor-completions/_lockkeeper",
    "usr/share/fish/vendor_completions.d/lockkeeper.fish",
];

/// An upgrade leaves the services as they run: when a server of locks starts again is for its operator to say.
const BEFORE_REMOVAL: &str = r#"#!/bin/sh
set -e
if [ "$1" = remove ] && command -v systemctl >/dev/null; then
    systemctl --quiet disable --now UNITS || true
fi
"#;

/// After units have come, changed or gone.
const RELOAD: &str = r#"#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
"#;

/// The end of the script for after a removal: which data only an operator removes.
const AFTER_PURGE: &str = r#"if [ "$1" = purge ]; then
    for folder in /var/lib/lockkeeper /var/lib/private/lockkeeper-*; do
        if [ -e "$folder" ]; then
            echo "$folder stays, with locks and tokens; remove it when no program uses it"
        fi
    done
fi
"#;

/// What a package says of itself, but for what the machine adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) version: &'a str,
    pub(crate) maintainer: &'a str,
}

/// Makes the package in the folder; answers the file's name. `time` is the commit's, in seconds since 1970.
pub(crate) fn pack(shipped: &Shipped, about: About<'_>, time: &str, folder: &Path) -> Result<String, String> {
    let architecture = architecture(&shipped.target)?;
    let mut staging = Staging::new()?;
    put_files(shipped, &mut staging)?;
    let size = staging.bytes().div_ceil(1024);
    staging.put("DEBIAN/control", control(about, architecture, size, shipped.glibc))?;
    staging.put_program("DEBIAN/prerm", BEFORE_REMOVAL.replace("UNITS", &UNITS.join(" ")))?;
    staging.put_program("DEBIAN/postinst", RELOAD)?;
    staging.put_program("DEBIAN/postrm", format!("{RELOAD}{AFTER_PURGE}"))?;
    let file = format!("lockkeeper_{}_{architecture}.deb", debian_version(about.version));
    let mut dpkg_deb = Command::new("dpkg-deb");
    // Every Debian can read xz. Its bytes may depend on the number of threads.
    dpkg_deb.args(["--root-owner-group", "-Zxz", "--build"]).arg(staging.path()).arg(folder.join(&file));
    output(dpkg_deb.env("SOURCE_DATE_EPOCH", time).env("DPKG_DEB_THREADS_MAX", "1"))?;
    Ok(file)
}

fn put_files(shipped: &Shipped, staging: &mut Staging) -> Result<(), String> {
    staging.put_program("usr/bin/lockkeeper", &shipped.program)?;
    for (path, text) in COMPLETIONS.iter().zip(&shipped.completions) {
        staging.put(path, text)?;
    }
    for (name, text) in &shipped.pages {
        let path = format!("usr/share/man/man1/{name}.1");
        staging.put(&path, text)?;
        output(Command::new("gzip").arg("-9n").arg(staging.path().join(path)))?;
    }
    for unit in UNITS {
        let text = read_text(&format!("contrib/systemd/{unit}"))?;
        staging.put(&format!("usr/lib/systemd/system/{unit}"), packaged_unit(&text))?;
    }
    staging.put("usr/share/doc/lockkeeper/copyright", copyright(&read_text("LICENSE-MIT")?))
}

fn read_text(path: &str) -> Result<String, String> {
    String::from_utf8(read(&root().join(path))?).map_err(|error| format!("{path}: {error}"))
}

/// The control file. `size` is in KiB.
fn control(about: About<'_>, architecture: &str, size: u64, glibc: Option<Glibc>) -> String {
    let depends = glibc.map(|version| format!("Depends: libc6 (>= {version}), libgcc-s1\n")).unwrap_or_default();
    format!(
        "Package: lockkeeper\n\
         Version: {}\n\
         Architecture: {architecture}\n\
         Maintainer: {}\n\
         Installed-Size: {size}\n\
         {depends}\
         Recommends: ca-certificates\n\
         Section: admin\n\
         Priority: optional\n\
         Description: run a command under a lock, and see who holds and who waits\n \
         Distributed locks on files, ZooKeeper, etcd, Redis, PostgreSQL and MariaDB:\n \
         one fair queue, and a fencing token with each grant. With a monitor of locks\n \
         and a ZooKeeper server for one machine, as services that are not enabled.\n",
        debian_version(about.version),
        about.maintainer,
    )
}

/// The version as Debian orders it: a pre-release comes before its release.
fn debian_version(version: &str) -> String {
    version.replacen('-', "~", 1)
}

/// Debian's name for the machine of a target.
fn architecture(target: &str) -> Result<&'static str, String> {
    match target.split('-').next() {
        Some("x86_64") => Ok("amd64"),
        Some("aarch64") => Ok("arm64"),
        Some("riscv64gc") => Ok("riscv64"),
        _ => Err(format!("Debian's name for the machine of {target} is not known; add it to xtask/src/debian.rs")),
    }
}

/// The unit for the command as it is packaged.
fn packaged_unit(unit: &str) -> String {
    unit.replace("/usr/local/bin/lockkeeper", "/usr/bin/lockkeeper")
        .replace("Copy it to /etc/systemd/system, then `", "Start it by `")
}

fn copyright(mit: &str) -> String {
    format!(
        "Lockkeeper is licensed under MIT or Apache-2.0, at the user's choice.\n\
         Apache-2.0 is in /usr/share/common-licenses/Apache-2.0.\n\n{mit}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About<'_> = About { version: "1.2.3-rc.1", maintainer: "The developers" };

    #[test]
    fn a_static_command_depends_on_nothing_and_a_dynamic_one_on_its_glibc() {
        let text = control(ABOUT, "amd64", 20480, None);
        assert!(text.starts_with("Package: lockkeeper\nVersion: 1.2.3~rc.1\nArchitecture: amd64\n"), "{text}");
        assert!(text.contains("\nInstalled-Size: 20480\nRecommends: ") && !text.contains("Depends:"), "{text}");
        // Lines of the description begin with one blank, and the file ends with a line.
        assert!(text.contains("\n Distributed locks on files") && text.ends_with("enabled.\n"), "{text}");
        let glibc = Some(Glibc { major: 2, minor: 34 });
        assert!(control(ABOUT, "amd64", 1, glibc).contains("\nDepends: libc6 (>= 2.34), libgcc-s1\nRecommends: "));
    }

    #[test]
    fn each_script_of_the_package_is_one_that_the_shell_can_read() {
        for script in [BEFORE_REMOVAL, RELOAD, &format!("{RELOAD}{AFTER_PURGE}")] {
            assert!(script.starts_with("#!/bin/sh\nset -e\n"), "{script}");
            assert_eq!(output(Command::new("sh").args(["-n", "-c", script])), Ok(String::new()));
        }
    }

    #[test]
    fn a_target_has_debians_name_or_an_error_that_says_where_to_add_it() {
        assert_eq!(architecture("x86_64-unknown-linux-musl"), Ok("amd64"));
        assert_eq!(architecture("aarch64-unknown-linux-gnu"), Ok("arm64"));
        assert!(architecture("sparc64-unknown-linux-gnu").unwrap_err().contains("debian.rs"));
    }

    #[test]
    fn each_unit_of_the_package_starts_the_packaged_command() {
        for unit in UNITS {
            let text = read_text(&format!("contrib/systemd/{unit}")).unwrap();
            let packaged = packaged_unit(&text);
            assert!(packaged.contains("\nExecStart=/usr/bin/lockkeeper "), "{packaged}");
            assert!(packaged.contains("# Start it by `systemctl enable --now lockkeeper-"), "{packaged}");
            assert!(!packaged.contains("/usr/local") && !packaged.contains("Copy it"), "{packaged}");
        }
    }
}
