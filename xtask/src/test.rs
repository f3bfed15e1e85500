//! `cargo xtask test`: the tests of one tier, in one run, with one count on the last line.
//!
//! Says which stages there are. `install` installs what is missing, `binaries` builds the tests, `tiers` knows which
//! belong to the run, `pool` runs them and counts them.

use std::path::PathBuf;
use std::process::ExitCode;

use cargo_metadata::Metadata;
use clap::Args;

use crate::binaries;
use crate::cargo::{metadata, target_folder};
use crate::install::{self, LeftOut, Wish};
use crate::pool::{Found, Job, Pool};
use crate::stages::Stages;
use crate::tiers::Tier;
use crate::{features, oldest, python, report};

/// Options of `cargo xtask test`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Run every test: on each version, layout, policy and topology of each service; without it, only what shows that
    /// the product works on this machine.
    #[arg(long)]
    all: bool,
    /// Run the tests that have long rounds, with all their rounds, check all sets of features and compile with the
    /// oldest Rust, and nothing else; without it, these tests play a tenth.
    #[arg(long, conflicts_with = "all")]
    long: bool,
    /// Install nothing; without it, what tests use and this machine lacks is installed first: system packages as root
    /// with apt-get, Python packages in the target directory.
    #[arg(long)]
    no_install: bool,
    /// Make a skipped test a failure.
    #[arg(long)]
    require_all: bool,
    /// Write what the tests have measured to this file too, with the day, the commit and the machine.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Show all that tests print, and not only failures.
    #[arg(long, short)]
    verbose: bool,
}

impl Options {
    fn tier(&self) -> Tier {
        match (self.all, self.long) {
            (_, true) => Tier::Long,
            (true, false) => Tier::All,
            (false, false) => Tier::Plain,
        }
    }
}

/// Runs all stages and prints the report; success only if no stage failed.
pub(crate) fn run(options: &Options) -> ExitCode {
    let mut stages = Stages::default();
    let tier = options.tier();
    let wish = if options.no_install { Wish::LookOnly } else { Wish::Install };
    let mut found = Found::default();
    stages.run("set-up", || {
        found.left_out = set_up(wish, tier);
        Ok(())
    });
    let workspace = metadata();
    let workspace = workspace.as_ref().map_err(String::clone);
    let pool = Pool { tier, requires_all: options.require_all, is_verbose: options.verbose };
    let mut jobs = Vec::new();
    let built = stages.run("build", || {
        jobs.extend(binaries::build(tier, workspace.clone()?)?.into_iter().map(Job::Binary));
        Ok(())
    });
    if tier != Tier::Long {
        let documentation = format!("test {} --no-fail-fast --doc", tier.selection());
        jobs.push(Job::Cargo("documentation", documentation));
    }
    if built {
        stages.run("tests", || pool.run(jobs, &mut found));
    } else {
        stages.leave_out("tests", "the build failed");
    }
    run_other_features(tier, workspace, pool, &mut stages, &mut found);
    if let Some(path) = &options.report {
        stages.run("report", || report::write(path, tier, &found));
    }
    stages.finish(&found)
}

/// Installs what is missing, system packages first, since Python's parts need one of them; answers what is left out.
fn set_up(wish: Wish, tier: Tier) -> Vec<LeftOut> {
    let mut left_out = install::set_up(wish);
    left_out.extend(python::set_up(wish, &target_folder().join("lockkeeper-python")));
    if tier == Tier::Long {
        left_out.extend(oldest::set_up(wish));
    }
    for LeftOut { what, why } in &left_out {
        println!("left out: {what}: {why}");
    }
    left_out
}

/// The stages with other sets of features: each compiles for a minute or more.
fn run_other_features(
    tier: Tier,
    workspace: Result<&Metadata, String>,
    pool: Pool,
    stages: &mut Stages,
    found: &mut Found,
) {
    match tier {
        Tier::Plain => {}
        Tier::All => {
            let orders = workspace.map(features::tests).unwrap_or_default();
            let jobs = orders.into_iter().map(|order| Job::Cargo("feature tests", order)).collect();
            stages.run("feature tests", || pool.run(jobs, found));
        }
        Tier::Long => {
            stages.run("features", || features::check(&features::all(workspace?)));
            if oldest::is_installed() {
                stages.run("oldest Rust", oldest::check);
            } else {
                stages.skip("oldest Rust", oldest::missing());
            }
        }
    }
}
