//! The corpus, and random changes to what is in it.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

/// How many changes are made to one input, at most.
const MUTATIONS_MAX: usize = 6;
/// Numbers at which lengths, counts and codes change their meaning.
const NUMBERS: [i32; 12] = [-101, -2, -1, 0, 1, 4, 16, 0xffff, 1 << 20, (1 << 20) + 1, i32::MAX, i32::MIN];

/// One change; positions are taken modulo the length.
#[derive(Clone, Debug)]
pub(crate) enum Mutation {
    FlipBit(usize, u32),
    SetByte(usize, u8),
    SetNumber(usize, i32),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize),
    CutAt(usize),
}

/// This many cases, unless the environment says otherwise.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").map_or(cases, |text| text.parse().expect("a number"));
    // A failing input belongs into the corpus, not into a file of seeds.
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fuzz/corpus").join(kind)
}

/// What lies in a folder of the corpus, by name.
pub(crate) fn entries(kind: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(kind)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "the corpus of {kind} is gone");
    paths
}

/// The files of a folder of the corpus.
pub(crate) fn files(kind: &str) -> Vec<Vec<u8>> {
    entries(kind).iter().map(|path| fs::read(path).unwrap()).collect()
}

pub(crate) fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let at = any::<usize>;
    let mutation = prop_oneof![
        3 => (at(), 0..8_u32).prop_map(|(at, bit)| Mutation::FlipBit(at, bit)),
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::SetByte(at, byte)),
        3 => (at(), prop::sample::select(NUMBERS.to_vec())).prop_map(|(at, number)| Mutation::SetNumber(at, number)),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        1 => (at(), 1..40_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        1 => (at(), 1..40_usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
        1 => at().prop_map(Mutation::CutAt),
    ];
    prop::collection::vec(mutation, 1..=MUTATIONS_MAX)
}

/// A file of the corpus, changed; now and then with the beginning of one and the end of another.
pub(crate) fn mutated(kind: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let file = prop::sample::select(files(kind));
    (file.clone(), prop::option::weighted(0.2, (file, any::<usize>())), mutations()).prop_map(
        |(mut bytes, other, mutations)| {
            if let Some((other, at)) = other {
                let at = at % (bytes.len().min(other.len()) + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[at..]);
            }
            mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
            bytes
        },
    )
}

impl Mutation {
    pub(crate) fn apply(&self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        let range = |at: usize, long: usize| at % length..(at % length).saturating_add(long).min(length);
        match self {
            Self::Insert(at, inserted) => _ = bytes.splice(at % (length + 1)..at % (length + 1), inserted.clone()),
            _ if length == 0 => {}
            Self::FlipBit(at, bit) => bytes[at % length] ^= 1 << bit,
            Self::SetByte(at, byte) => bytes[at % length] = *byte,
            Self::SetNumber(at, number) => {
                let range = range(*at, 4);
                let taken = range.len();
                bytes[range].copy_from_slice(&number.to_be_bytes()[..taken]);
            }
            Self::Remove(at, long) => _ = bytes.drain(range(*at, *long)),
            Self::Repeat(at, long) => {
                let repeated = bytes[range(*at, *long)].to_vec();
                bytes.splice(at % length..at % length, repeated);
            }
            Self::CutAt(at) => bytes.truncate(at % length),
        }
    }
}
