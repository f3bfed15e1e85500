//! Writes jute into a growing buffer.

use bytes::{BufMut, BytesMut};

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
