//! The catalogue of faults (`faults.tsv`): what can go wrong with a lock service, its clients, and what is between
//! them. Each fault names the tests that stage it and check what must be true then, or the reason why there is none.
//!
//! A reason beside tests says which part of a fault they leave out.

use std::collections::BTreeMap;

use crate::named::{assert_exist, is_reason, rows};

/// The columns are the fault's number, the fault, and our case, our `path::name` or a reason.
const CATALOGUE: &str = include_str!("faults.tsv");

/// How many faults there are; the last three are races of etcd's renewals.
const FAULTS: u32 = 76;

/// What each fault is, and what it has here.
fn catalogue() -> BTreeMap<u32, (&'static str, Vec<&'static str>)> {
    let mut found: BTreeMap<_, (&str, Vec<&str>)> = BTreeMap::new();
    for [number, fault, ours] in rows(CATALOGUE) {
        let number = number.parse().unwrap_or_else(|error| panic!("{number:?}: {error}"));
        let (known, all) = found.entry(number).or_insert((fault, Vec::new()));
        assert_eq!(*known, fault, "fault {number} is one fault");
        assert!(!all.contains(&ours), "fault {number} names {ours:?} twice");
        all.push(ours);
    }
    found
}

#[test]
fn every_fault_is_there_and_names_a_test_or_says_why_there_is_none() {
    let catalogue = catalogue();
    assert!(catalogue.keys().copied().eq(1..=FAULTS), "{:?}", catalogue.keys());
    for (number, (fault, all)) in catalogue {
        assert!(!fault.is_empty() && all.iter().all(|ours| !ours.is_empty()), "fault {number}: {fault}, {all:?}");
        assert!(all.iter().filter(|ours| is_reason(ours)).count() <= 1, "fault {number} has several reasons");
    }
}

#[test]
fn every_test_and_case_that_a_fault_names_exists() {
    assert_exist(catalogue().into_values().flat_map(|(_, all)| all));
}
