//! Building test binaries, and knowing them: cargo compiles them once, and tells of each where it lies.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use cargo_metadata::{Artifact, Message, Metadata, Package, TargetKind};

use crate::cargo::{cargo_command, succeeded};
use crate::tiers::{self, Marks, Share, Tier};

/// Cargo tells of what it has built on standard output, and of errors as usual.
const MESSAGES: &str = "json-render-diagnostics";

/// A test binary, and what is run of it.
#[derive(Clone, Debug)]
pub(crate) struct Binary {
    /// The package, without what all of ours begin with, and the name of the binary.
    pub(crate) name: String,
    executable: PathBuf,
    /// The folder of its package, where cargo would start it.
    folder: PathBuf,
    /// Texts in the names of tests that are left to another run.
    left_out: Vec<String>,
    pub(crate) is_alone: bool,
}

impl Binary {
    /// The binary with these arguments, as cargo would start it.
    pub(crate) fn command(&self, before: &[&str]) -> Command {
        let mut command = match before {
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&self.executable);
                command
            }
            [] => Command::new(&self.executable),
        };
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        self.left_out.iter().for_each(|text| {
            command.args(["--skip", text]);
        });
        command
    }
}

/// Compiles what this run needs; answers its test binaries, those first that take longest.
pub(crate) fn build(tier: Tier, metadata: &Metadata) -> Result<Vec<Binary>, String> {
    let marks = tiers::marks(tier, metadata)?;
    let profiles: &[Profile] =
        if tier == Tier::Long { &[Profile::Usual, Profile::Optimized] } else { &[Profile::Usual] };
    let mut binaries = Vec::new();
    for &profile in profiles {
        let targets = targets(tier, profile, &marks);
        let selection = tier.selection();
        let order = format!("test {selection}{targets}{} --no-run --message-format={MESSAGES}", profile.option());
        for artifact in artifacts(&order)? {
            let package = marks.iter().find(|(package, _)| package.id == artifact.package_id);
            binaries.extend(package.and_then(|(package, marks)| chosen(tier, profile, package, marks, artifact)));
        }
    }
    binaries.sort_by_key(|binary| tiers::place(binary.name.split(' ').next_back().unwrap_or_default()));
    Ok(binaries)
}

/// How tests are built.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Profile {
    Usual,
    /// As users build, for the tests that judge what our code costs.
    Optimized,
}

impl Profile {
    fn option(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::Optimized => " --release",
        }
    }

    fn of(tier: Tier, marks: &Marks, binary: &str) -> Self {
        if tier == Tier::Long && marks.is_optimized(binary) { Self::Optimized } else { Self::Usual }
    }
}

/// The targets that hold tests of this run, as cargo's options select them: in all crates at once.
fn targets(tier: Tier, profile: Profile, marks: &[(&Package, Marks)]) -> String {
    if tier == Tier::All {
        // Every example too, since tests of this run start them.
        return String::new();
    }
    let mut options = BTreeSet::new();
    for (package, marks) in marks {
        for target in package.targets.iter().filter(|target| target.test) {
            let name = tiers::name_of(target);
            if marks.share(tier, name) == Share::Nothing || Profile::of(tier, marks, name) != profile {
                continue;
            }
            options.insert(match target.kind.first() {
                Some(TargetKind::Test) => format!(" --test {}", target.name),
                Some(TargetKind::Example) => format!(" --example {}", target.name),
                Some(TargetKind::Bin) => " --bins".to_owned(),
                _ => " --lib".to_owned(),
            });
        }
    }
    options.into_iter().collect()
}

/// The binary of this artifact, if the run has it from this build.
fn chosen(tier: Tier, profile: Profile, package: &Package, marks: &Marks, artifact: Artifact) -> Option<Binary> {
    let name = tiers::name_of(&artifact.target);
    let Share::AllBut(left_out) = marks.share(tier, name) else { return None };
    if Profile::of(tier, marks, name) != profile {
        return None;
    }
    Some(Binary {
        name: format!("{} {name}", package.name.trim_start_matches("lockkeeper-")),
        executable: artifact.executable?.into_std_path_buf(),
        folder: package.manifest_path.parent()?.as_std_path().to_owned(),
        left_out,
        is_alone: marks.is_alone(name),
    })
}

/// Runs cargo, and answers the test binaries that it tells of.
fn artifacts(order: &str) -> Result<Vec<Artifact>, String> {
    let output = cargo_command(order).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo could not be started: {error}"))?;
    succeeded(output.status)?;
    let messages = Message::parse_stream(output.stdout.as_slice());
    let built = messages.filter_map(|message| match message {
        Ok(Message::CompilerArtifact(artifact)) if artifact.profile.test && artifact.executable.is_some() => {
            Some(artifact)
        }
        _ => None,
    });
    Ok(built.collect())
}
