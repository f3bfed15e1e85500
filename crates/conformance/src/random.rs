//! Random numbers that a seed repeats, and the line that says how.

use std::env;

use lockkeeper_core::randomness::next_of_sequence;

/// The environment variable that gives the seed of a random case.
pub const SEED_VARIABLE: &str = "LOCKKEEPER_SEED";

/// Returns the seed in the environment, or a new one.
///
/// # Panics
///
/// If [`SEED_VARIABLE`] is set but is not a number: otherwise an ignored seed would be taken for a used one.
pub fn seed() -> u64 {
    match env::var(SEED_VARIABLE) {
        Ok(seed) => seed.parse().expect("the seed in the environment is a whole number"),
        Err(_) => getrandom::u64().expect("the system gives randomness"),
    }
}

/// A sequence of numbers that its seed determines. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Starts the sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Takes the [`seed`], and prints the command that runs the case with it again.
    ///
    /// # Panics
    ///
    /// As [`seed`].
    pub fn announced(case: &str) -> Self {
        let seed = seed();
        let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "PACKAGE".to_owned());
        eprintln!("again: {SEED_VARIABLE}={seed} cargo test -p {package} --test conformance -- --exact \"{case}\"");
        Self::new(seed)
    }

    /// Returns the next number.
    pub const fn next(&mut self) -> u64 {
        next_of_sequence(&mut self.state)
    }

    /// Returns a number below `bound`, which is not zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Splits off another sequence, for another task.
    #[must_use]
    pub const fn split(&mut self) -> Self {
        Self::new(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_gives_others() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [random.next(), random.next(), random.split().next()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }
}
