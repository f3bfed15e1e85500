//! A call, written as SQL, and the rows of its answer, by the names of their columns.
//!
//! Every text and every number of 16 bytes is written in hexadecimal digits, so that no setting of the server changes
//! how it is read. The server writes all values as text.

use std::fmt::Write as _;
use std::str::FromStr;

use lockkeeper_core::Ticket;
use lockkeeper_session::{Failure, to_hexadecimal};
use mysql_async::{Row, Value};

use crate::statement::{AnswerRow, Argument, Statement};

/// The text that calls a procedure.
pub(super) fn call(schema: &str, statement: &Statement) -> String {
    let mut text = format!("CALL {schema}.{}_v1(", statement.function);
    for (at, argument) in statement.arguments.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_argument(&mut text, argument);
    }
    text.push(')');
    text
}

fn write_argument(text: &mut String, argument: &Argument) {
    match argument {
        Argument::Id(id) | Argument::OptionalId(Some(id)) => write_bytes(text, &id.to_be_bytes()),
        Argument::Ids(ids) => {
            let bytes: Vec<_> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
            write_bytes(text, &bytes);
        }
        // Writing to a `String` cannot fail.
        Argument::Int(number) | Argument::OptionalInt(Some(number)) => drop(write!(text, "{number}")),
        Argument::Flag(flag) => text.push_str(if *flag { "1" } else { "0" }),
        Argument::Text(words) | Argument::OptionalText(Some(words)) => {
            text.push_str("_utf8mb4 ");
            write_bytes(text, words.as_bytes());
        }
        Argument::Bytes(bytes) | Argument::OptionalBytes(Some(bytes)) => write_bytes(text, bytes),
        Argument::OptionalId(None)
        | Argument::OptionalInt(None)
        | Argument::OptionalText(None)
        | Argument::OptionalBytes(None) => text.push_str("NULL"),
    }
}

fn write_bytes(text: &mut String, bytes: &[u8]) {
    text.extend(["x'", &to_hexadecimal(bytes), "'"]);
}

/// The text that waits for a contender's named lock for so many seconds, and releases it at once.
pub(super) fn wait_for_named_lock(ticket: Ticket, within_s: f64) -> String {
    let named_lock = format!("'lk.{ticket}'");
    format!("SELECT GET_LOCK({named_lock}, {within_s}), RELEASE_LOCK({named_lock})")
}

/// Reads one row. What a later version has added is passed over.
pub(super) fn row(row: Row) -> Result<AnswerRow, Failure> {
    let columns = row.columns();
    let mut read = AnswerRow::default();
    for (column, value) in columns.iter().zip(row.unwrap()) {
        let bytes = match value {
            Value::Bytes(bytes) => bytes,
            Value::NULL => continue,
            _ => return Err(Failure::unexpected()),
        };
        match column.name_ref() {
            b"what" => read.what = number(bytes)?,
            b"ticket" => read.ticket = Some(id(&bytes)?),
            b"session" => read.session = Some(id(&bytes)?),
            b"number" => read.number = Some(number(bytes)?),
            b"place" => read.place = Some(number(bytes)?),
            b"mode" => read.mode = Some(number(bytes)?),
            b"epoch" => read.epoch = Some(number(bytes)?),
            b"timeout_ms" => read.timeout_ms = Some(number(bytes)?),
            b"text" => read.text = Some(text(bytes)?),
            b"ask" => read.ask = Some(text(bytes)?),
            b"bytes" => read.bytes = Some(bytes),
            _ => {}
        }
    }
    Ok(read)
}

fn id(bytes: &[u8]) -> Result<u128, Failure> {
    bytes.try_into().map(u128::from_be_bytes).map_err(|_| Failure::unexpected())
}

fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|_| Failure::unexpected())
}

fn number<N: FromStr>(bytes: Vec<u8>) -> Result<N, Failure> {
    text(bytes)?.parse().map_err(|_| Failure::unexpected())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_can_be_read_in_one_way_only() {
        let arguments = vec![
            Argument::Id(255),
            Argument::Ids(vec![1]),
            Argument::Int(-7),
            Argument::Text("d'ö\\".to_owned()),
            Argument::Flag(true),
            Argument::Bytes(vec![0, 16]),
            Argument::OptionalId(None),
        ];
        assert_eq!(
            call("locks", &Statement::new("join", arguments)),
            "CALL locks.join_v1(x'000000000000000000000000000000ff',x'00000000000000000000000000000001',-7,\
             _utf8mb4 x'6427c3b65c',1,x'0010',NULL)"
        );
    }
}
