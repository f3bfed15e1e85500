//! Those that are compared take turns, in an order that is shuffled each time: none of them always goes first, on what
//! the one before it has left behind.

use fastrand::Rng;

use super::{Calls, Latency};
use crate::Outcome;

/// The order is the same in every run; it is printed with the report.
pub(crate) const SEED: u64 = 15;

/// Says who goes when.
#[derive(Debug)]
pub(crate) struct Turns(Rng);

/// What turns of calls have shown.
#[derive(Debug)]
pub(crate) struct Compared<const N: usize> {
    /// Of each turn, the mean time of a call of each, in seconds.
    pub(crate) means_s: Vec<[f64; N]>,
    /// Of each, over all turns.
    pub(crate) latencies: [Latency; N],
}

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

    /// Gives each a turn; `turn` is given its number, and what it answers is answered in its place.
    pub(crate) async fn each<T: Default, const N: usize>(
        &mut self,
        mut turn: impl AsyncFnMut(usize) -> Outcome<T>,
    ) -> Outcome<[T; N]> {
        let mut brought = std::array::from_fn(|_| T::default());
        for number in self.order::<N>() {
            brought[number] = turn(number).await?;
        }
        Ok(brought)
    }

    /// Lets each make its calls in so many turns, after some that warm up.
    pub(crate) async fn compare<const N: usize>(
        &mut self,
        [warm_up, counted]: [usize; 2],
        mut calls: impl AsyncFnMut(usize) -> Outcome<Calls>,
    ) -> Outcome<Compared<N>> {
        let mut compared = Compared { means_s: Vec::new(), latencies: std::array::from_fn(|_| Latency::new()) };
        for turn in 0..warm_up + counted {
            let made: [Option<Calls>; N] = self.each(async |number| calls(number).await.map(Some)).await?;
            if turn >= warm_up {
                let made = made.map(|made| made.expect("each had its turn"));
                compared.means_s.push(std::array::from_fn(|number| made[number].mean_s));
                compared.latencies.iter_mut().zip(&made).for_each(|(all, made)| all.add(&made.latency));
            }
        }
        Ok(compared)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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

    #[tokio::test]
    async fn turns_that_warm_up_are_not_counted() {
        let mut made = [0_u32; 2];
        let compared = Turns::new()
            .compare::<2>([1, 2], async |number| {
                made[number] += 1;
                let seconds = if made[number] == 1 { 50 } else { 2 + number as u64 };
                Ok(Calls::of([Duration::from_secs(seconds)]))
            })
            .await
            .expect("calls that succeed");
        assert_eq!(compared.means_s, [[2.0, 3.0], [2.0, 3.0]]);
        assert!(compared.latencies[1].quantile(1.0) < 4.0);
    }
}
