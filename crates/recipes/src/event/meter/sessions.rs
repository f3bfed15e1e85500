//! The count of sessions that followed one that was lost. Pure.

/// The sessions of a keeper so far. That one was lost may be told after the next one was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sessions {
    opened: u64,
    lost: u64,
    closed: u64,
    /// How many reconnections were told of.
    counted: u64,
}

/// What has happened to a session.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happened {
    Opened,
    Lost,
    /// The program itself has ended it.
    Closed,
}

impl Sessions {
    /// Takes in what has happened; returns how many reconnections that makes.
    pub(super) fn take(&mut self, happened: Happened) -> u64 {
        match happened {
            Happened::Opened => self.opened += 1,
            Happened::Lost => self.lost += 1,
            Happened::Closed => self.closed += 1,
        }
        // The first one follows none, and one behind a closed session no lost one.
        let followed = self.opened.saturating_sub(1 + self.closed).min(self.lost);
        let more = followed.saturating_sub(self.counted);
        self.counted += more;
        more
    }
}

#[cfg(test)]
mod tests {
    use super::Happened::{Closed, Lost, Opened};
    use super::*;

    fn reconnections(happened: &[Happened]) -> Vec<u64> {
        let mut sessions = Sessions::default();
        happened.iter().map(|&happened| sessions.take(happened)).collect()
    }

    #[test]
    fn a_session_behind_a_lost_one_is_one_reconnection_in_whichever_order_that_is_told() {
        assert_eq!(reconnections(&[Opened, Lost, Opened, Lost, Opened]), [0, 0, 1, 0, 1]);
        assert_eq!(reconnections(&[Opened, Opened, Lost, Opened, Lost]), [0, 0, 1, 0, 1]);
    }

    #[test]
    fn neither_the_first_session_nor_one_behind_a_closed_one_is_a_reconnection() {
        assert_eq!(reconnections(&[Opened, Closed, Opened, Closed]), [0; 4]);
        assert_eq!(reconnections(&[Opened, Opened, Closed, Lost, Opened]), [0, 0, 0, 0, 1]);
        assert_eq!(reconnections(&[Lost, Opened]), [0, 0]);
    }
}
