//! The rows of an answer, by the names of their columns. The server writes all values as text.

use lockkeeper_session::Failure;
use std::str::FromStr;

use mysql_async::Value;

use crate::statement::Row;

/// Reads one row. What a later version has added is passed over.
pub(super) fn row(row: mysql_async::Row) -> Result<Row, Failure> {
    let columns = row.columns();
    let mut read = Row::default();
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
