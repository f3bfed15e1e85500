//! The spread of a measurement over its rounds: least, median and most. Pure.

/// The spread of figures over rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    /// Of an even number, the greater of the middle two; rounds are odd in number.
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Nothing for no figures.
    pub(crate) fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (least, most) = (*figures.first()?, *figures.last()?);
        Some(Self { least, median: figures[figures.len() / 2], most })
    }
}

pub(crate) fn median(figures: Vec<f64>) -> f64 {
    Spread::of(figures).map_or(f64::NAN, |spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_one_in_any_order() {
        let spread = Spread::of(vec![9.0, 1.0, 4.0]).expect("three figures");
        assert_eq!(spread, Spread { least: 1.0, median: 4.0, most: 9.0 });
    }

    #[test]
    fn no_figures_have_no_spread() {
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
