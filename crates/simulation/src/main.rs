//! `lockkeeper-simulation`: runs seeds, and shows what one of them does.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use lockkeeper_simulation::campaign::{hunt, run_all};
use lockkeeper_simulation::flaw::Flaw;
use lockkeeper_simulation::world::run;

/// Clients of Lockkeeper against the embedded server in virtual time, from a seed.
#[derive(Debug, Parser)]
enum Arguments {
    /// Runs one seed twice, prints its plan, its history and the rules that it broke, and fails if the second run went
    /// another way.
    Seed {
        /// The seed.
        seed: u64,
        /// A flaw to run it with, by its name.
        #[arg(long, value_parser = flaw)]
        flaw: Option<Flaw>,
    },
    /// Runs many seeds, and prints those that broke a rule.
    Seeds {
        /// How many.
        count: u64,
        /// The first one.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// A flaw to run them with, by its name.
        #[arg(long, value_parser = flaw)]
        flaw: Option<Flaw>,
    },
    /// Hunts for each flaw from several seeds on, and prints how many runs it took: the median and the worst.
    Flaws {
        /// How many hunts for each.
        #[arg(long, default_value_t = 11)]
        hunts: u64,
        /// How many runs a hunt has at most.
        #[arg(long, default_value_t = 20_000)]
        runs_max: u64,
    },
}

fn flaw(name: &str) -> Result<Flaw, String> {
    let mut all = Flaw::COMMON.iter().chain(Flaw::RARE);
    all.find(|flaw| flaw.to_string() == name).copied().ok_or_else(|| format!("there is no flaw {name:?}"))
}

/// How many broken seeds are enough to look at.
const BROKEN_MAX: usize = 10;

fn main() -> ExitCode {
    match Arguments::parse() {
        Arguments::Seed { seed, flaw } => {
            let report = run(seed, flaw);
            println!("{report}");
            let is_repeated = run(seed, flaw).records == report.records;
            if !is_repeated {
                println!("the second run went another way: `cargo xtask simulate` builds what repeats a seed");
            }
            exit_code(report.violations.is_empty() && is_repeated)
        }
        Arguments::Seeds { count, from, flaw } => {
            #[expect(clippy::disallowed_methods, reason = "how long the runs take on this machine")]
            let begun = Instant::now();
            let campaign = run_all(from..from + count, flaw, BROKEN_MAX);
            for report in &campaign.broken {
                println!("seed {}: {:?}", report.plan.seed, report.violations);
            }
            println!("{campaign}, in {:.0} s", begun.elapsed().as_secs_f64());
            exit_code(campaign.broken.is_empty())
        }
        Arguments::Flaws { hunts, runs_max } => {
            println!("| flaw | runs, median | worst | not found |\n| --- | --- | --- | --- |");
            let mut missed = 0;
            for &flaw in Flaw::COMMON.iter().chain(Flaw::RARE) {
                let hunt = hunt(flaw, hunts, runs_max);
                println!("{hunt}");
                missed += hunt.missed;
            }
            exit_code(missed == 0)
        }
    }
}

fn exit_code(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
