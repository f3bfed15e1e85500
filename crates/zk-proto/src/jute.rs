//! Jute, ZooKeeper's serialization: big-endian integers, and strings, buffers and vectors with a length in front.
//!
//! The reader never goes past the end of a frame, and never allocates by a length that the peer merely claims.

use std::error::Error;
use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

/// The defect of a message, with its field and its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DecodeError {
    kind: DecodeErrorKind,
    field: &'static str,
    offset: usize,
}

/// The kind of a message's defect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names of the variants' fields say it")]
pub enum DecodeErrorKind {
    /// The message ends before the field does.
    Truncated { needed: usize, left: usize },
    /// A length is below −1; −1 alone means null.
    NegativeLength(i32),
    /// A field that must be there is null.
    UnexpectedNull,
    /// A number stands for nothing the protocol knows there.
    UnknownValue(i32),
    /// The operation code is unknown, or no request of a client.
    UnknownOperation(i32),
}

impl DecodeError {
    /// Makes an error about `field`, whose first byte stands at `offset`.
    pub const fn new(kind: DecodeErrorKind, field: &'static str, offset: usize) -> Self {
        Self { kind, field, offset }
    }

    /// The kind of the defect.
    pub const fn kind(&self) -> DecodeErrorKind {
        self.kind
    }

    /// The field in which it was wrong.
    pub const fn field(&self) -> &'static str {
        self.field
    }

    /// The offset of the field from the start of the frame's body, in bytes.
    pub const fn offset(&self) -> usize {
        self.offset
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, field, offset } = self;
        match kind {
            DecodeErrorKind::Truncated { needed, left } => {
                write!(formatter, "{field} needs {needed} bytes, {left} are left")
            }
            DecodeErrorKind::NegativeLength(length) => write!(formatter, "{field} has the length {length}"),
            DecodeErrorKind::UnexpectedNull => write!(formatter, "{field} is null"),
            DecodeErrorKind::UnknownValue(value) => write!(formatter, "{field} has the unknown value {value}"),
            DecodeErrorKind::UnknownOperation(code) => write!(formatter, "{field} is the unknown operation {code}"),
        }?;
        write!(formatter, " (at byte {offset})")
    }
}

impl Error for DecodeError {}

/// Reads the fields of one message in order.
///
/// Every length is checked against the bytes that are left before anything is allocated, so memory is bounded by the
/// frame's own size. Buffers are slices of the frame, not copies: one that is kept keeps the whole frame in memory.
/// Bytes after the last field are no error, since later versions of the protocol append fields.
#[derive(Debug)]
pub struct Reader {
    bytes: Bytes,
    position: usize,
}

impl Reader {
    /// Reads from the first byte of `bytes`, the body of one frame.
    pub const fn new(bytes: Bytes) -> Self {
        Self { bytes, position: 0 }
    }

    /// How many bytes have not been read yet.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The offset of the next field.
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Makes an error about a field that starts at the next byte.
    pub const fn error(&self, kind: DecodeErrorKind, field: &'static str) -> DecodeError {
        DecodeError::new(kind, field, self.position)
    }

    /// Reads a 32-bit integer.
    ///
    /// # Errors
    ///
    /// Fails if the message ends first, as all methods of this type do.
    pub fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array(field)?))
    }

    /// Reads a 64-bit integer.
    pub fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array(field)?))
    }

    /// Reads a boolean: one byte, and any but 0 is true, as in Apache's reader.
    pub fn boolean(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        let [byte] = self.array(field)?;
        Ok(byte != 0)
    }

    /// Reads a buffer; `None` if it is null.
    pub fn buffer(&mut self, field: &'static str) -> Result<Option<Bytes>, DecodeError> {
        let start = self.position;
        let Some(length) = self.length(field)? else {
            return Ok(None);
        };
        let left = self.left();
        if length > left {
            return Err(DecodeError::new(DecodeErrorKind::Truncated { needed: length, left }, field, start));
        }
        let buffer = self.bytes.slice(self.position..self.position + length);
        self.position += length;
        Ok(Some(buffer))
    }

    /// Reads a string; null is an error.
    ///
    /// Bytes that are not UTF-8 become U+FFFD, as in Apache's reader; paths with that character are then refused by the
    /// rules for paths.
    pub fn string(&mut self, field: &'static str) -> Result<String, DecodeError> {
        let start = self.position;
        let bytes =
            self.buffer(field)?.ok_or_else(|| DecodeError::new(DecodeErrorKind::UnexpectedNull, field, start))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a string that may be null; null becomes the empty string.
    pub fn string_or_empty(&mut self, field: &'static str) -> Result<String, DecodeError> {
        Ok(self.buffer(field)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default())
    }

    /// Reads a vector, each element by `element`; a null vector is an empty one.
    ///
    /// `element_size_min` is the fewest bytes an element can take. A count that cannot fit into the rest of the message
    /// is refused before anything is allocated.
    pub fn vector<T>(
        &mut self,
        field: &'static str,
        element_size_min: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let start = self.position;
        let Some(count) = self.length(field)? else {
            return Ok(Vec::new());
        };
        let (needed, left) = (count.saturating_mul(element_size_min), self.left());
        if needed > left {
            return Err(DecodeError::new(DecodeErrorKind::Truncated { needed, left }, field, start));
        }
        (0..count).map(|_| element(self)).collect()
    }

    /// Reads a vector of strings.
    pub fn strings(&mut self, field: &'static str) -> Result<Vec<String>, DecodeError> {
        self.vector(field, size_of::<i32>(), |reader| reader.string(field))
    }

    /// Reads the length in front of a buffer or vector; `None` for null.
    fn length(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        let length = self.i32(field)?;
        if length == -1 {
            return Ok(None);
        }
        usize::try_from(length).map(Some).map_err(|_| {
            DecodeError::new(DecodeErrorKind::NegativeLength(length), field, self.position - size_of::<i32>())
        })
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let Some(array) = self.bytes.get(self.position..).and_then(|rest| rest.first_chunk::<N>()) else {
            return Err(self.error(DecodeErrorKind::Truncated { needed: N, left: self.left() }, field));
        };
        self.position += N;
        Ok(*array)
    }
}

/// Writes the fields of one message in order.
///
/// Writing cannot fail. A length beyond `i32::MAX` is written as `i32::MAX`; no frame maximum admits such a message,
/// so it is refused when the frame is closed.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: BytesMut,
}

impl Writer {
    /// Starts an empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a 32-bit integer.
    pub fn i32(&mut self, value: i32) {
        self.bytes.put_i32(value);
    }

    /// Writes a 64-bit integer.
    pub fn i64(&mut self, value: i64) {
        self.bytes.put_i64(value);
    }

    /// Writes a boolean.
    pub fn boolean(&mut self, value: bool) {
        self.bytes.put_u8(u8::from(value));
    }

    /// Writes a buffer, `None` as null.
    pub fn buffer(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => {
                self.length(bytes.len());
                self.bytes.put_slice(bytes);
            }
            None => self.i32(-1),
        }
    }

    /// Writes a string.
    pub fn string(&mut self, value: &str) {
        self.buffer(Some(value.as_bytes()));
    }

    /// Writes a vector, each element by `element`.
    pub fn vector<T>(&mut self, values: &[T], mut element: impl FnMut(&mut Self, &T)) {
        self.length(values.len());
        for value in values {
            element(self, value);
        }
    }

    /// Writes a vector of strings.
    pub fn strings(&mut self, values: &[String]) {
        self.vector(values, |writer, value| writer.string(value));
    }

    /// How many bytes were written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Ends the message.
    pub fn into_bytes(self) -> BytesMut {
        self.bytes
    }

    fn length(&mut self, length: usize) {
        self.i32(i32::try_from(length).unwrap_or(i32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &'static [u8]) -> Reader {
        Reader::new(Bytes::from_static(bytes))
    }

    #[test]
    fn a_claimed_length_beyond_the_frame_is_refused_before_allocating() {
        let error = reader(&[0x7f, 0xff, 0xff, 0xff, 1, 2]).buffer("data").unwrap_err();
        assert_eq!(error.kind(), DecodeErrorKind::Truncated { needed: 0x7fff_ffff, left: 2 });
        assert_eq!((error.field(), error.offset()), ("data", 0));
        let error = reader(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]).strings("children").unwrap_err();
        assert_eq!(error.kind(), DecodeErrorKind::Truncated { needed: 4 * 0x7fff_ffff, left: 4 });
    }

    #[test]
    fn minus_one_is_null_and_other_negative_lengths_are_errors() {
        assert_eq!(reader(&[0xff; 4]).buffer("data").unwrap(), None);
        assert_eq!(reader(&[0xff; 4]).strings("children").unwrap(), Vec::<String>::new());
        assert_eq!(reader(&[0xff; 4]).string("path").unwrap_err().kind(), DecodeErrorKind::UnexpectedNull);
        assert_eq!(reader(&[0xff; 4]).string_or_empty("path").unwrap(), "");
        let error = reader(&[0xff, 0xff, 0xff, 0xfe]).buffer("data").unwrap_err();
        assert_eq!(error.kind(), DecodeErrorKind::NegativeLength(-2));
    }

    #[test]
    fn an_error_names_the_field_and_its_offset() {
        let mut reader = reader(&[0, 0, 0, 1, 0, 0]);
        assert_eq!(reader.i32("xid").unwrap(), 1);
        let error = reader.i64("zxid").unwrap_err();
        assert_eq!(error.to_string(), "zxid needs 8 bytes, 2 are left (at byte 4)");
        assert_eq!(reader.boolean("watch"), Ok(false), "a failed read consumes nothing");
    }

    #[test]
    fn bytes_that_are_not_utf8_become_the_replacement_character() {
        assert_eq!(reader(&[0, 0, 0, 3, b'/', 0xff, b'a']).string("path").unwrap(), "/\u{fffd}a");
    }
}
