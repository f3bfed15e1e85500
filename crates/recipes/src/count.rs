//! The number that is a shared value: how it is stored, and as it was read.

use lockkeeper_core::{QueueName, Result, Value, ValueVersion};

use crate::contend::refused;

/// A counter as it was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Count {
    number: i32,
    version: Option<ValueVersion>,
}

impl Count {
    pub(crate) const fn new(number: i32, version: ValueVersion) -> Self {
        Self { number, version: Some(version) }
    }

    /// Returns the number; 0 for a counter that was never set.
    pub const fn number(self) -> i32 {
        self.number
    }

    /// Returns the state that it was read in; `None` for a counter that was never set.
    pub const fn version(self) -> Option<ValueVersion> {
        self.version
    }

    /// Reads a counter from a value. A node for values that was never written may be empty.
    pub(crate) fn read(counter: &QueueName, value: Option<&Value>) -> Result<Self> {
        let bytes = value.map(|value| &*value.bytes).unwrap_or_default();
        let number = match *bytes {
            [] => 0,
            _ if is_text_of_a_number(bytes) => {
                let why = "its value is the text of a number, as another client wrote it: no counter of ours";
                return Err(refused(counter, why.to_owned()));
            }
            [a, b, c, d] | [a, b, c, d, MARK] => i32::from_be_bytes([a, b, c, d]),
            _ => {
                return Err(refused(counter, format!("its value has {} bytes, and a counter has 4", bytes.len())));
            }
        };
        Ok(Self { number, version: value.map(|value| value.version) })
    }
}

/// What stands behind the bytes of a number that look like a text.
const MARK: u8 = 0;

/// Whether bytes are the text of a number, as other clients write their counters.
fn is_text_of_a_number(bytes: &[u8]) -> bool {
    let text = bytes.trim_ascii_end();
    text.iter().any(u8::is_ascii_digit) && text.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte))
}

/// The bytes that a number is stored as.
pub(crate) fn stored(number: i32) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    if is_text_of_a_number(&bytes) {
        bytes.push(MARK);
    }
    bytes
}
