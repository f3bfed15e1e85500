//! Which tests run beside which: every test of the workspace, in two lanes that go on at the same time.
//!
//! Most of their time tests wait, for processes, servers and deadlines, so that one after the other would leave half of
//! a small machine idle. `harness` runs what this orders.

use std::collections::BTreeSet;

use cargo_metadata::{Metadata, Target, TargetKind};

/// The whole workspace in every order, so that each crate is built once, with the features of all.
pub(crate) const WORKSPACE_TESTS: &str = "test --workspace --all-features --no-fail-fast";

/// The test binaries of the second lane: the longest of those that judge no time. The suite judges some, on every
/// service.
const BESIDE: &[&str] = &["kill_stress", "kazoo_suite"];

/// What is asked of cargo, in order, for each lane.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// Printed as it comes.
    pub(crate) first: Vec<String>,
    /// Printed whole when each order has ended; it leaves the processors to the first where both want them.
    pub(crate) beside: Vec<String>,
}

impl Lanes {
    /// One order, with nothing beside it.
    pub(crate) fn one(order: String) -> Self {
        Self { first: vec![order], ..Self::default() }
    }
}

/// All tests of the workspace, the documentation's among them.
pub(crate) fn all(metadata: &Metadata) -> Lanes {
    let packages = metadata.workspace_packages();
    let targets: Vec<&Target> =
        packages.iter().flat_map(|package| &package.targets).filter(|target| target.test).collect();
    let (beside, first): (BTreeSet<_>, _) =
        selections(&targets).into_iter().partition(|(_, name)| BESIDE.contains(&name.as_str()));
    let order = |selected: &BTreeSet<(&str, String)>, more: &str| {
        let selected = selected.iter().map(|(kind, name)| format!(" --{kind} {name}"));
        format!("{WORKSPACE_TESTS}{more}{}", selected.collect::<String>())
    };
    let documentation = format!("{WORKSPACE_TESTS} --doc");
    let mut lanes = Lanes { first: vec![order(&first, " --lib --bins")], beside: vec![documentation] };
    if !beside.is_empty() {
        lanes.beside.push(order(&beside, ""));
    }
    lanes
}

/// The targets that hold tests beside libraries and commands, as cargo's options select them: in all crates at once.
fn selections(targets: &[&Target]) -> BTreeSet<(&'static str, String)> {
    let tests = targets.iter().filter(|target| target.kind.contains(&TargetKind::Test)).map(|target| ("test", target));
    let examples =
        targets.iter().filter(|target| target.kind.contains(&TargetKind::Example)).map(|target| ("example", target));
    tests.chain(examples).map(|(kind, target)| (kind, target.name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::metadata;

    #[test]
    fn each_test_binary_is_in_one_lane() {
        let metadata = metadata().expect("cargo tells of this workspace");
        let lanes = all(&metadata);
        let orders = [lanes.first, lanes.beside].concat();
        for package in metadata.workspace_packages() {
            for target in package.targets.iter().filter(|target| target.test && target.kind == [TargetKind::Test]) {
                let selection = format!(" --test {}", target.name);
                let words = |order: &String| format!("{order} ").matches(&format!("{selection} ")).count();
                assert_eq!(orders.iter().map(words).sum::<usize>(), 1, "{selection} in {orders:?}");
            }
        }
    }

    #[test]
    fn each_binary_of_the_second_lane_is_there() {
        let metadata = metadata().expect("cargo tells of this workspace");
        let beside = all(&metadata).beside.concat();
        for name in BESIDE {
            assert!(beside.contains(&format!(" --test {name}")), "{name} in {beside}");
        }
    }
}
