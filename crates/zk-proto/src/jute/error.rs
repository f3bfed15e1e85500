//! Why bytes could not be understood, and where.

use std::error::Error;
use std::fmt;

/// Says what was wrong with a message, in which field and how far into it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DecodeError {
    kind: DecodeErrorKind,
    field: &'static str,
    offset: usize,
}

/// What was wrong with a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The message ends before the field does.
    Truncated {
        /// How many bytes the field needs.
        needed: usize,
        /// How many are left.
        left: usize,
    },
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

    /// What was wrong.
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
