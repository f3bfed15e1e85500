//! Many places that are given up at once go in one statement: each by itself is a transaction, which the disk must
//! have. Pure.

use crate::statement::{Argument, Row, Statement, What, word};

/// The most places that one statement gives up: others wait for their queues meanwhile, a hundredth of a second.
pub(crate) const LEAVES_MAX: usize = 256;

/// The function that gives up one place, and that for many.
pub(crate) const LEAVE: &str = "leave";
const LEAVE_ALL: &str = "leave_all";

/// The session and the ticket of a place that a statement gives up, if it does that alone.
pub(crate) fn place(statement: &Statement) -> Option<(u128, u128)> {
    match (statement.function, &statement.arguments[..]) {
        (LEAVE, [Argument::Id(session), .., Argument::Id(ticket)]) => Some((*session, *ticket)),
        _ => None,
    }
}

/// The statement that gives up all of these places of a session.
pub(crate) fn leave_all(session: u128, tickets: Vec<u128>) -> Statement {
    Statement::new(LEAVE_ALL, vec![Argument::Id(session), Argument::Ids(tickets)])
}

/// What the answer to that is for one of the tickets: the answer that [`LEAVE`] would have had.
pub(crate) fn of_one(rows: &[Row], ticket: u128) -> Vec<Row> {
    let says = |what| rows.iter().any(|row| row.says(what) && row.ticket == Some(ticket));
    let word = match word(rows) {
        _ if says(What::Left) => "left",
        _ if says(What::Broken) => "broken",
        Ok(word) => word,
        // It is told as it is.
        Err(_) => return rows.to_vec(),
    };
    vec![Row { what: What::Status as i16, text: Some(word.to_owned()), ..Row::default() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_many_places_is_answered_as_if_it_were_left_alone() {
        let leave =
            Statement::new(LEAVE, vec![Argument::Id(1), Argument::Text("a".into()), Argument::Int(0), Argument::Id(7)]);
        assert_eq!((place(&leave), place(&leave_all(1, vec![7]))), (Some((1, 7)), None));
        let row = |what: What, ticket, text: Option<&str>| Row {
            what: what as i16,
            ticket,
            text: text.map(str::to_owned),
            ..Row::default()
        };
        let rows = [
            row(What::Status, None, Some("removed")),
            row(What::Left, Some(7), None),
            row(What::Broken, Some(8), None),
        ];
        for (ticket, expected) in [(7, "left"), (8, "broken"), (9, "removed")] {
            assert_eq!(word(&of_one(&rows, ticket)).expect("a word"), expected);
        }
        assert!(word(&of_one(&[], 7)).is_err());
    }
}
