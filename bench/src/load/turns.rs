//! Those that are compared take turns, in an order that is shuffled each time: none of them always goes first, on what
//! the one before it has left behind.

use fastrand::Rng;

/// The order is the same in every run; it is printed with the report.
pub(crate) const SEED: u64 = 15;

/// Says who goes when.
#[derive(Debug)]
pub(crate) struct Turns(Rng);

impl Turns {
    pub(crate) fn new() -> Self {
        Self(Rng::with_seed(SEED))
    }

    /// The order of one turn of so many: their numbers.
    pub(crate) fn order<const N: usize>(&mut self) -> [usize; N] {
        let mut order = std::array::from_fn(|number| number);
        self.0.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_a_turn_each_time_and_each_goes_first_at_times() {
        let mut turns = Turns::new();
        let mut first = [0; 3];
        for _ in 0..30 {
            let mut order = turns.order::<3>();
            first[order[0]] += 1;
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2]);
        }
        assert!(first.iter().all(|times| *times >= 5), "{first:?}");
    }
}
