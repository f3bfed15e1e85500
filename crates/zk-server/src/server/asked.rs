//! When the requests were read that the machine's outputs answer.

use std::collections::VecDeque;

use tokio::time::Instant;

/// Pairs outputs with the inputs that they came of: those of one input stand together, in the order of the inputs.
#[derive(Debug, Default)]
pub(super) struct RequestTimes {
    /// How many outputs there were after an input, and when that was read.
    inputs: VecDeque<(usize, Option<Instant>)>,
    taken: usize,
}

impl RequestTimes {
    /// Notes that so many outputs wait after an input that was read then, if it came from a client.
    pub(super) fn note(&mut self, outputs: usize, read_at: Option<Instant>) {
        if self.inputs.back().map_or(0, |(last, _)| *last) < outputs {
            self.inputs.push_back((outputs, read_at));
        }
    }

    /// Takes the next output; when the request was read that it answers.
    pub(super) fn take(&mut self) -> Option<Instant> {
        while self.inputs.front().is_some_and(|(outputs, _)| *outputs <= self.taken) {
            self.inputs.pop_front();
        }
        self.taken += 1;
        self.inputs.front().and_then(|(_, read_at)| *read_at)
    }

    /// No more outputs wait.
    pub(super) fn clear(&mut self) {
        self.inputs.clear();
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_is_of_the_input_after_which_it_came() {
        let start = Instant::now();
        let at = |ms| Some(start + std::time::Duration::from_millis(ms));
        let mut asked = RequestTimes::default();
        asked.note(2, at(1));
        asked.note(2, at(2)); // nothing came of it
        asked.note(3, None); // a session expired
        asked.note(4, at(3));
        let times: Vec<_> = std::iter::repeat_with(|| asked.take()).take(5).collect();
        assert_eq!(times, [at(1), at(1), None, at(3), None]);
        asked.clear();
        asked.note(1, at(4));
        assert_eq!(asked.take(), at(4));
    }
}
