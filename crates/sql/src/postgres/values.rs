//! Arguments and rows as the crate `tokio-postgres` has them.

use lockkeeper_session::Failure;
use tokio_postgres::types::{FromSql, ToSql, Type};
use uuid::Uuid;

use crate::statement::{Argument, Row};

/// The columns of every answer, in the order in which they are read.
const COLUMNS: &str = "what, ticket, session, number, place, mode, epoch, timeout_ms, text, ask, bytes";

/// A parameter and its type, which is sent with it: no trip is needed to learn it.
pub(super) type Parameter = (Box<dyn ToSql + Send + Sync>, Type);

/// Returns the call of a function in this schema with so many arguments.
pub(super) fn call(schema: &str, function: &str, arguments: usize) -> String {
    let places: Vec<_> = (1..=arguments).map(|place| format!("${place}")).collect();
    format!("SELECT {COLUMNS} FROM {schema}.{function}_v1({})", places.join(", "))
}

/// Returns an argument as it is sent.
pub(super) fn parameter(argument: &Argument) -> Parameter {
    match argument {
        Argument::Id(id) => (Box::new(Uuid::from_u128(*id)), Type::UUID),
        Argument::OptionalId(id) => (Box::new(id.map(Uuid::from_u128)), Type::UUID),
        Argument::Ids(ids) => {
            let ids: Vec<_> = ids.iter().copied().map(Uuid::from_u128).collect();
            (Box::new(ids), Type::UUID_ARRAY)
        }
        Argument::Int(number) => (Box::new(*number), Type::INT8),
        Argument::OptionalInt(number) => (Box::new(*number), Type::INT8),
        Argument::Flag(flag) => (Box::new(*flag), Type::BOOL),
        Argument::Text(text) => (Box::new(text.clone()), Type::TEXT),
        Argument::OptionalText(text) => (Box::new(text.clone()), Type::TEXT),
        Argument::Bytes(bytes) => (Box::new(bytes.clone()), Type::BYTEA),
        Argument::OptionalBytes(bytes) => (Box::new(bytes.clone()), Type::BYTEA),
    }
}

/// Reads the rows of an answer.
pub(super) fn rows(found: &[tokio_postgres::Row]) -> Result<Vec<Row>, Failure> {
    found.iter().map(row).collect()
}

fn row(found: &tokio_postgres::Row) -> Result<Row, Failure> {
    let id = |at| column::<Option<Uuid>>(found, at).map(|id| id.map(|id| id.as_u128()));
    Ok(Row {
        what: column(found, 0)?,
        ticket: id(1)?,
        session: id(2)?,
        number: column(found, 3)?,
        place: column(found, 4)?,
        mode: column(found, 5)?,
        epoch: column(found, 6)?,
        timeout_ms: column(found, 7)?,
        text: column(found, 8)?,
        ask: column(found, 9)?,
        bytes: column(found, 10)?,
    })
}

/// Reads a column; one that is not there or of another type makes an answer one to another question.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a tokio_postgres::Row, at: usize) -> Result<T, Failure> {
    row.try_get(at).map_err(|error| Failure::unexpected().caused_by(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_the_version_of_the_function_and_has_a_place_for_each_argument() {
        assert_eq!(call("locks", "look", 2), format!("SELECT {COLUMNS} FROM locks.look_v1($1, $2)"));
    }
}
