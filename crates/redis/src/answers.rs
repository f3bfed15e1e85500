//! Reads what scripts answer.

use lockkeeper_session::Failure;
use redis::Value;

/// Reads a list.
pub(crate) fn list(value: Value) -> Result<Vec<Value>, Failure> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(Failure::unexpected()),
    }
}

/// Reads a text.
pub(crate) fn text(value: Value) -> Result<String, Failure> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| Failure::unexpected()),
        Value::SimpleString(text) => Ok(text),
        _ => Err(Failure::unexpected()),
    }
}

/// Reads the texts of a list.
pub(crate) fn texts(value: Value) -> Result<Vec<String>, Failure> {
    list(value)?.into_iter().map(text).collect()
}

/// Reads a number that is not negative.
pub(crate) fn number(value: &Value) -> Result<u64, Failure> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| Failure::unexpected()),
        _ => Err(Failure::unexpected()),
    }
}

/// Reads the only answer of a batch.
pub(crate) fn only(answers: Vec<Value>) -> Result<Value, Failure> {
    <[Value; 1]>::try_from(answers).map(|[answer]| answer).map_err(|_| Failure::unexpected())
}
