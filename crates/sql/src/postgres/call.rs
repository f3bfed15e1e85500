//! A call and its answer in both forms of the protocol: as values of the crate `tokio-postgres`, and as texts in one
//! message, which is one transaction. That is how a pooler is asked.
//!
//! Every text and every row of bytes in such a message is written in hexadecimal digits, and read so, and a fraction by
//! its bits, so that no setting of the server changes how they are read.

use std::str::FromStr;
use std::time::Duration;

use lockkeeper_session::{Asking, Failure, FailureKind, from_hexadecimal, to_hexadecimal};
use tokio_postgres::types::{FromSql, ToSql, Type};
use uuid::Uuid;

use crate::engine::ATTEMPTS_MAX;
use crate::postgres::pool::{PoolError, PostgresPool, TextRow};
use crate::postgres::refusal;
use crate::statement::{AnswerRow, Argument, Statement};
use crate::url::Config;

/// How long a statement of ours waits for a lock at most.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);

/// The columns of every answer, in the order in which they are read.
const COLUMNS: &str = "what, ticket, session, number, place, mode, epoch, timeout_ms, text, ask, bytes";

/// A parameter and its type, which is sent with it: no trip is needed to learn it.
pub(super) type Parameter = (Box<dyn ToSql + Send + Sync>, Type);

/// What one attempt of a call is answered.
pub(super) type AnswerAttempt = Asking<Result<Result<Vec<AnswerRow>, Failure>, PoolError>>;

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

pub(super) fn rows(found: &[tokio_postgres::Row]) -> Result<Vec<AnswerRow>, Failure> {
    found.iter().map(row).collect()
}

fn row(found: &tokio_postgres::Row) -> Result<AnswerRow, Failure> {
    let id = |at| column::<Option<Uuid>>(found, at).map(|id| id.map(|id| id.as_u128()));
    Ok(AnswerRow {
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

/// The first statement before a call: what it and the limits say is true of the message's transaction alone.
const READ_COMMITTED: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// The same as texts.
const COLUMNS_AS_TEXT: &str = "what, ticket, session, number, encode(float8send(place), 'hex'), mode, epoch, \
                       timeout_ms, \
                       encode(convert_to(text, 'UTF8'), 'hex'), encode(convert_to(ask, 'UTF8'), 'hex'), \
                       encode(bytes, 'hex')";

/// The message that calls a function, as one text. It has no effect unless the connection leads to this state of the
/// data, if one is known.
pub(super) fn call_as_text(config: &Config, state: Option<&str>, statement: &Statement) -> String {
    let (schema, limits) = (&config.schema, limits(config.session_timeout()));
    let commit = if config.flushes_joins { "; SET LOCAL lockkeeper.commit = 'sync'" } else { "" };
    let check = state.map(|state| format!("; SELECT {schema}.reach_v1('{state}')")).unwrap_or_default();
    let arguments: Vec<_> = statement.arguments.iter().map(literal).collect();
    let function = statement.function;
    format!(
        "{READ_COMMITTED}; {limits}{commit}{check}; SELECT {COLUMNS_AS_TEXT} FROM {schema}.{function}_v1({})",
        arguments.join(", ")
    )
}

fn literal(argument: &Argument) -> String {
    match argument {
        Argument::Id(id) | Argument::OptionalId(Some(id)) => format!("'{}'::uuid", Uuid::from_u128(*id)),
        Argument::Ids(ids) => {
            let ids: Vec<_> = ids.iter().map(|id| Uuid::from_u128(*id).to_string()).collect();
            format!("'{{{}}}'::uuid[]", ids.join(","))
        }
        Argument::Int(number) | Argument::OptionalInt(Some(number)) => format!("'{number}'::bigint"),
        Argument::Flag(flag) => flag.to_string(),
        Argument::Text(words) | Argument::OptionalText(Some(words)) => {
            format!("convert_from(decode('{}', 'hex'), 'UTF8')", to_hexadecimal(words.as_bytes()))
        }
        Argument::Bytes(bytes) | Argument::OptionalBytes(Some(bytes)) => {
            format!("decode('{}', 'hex')", to_hexadecimal(bytes))
        }
        Argument::OptionalId(None) => "NULL::uuid".to_owned(),
        Argument::OptionalInt(None) => "NULL::bigint".to_owned(),
        Argument::OptionalText(None) => "NULL::text".to_owned(),
        Argument::OptionalBytes(None) => "NULL::bytea".to_owned(),
    }
}

pub(super) fn rows_of_texts(found: &[TextRow]) -> Result<Vec<AnswerRow>, Failure> {
    found.iter().map(|found| row_of_texts(|at| text_column(found, at))).collect()
}

/// The only row of an answer.
pub(super) fn only_row(found: &[TextRow]) -> Result<&TextRow, Failure> {
    match found {
        [row] => Ok(row),
        _ => Err(Failure::unexpected()),
    }
}

/// Reads a column that may be NULL.
pub(super) fn optional<T: FromStr>(found: &TextRow, at: usize) -> Result<Option<T>, Failure> {
    parsed(text_column(found, at)?)
}

/// Reads a column that may not.
pub(super) fn value<T: FromStr>(found: &TextRow, at: usize) -> Result<T, Failure> {
    optional(found, at)?.ok_or_else(Failure::unexpected)
}

/// Reads a column that says yes or no.
pub(super) fn flag(found: &TextRow, at: usize) -> Result<bool, Failure> {
    match text_column(found, at)? {
        Some("t") => Ok(true),
        Some("f") => Ok(false),
        _ => Err(Failure::unexpected()),
    }
}

fn text_column(found: &TextRow, at: usize) -> Result<Option<&str>, Failure> {
    found.get(at).map(Option::as_deref).ok_or_else(Failure::unexpected)
}

fn row_of_texts<'a>(column: impl Fn(usize) -> Result<Option<&'a str>, Failure>) -> Result<AnswerRow, Failure> {
    let id = |at| parsed::<Uuid>(column(at)?).map(|id| id.map(|id| id.as_u128()));
    let words = |at| column(at)?.map(text).transpose();
    let place = |digits| bytes(digits)?.try_into().map(f64::from_be_bytes).map_err(|_| Failure::unexpected());
    Ok(AnswerRow {
        what: parsed(column(0)?)?.ok_or_else(Failure::unexpected)?,
        ticket: id(1)?,
        session: id(2)?,
        number: parsed(column(3)?)?,
        place: column(4)?.map(place).transpose()?,
        mode: parsed(column(5)?)?,
        epoch: parsed(column(6)?)?,
        timeout_ms: parsed(column(7)?)?,
        text: words(8)?,
        ask: words(9)?,
        bytes: column(10)?.map(bytes).transpose()?,
    })
}

fn parsed<T: FromStr>(text: Option<&str>) -> Result<Option<T>, Failure> {
    text.map(|text| text.parse().map_err(|_| Failure::unexpected())).transpose()
}

fn text(digits: &str) -> Result<String, Failure> {
    String::from_utf8(bytes(digits)?).map_err(|_| Failure::unexpected())
}

fn bytes(digits: &str) -> Result<Vec<u8>, Failure> {
    from_hexadecimal(digits).ok_or_else(Failure::unexpected)
}

/// The statements that limit how long statements of a transaction take and wait for locks.
pub(super) fn limits(timeout: Duration) -> String {
    let (statement_ms, lock_ms) = limits_ms(timeout);
    format!("SET LOCAL statement_timeout = {statement_ms}; SET LOCAL lock_timeout = {lock_ms}")
}

/// How long a statement takes and waits for a lock at most, in milliseconds: what a server or a role has by default may
/// do harm.
pub(super) fn limits_ms(timeout: Duration) -> (u128, u128) {
    let statement = timeout / 6;
    (statement.as_millis(), LOCK_WAIT_MAX.min(statement).as_millis())
}

/// For how long a connection of a pool is waited for: a beat that finds none in this time says so before it is given up
/// itself, at a sixth.
pub(super) fn free_within(config: &Config) -> Duration {
    config.session_timeout() / 8
}

/// Asks for what takes no time, and asks again if a limit that a server or a role has by default ended it: that of
/// 1 ms is over where the server's processor was busy with others, or a catalog was read for the first time.
pub(super) async fn patiently(pool: &dyn PostgresPool, config: &Config, text: &str) -> Result<Vec<TextRow>, Failure> {
    let mut left = ATTEMPTS_MAX;
    loop {
        match pool.ask(text.to_owned(), free_within(config)).await.map_err(refusal::of_greeting) {
            Err(failure) if failure.kind == FailureKind::Busy && left > 0 => left -= 1,
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_says_what_its_arguments_are_and_no_text_ends_a_literal() {
        let arguments = vec![
            Argument::Id(1),
            Argument::Int(-5),
            Argument::Text("it's \\".to_owned()),
            Argument::Ids(vec![2, 3]),
            Argument::Bytes(vec![0, 0xff]),
            Argument::Flag(true),
            Argument::OptionalText(None),
        ];
        let config = Config::from_url(&"postgres://h1?schema=locks&session_timeout=6s".parse().unwrap()).unwrap();
        let call = call_as_text(&config, Some("7"), &Statement::new("look", arguments));
        let expected = format!(
            "{READ_COMMITTED}; SET LOCAL statement_timeout = 1000; SET LOCAL lock_timeout = 1000; \
             SELECT locks.reach_v1('7'); \
             SELECT {COLUMNS_AS_TEXT} FROM locks.look_v1('00000000-0000-0000-0000-000000000001'::uuid, '-5'::bigint, \
             convert_from(decode('69742773205c', 'hex'), 'UTF8'), '{{00000000-0000-0000-0000-000000000002,\
             00000000-0000-0000-0000-000000000003}}'::uuid[], decode('00ff', 'hex'), true, NULL::text)"
        );
        assert_eq!(call, expected);
    }

    #[test]
    fn a_row_is_read_to_the_bit_and_one_that_is_no_answer_is_refused() {
        let place = to_hexadecimal(&(1.0_f64 / 3.0).to_be_bytes());
        let mut columns =
            vec![Some("1"), None, None, Some("-7"), Some(&place), None, None, None, Some("c3a4"), None, Some("00ff")];
        let read = row_of_texts(|at| Ok(columns[at])).expect("a row");
        let expected = AnswerRow {
            what: 1,
            number: Some(-7),
            place: Some(1.0 / 3.0),
            text: Some("ä".to_owned()),
            bytes: Some(vec![0, 0xff]),
            ..AnswerRow::default()
        };
        assert_eq!(read, expected);
        for (at, wrong) in
            [(0, None), (0, Some("x")), (3, Some("1.5")), (4, Some("00")), (8, Some("ff")), (10, Some("0"))]
        {
            let kept = std::mem::replace(&mut columns[at], wrong);
            assert!(row_of_texts(|at| Ok(columns[at])).is_err(), "{wrong:?} in column {at}");
            columns[at] = kept;
        }
    }
}
