//! The tiers: which tests belong to which run, as the manifest of each crate says in `[package.metadata.tests]`.
//!
//! A test that no manifest names belongs to the plain run. A name is that of a test binary (`lib` and `bin` hold the
//! unit tests), or `BINARY::TEXT` for the tests of a binary whose names have that text in them:
//!
//! - `all`: left to `cargo xtask test --all`;
//! - `alone`: binaries that judge time, and run with nothing beside them;
//! - `long`: binaries with long rounds, which are all that `cargo xtask test --long` runs of them;
//! - `optimized`: those of `long` that judge the cost of our own code, and are built as users build it.

use cargo_metadata::{Metadata, Package, Target, TargetKind};

/// How much of the tests is run.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Tier {
    /// What shows that the product works on this machine.
    Plain,
    /// Every version, layout, policy and topology too.
    All,
    /// The long rounds, and nothing else.
    Long,
}

/// What one manifest says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    all: Vec<String>,
    alone: Vec<String>,
    long: Vec<String>,
    optimized: Vec<String>,
}

/// What a run has of a binary.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Share {
    Nothing,
    /// All tests but those whose names have one of these texts in them.
    AllBut(Vec<String>),
}

/// Packages of which a run has nothing: our own, whose tests are a stage of `cargo xtask check`, since they run no code
/// of the product.
const NEVER: &[&str] = &[OWN_PACKAGE];

/// The same for the plain run, which needs neither the comparisons with other locks nor what only they depend on.
const NOT_IN_THE_PLAIN_RUN: &[&str] = &[OWN_PACKAGE, "lockkeeper-bench", "lockkeeper-pictures", "lockkeeper-rivals"];

const OWN_PACKAGE: &str = env!("CARGO_PKG_NAME");

/// What takes longest starts first, so that none is left at the end with nothing beside it.
const STARTS_FIRST: &[&str] = &["kazoo_suite", "quick", "conformance", "it"];

impl Tier {
    /// The command of its run.
    pub(crate) const fn command(self) -> &'static str {
        match self {
            Self::Plain => "cargo xtask test",
            Self::All => "cargo xtask test --all",
            Self::Long => "cargo xtask test --long",
        }
    }

    /// How cargo selects the packages of this run.
    pub(crate) fn selection(self) -> String {
        let excluded = self.excluded().iter().map(|package| format!(" --exclude {package}")).collect::<String>();
        format!("--workspace{excluded} --all-features")
    }

    fn excluded(self) -> &'static [&'static str] {
        match self {
            Self::Plain => NOT_IN_THE_PLAIN_RUN,
            Self::All | Self::Long => NEVER,
        }
    }
}

impl Marks {
    /// Reads a package's; a key that is none is an error, since a misspelt one would do nothing.
    pub(crate) fn of(package: &Package) -> Result<Self, String> {
        let mut marks = Self::default();
        let Some(table) = package.metadata.get("tests") else {
            return Ok(marks);
        };
        let wrong = |what: &str| format!("{}: [package.metadata.tests] {what}", package.name);
        for (key, names) in table.as_object().ok_or_else(|| wrong("is no table"))? {
            let list = match key.as_str() {
                "all" => &mut marks.all,
                "alone" => &mut marks.alone,
                "long" => &mut marks.long,
                "optimized" => &mut marks.optimized,
                other => return Err(wrong(&format!("has no key `{other}`"))),
            };
            let names = names.as_array().ok_or_else(|| wrong(&format!("`{key}` is no list")))?;
            for name in names {
                list.push(name.as_str().ok_or_else(|| wrong(&format!("`{key}` has more than texts")))?.to_owned());
            }
        }
        Ok(marks)
    }

    /// What a run has of the binary of this name.
    pub(crate) fn share(&self, tier: Tier, binary: &str) -> Share {
        match tier {
            Tier::Plain if self.all.iter().any(|name| name == binary) => Share::Nothing,
            Tier::Plain => {
                let texts = self.all.iter().filter_map(|name| name.strip_prefix(binary)?.strip_prefix("::"));
                Share::AllBut(texts.map(str::to_owned).collect())
            }
            Tier::Long if !self.long.iter().any(|name| name == binary) => Share::Nothing,
            Tier::All | Tier::Long => Share::AllBut(Vec::new()),
        }
    }

    /// Whether nothing may run beside this binary.
    pub(crate) fn is_alone(&self, binary: &str) -> bool {
        self.alone.iter().any(|name| name == binary)
    }

    /// Whether its long rounds are played by a build as users have it.
    pub(crate) fn is_optimized(&self, binary: &str) -> bool {
        self.optimized.iter().any(|name| name == binary)
    }
}

/// The name by which manifests and reports call a test binary.
pub(crate) fn name_of(target: &Target) -> &str {
    match target.kind.first() {
        Some(TargetKind::Test) => &target.name,
        Some(TargetKind::Bin) => "bin",
        Some(TargetKind::Example) => "example",
        _ => "lib",
    }
}

/// The packages of a run, each with its marks.
pub(crate) fn marks(tier: Tier, metadata: &Metadata) -> Result<Vec<(&Package, Marks)>, String> {
    let packages = metadata.workspace_packages().into_iter();
    let packages = packages.filter(|package| !tier.excluded().contains(&package.name.as_str()));
    packages.map(|package| Ok((package, Marks::of(package)?))).collect()
}

/// The place of a binary in the order in which they start.
pub(crate) fn place(binary: &str) -> usize {
    STARTS_FIRST.iter().position(|first| binary.starts_with(first)).unwrap_or(STARTS_FIRST.len())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::cargo::metadata;

    /// The call by which a test asks for its rounds, or has the shared trials ask.
    const ASKS: &[&str] = &[
        "long::rounds(",
        "long::time(",
        "long::is_asked_for(",
        "LOCKKEEPER_TEST_LONG",
        "rounds::play(",
        "lockkeeper_trials::crowd",
        "lockkeeper_trials::late",
        "lockkeeper_trials::waits",
    ];

    fn marked(all: &[&str]) -> Marks {
        Marks { all: all.iter().map(|name| (*name).to_owned()).collect(), ..Marks::default() }
    }

    #[test]
    fn the_plain_run_leaves_out_what_is_marked_and_the_whole_one_nothing() {
        let marks = marked(&["crowd", "it::page::", "lib::deep"]);
        assert_eq!(marks.share(Tier::Plain, "crowd"), Share::Nothing);
        assert_eq!(marks.share(Tier::Plain, "it"), Share::AllBut(vec!["page::".to_owned()]));
        assert_eq!(marks.share(Tier::Plain, "lib"), Share::AllBut(vec!["deep".to_owned()]));
        for binary in ["crowd", "it", "lib"] {
            assert_eq!(marks.share(Tier::All, binary), Share::AllBut(Vec::new()));
            assert_eq!(marks.share(Tier::Long, binary), Share::Nothing);
        }
    }

    #[test]
    fn each_name_in_a_manifest_is_that_of_a_test_binary_and_what_is_optimized_is_long() {
        let metadata = metadata().expect("cargo tells of this workspace");
        for (package, marks) in marks(Tier::All, &metadata).expect("the manifests are right") {
            let binaries: BTreeSet<&str> = package.targets.iter().map(name_of).collect();
            for name in [&marks.all, &marks.alone, &marks.long, &marks.optimized].into_iter().flatten() {
                let binary = name.split("::").next().expect("a text has a first part");
                assert!(binaries.contains(binary), "{}: `{name}` is none of {binaries:?}", package.name);
            }
            assert!(marks.optimized.iter().all(|name| marks.long.contains(name)), "{}", package.name);
        }
    }

    /// A text is looked for anywhere in a test's name, so `page::` would leave out the module `crowded_page` as well.
    #[test]
    fn a_module_that_is_left_out_is_the_only_one_whose_name_ends_so() {
        let metadata = metadata().expect("cargo tells of this workspace");
        for (package, marks) in marks(Tier::All, &metadata).expect("the manifests are right") {
            let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
            for (binary, module) in marks.all.iter().filter_map(|name| name.strip_suffix("::")?.split_once("::")) {
                let files = files(folder.join("tests").join(binary).as_std_path());
                let ending = files.iter().filter(|path| {
                    let name = path.with_extension("");
                    name.file_name().is_some_and(|name| name.to_string_lossy().ends_with(module))
                });
                assert_eq!(ending.count(), 1, "{}: {binary}::{module}", package.name);
            }
        }
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("it can be read").path());
        entries
            .flat_map(|path| if path.is_dir() { [vec![path.clone()], files(&path)].concat() } else { vec![path] })
            .collect()
    }

    /// Every test binary of a crate that asks for its long rounds, itself or by a file of `support` that it shares.
    fn asking(tests: &Path) -> BTreeSet<String> {
        let texts: Vec<(PathBuf, String)> = files(tests)
            .into_iter()
            .filter_map(|path| Some((path.strip_prefix(tests).ok()?.to_owned(), fs::read_to_string(&path).ok()?)))
            .collect();
        let asks = |text: &str| ASKS.iter().any(|ask| text.contains(ask));
        let shared: Vec<String> = texts
            .iter()
            .filter(|(path, text)| path.starts_with("support") && asks(text))
            .map(|(path, _)| path.display().to_string())
            .collect();
        let own = texts.iter().filter(|(path, _)| !path.starts_with("support"));
        let asking = own.filter(|(_, text)| asks(text) || shared.iter().any(|path| text.contains(path.as_str())));
        asking
            .filter_map(|(path, _)| Some(Path::new(path.iter().next()?).file_stem()?.to_string_lossy().into()))
            .collect()
    }

    #[test]
    fn each_test_that_asks_for_long_rounds_is_run_by_the_long_run_and_no_other_is() {
        let metadata = metadata().expect("cargo tells of this workspace");
        for (package, marks) in marks(Tier::All, &metadata).expect("the manifests are right") {
            let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
            let listed: BTreeSet<String> = marks.long.iter().cloned().collect();
            assert_eq!(asking(folder.join("tests").as_std_path()), listed, "{}: found, and listed", package.name);
        }
    }
}
