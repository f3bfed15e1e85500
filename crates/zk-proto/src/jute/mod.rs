//! Jute, ZooKeeper's serialization: big-endian integers, and strings, buffers and vectors with a length in front.

mod error;
mod reader;
mod writer;

pub use error::{DecodeError, DecodeErrorKind};
pub use reader::Reader;
pub use writer::Writer;
