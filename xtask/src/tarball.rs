//! The command as it is shipped: built with every service, and packed with what belongs to it.
//!
//! It is linked statically with musl where that can be had, and so runs on every Linux; else with this machine's glibc.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{cargo, cargo_output, root, target_folder};
use crate::glibc::{self, Glibc};
use crate::install::is_there;
use crate::staging::{Staging, output, output_of, read};

/// The shells whose completions are shipped, and the names of these files in the tarball.
const SHELLS: [(&str, &str); 3] = [("bash", "lockkeeper.bash"), ("zsh", "_lockkeeper"), ("fish", "lockkeeper.fish")];

/// The files of the tree that stand in the tarball's root.
const DOCUMENTS: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// How long rustup may take to fetch musl, in seconds; without it the machine's glibc does.
const RUSTUP_MAX_SECONDS: &str = "60";

/// The built command, and what it prints for a package.
#[derive(Debug)]
pub(crate) struct Shipped {
    pub(crate) target: String,
    pub(crate) program: Vec<u8>,
    /// `None` if it is static.
    pub(crate) glibc: Option<Glibc>,
    /// The completions of bash, zsh and fish.
    pub(crate) completions: [String; 3],
    /// The names and texts of the manual pages.
    pub(crate) pages: Vec<(String, String)>,
}

/// Builds the command, and has it print its completions and pages.
pub(crate) fn build() -> Result<Shipped, String> {
    let host = host(&cargo_output("-vV")?)?;
    let (target, program) = match musl(&host) {
        Ok(target) => (target.clone(), compile(&format!(" --target {target}"), &target)?),
        Err(why) => {
            println!("linked with this machine's glibc: {why}");
            // Without `--target`, so that what was built here before is used.
            (host, compile("", "")?)
        }
    };
    let glibc = glibc::needed_by(&program)?;
    match glibc {
        Some(version) => println!("the command is for {target}, and needs glibc {version} or later"),
        None => println!("the command is for {target}, and static"),
    }
    let path = program.to_str().ok_or("the target directory's path is not text")?;
    let [bash, zsh, fish] = SHELLS.map(|(shell, _)| output_of(path, &["completions", shell]));
    Ok(Shipped {
        target,
        program: read(&program)?,
        glibc,
        completions: [bash?, zsh?, fish?],
        pages: pages(&output_of(path, &["man"])?),
    })
}

/// Packs the command into the folder; answers the file's name. `time` is the commit's, in seconds since 1970.
pub(crate) fn pack(shipped: &Shipped, version: &str, time: &str, folder: &Path) -> Result<String, String> {
    let name = name(version, &shipped.target);
    let mut staging = Staging::new()?;
    staging.put_program(&format!("{name}/lockkeeper"), &shipped.program)?;
    for document in DOCUMENTS {
        staging.put(&format!("{name}/{document}"), read(&root().join(document))?)?;
    }
    for ((_, file), text) in SHELLS.iter().zip(&shipped.completions) {
        staging.put(&format!("{name}/completions/{file}"), text)?;
    }
    for (page, text) in &shipped.pages {
        staging.put(&format!("{name}/man/man1/{page}.1"), text)?;
    }
    let file = format!("{name}.tar.gz");
    // The same bytes for the same commit, for each user and at any time.
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{time}")).arg("--use-compress-program=gzip -9n");
    tar.arg("--file").arg(folder.join(&file)).arg("--directory").arg(staging.path()).arg(&name);
    output(&mut tar)?;
    Ok(file)
}

/// The name of the tarball without its suffix, and of the one folder in it.
fn name(version: &str, target: &str) -> String {
    format!("lockkeeper-{version}-{target}")
}

/// The target with musl for this machine, or why it cannot be built here.
fn musl(host: &str) -> Result<String, String> {
    let target = with_musl(host).ok_or_else(|| format!("{host} has no counterpart with musl"))?;
    if !is_there("musl-gcc") {
        return Err("there is no musl-gcc (apt-get install musl-tools)".to_owned());
    }
    if !is_there("rustup") {
        return Err("there is no rustup here, which offers musl's standard library".to_owned());
    }
    // It does nothing where the target is there.
    output_of("timeout", &[RUSTUP_MAX_SECONDS, "rustup", "target", "add", &target])?;
    Ok(target)
}

fn with_musl(host: &str) -> Option<String> {
    host.strip_suffix("-linux-gnu").map(|machine| format!("{machine}-linux-musl"))
}

fn compile(option: &str, folder: &str) -> Result<PathBuf, String> {
    cargo(&format!("build --release --locked -p lockkeeper-cli --features full{option}"), &[])?;
    Ok(target_folder().join(folder).join("release/lockkeeper"))
}

/// This machine's target, of what `cargo -vV` prints.
fn host(printed: &str) -> Result<String, String> {
    let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "cargo -vV names no host".to_owned())
}

/// The manual pages in what `lockkeeper man` prints: the beginning of each, and the name in its title.
fn pages(printed: &str) -> Vec<(String, String)> {
    const BEGIN: &str = ".ie \\n(.g .ds Aq \\(aq\n";
    let texts = printed.split(BEGIN).filter(|text| !text.trim().is_empty());
    let title =
        |text: &str| text.lines().find_map(|line| line.strip_prefix(".TH ")?.split(' ').next()).map(str::to_owned);
    texts.filter_map(|text| Some((title(text)?, format!("{BEGIN}{text}")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tarball_is_named_by_version_and_target() {
        assert_eq!(name("1.2.3", "x86_64-unknown-linux-musl"), "lockkeeper-1.2.3-x86_64-unknown-linux-musl");
    }

    #[test]
    fn musl_takes_the_place_of_glibc_on_linux_alone() {
        let printed = "cargo 1.95.0\nhost: x86_64-unknown-linux-gnu\nos: Debian\n";
        assert_eq!(with_musl(&host(printed).unwrap()).unwrap(), "x86_64-unknown-linux-musl");
        assert_eq!(with_musl("aarch64-apple-darwin"), None);
        assert!(host("cargo 1.95.0\n").is_err());
    }

    #[test]
    fn each_manual_page_is_a_file_of_its_name() {
        let page = |name: &str| {
            format!(".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH {name} 1  \"{name} 1.2.3\" \n.SH NAME\n{name}\n")
        };
        let found = pages(&format!("{}{}", page("lockkeeper"), page("lockkeeper-run")));
        let expected = ["lockkeeper", "lockkeeper-run"].map(|name| (name.to_owned(), page(name)));
        assert_eq!(found, expected);
    }
}
