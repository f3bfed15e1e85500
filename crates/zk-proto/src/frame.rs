//! Frames: a 32-bit length, then that many bytes. Cutting them out of a stream, and closing them.

use std::error::Error;
use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use crate::jute::Writer;

/// The largest frame body Apache accepts by default (`jute.maxbuffer`, 1 MiB less one), in bytes.
pub const FRAME_BYTES_DEFAULT_MAX: usize = 0xf_ffff;

/// The length in front of each frame, in bytes.
const HEADER_BYTES: usize = size_of::<i32>();

/// Says that a frame's length is outside the allowed range; the rest of the stream cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameError {
    length: i64,
    length_max: usize,
}

impl FrameError {
    /// The length found; negative when the peer sent a negative one.
    pub const fn length(&self) -> i64 {
        self.length
    }

    /// The largest length admitted.
    pub const fn length_max(&self) -> usize {
        self.length_max
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a frame of {} bytes; 0 to {} are admitted", self.length, self.length_max)
    }
}

impl Error for FrameError {}

/// Cuts frames out of a stream of bytes that arrives in any pieces.
///
/// It holds the bytes not yet taken: if the caller takes all frames after each push, at most one frame and
/// one push. A length is refused as soon as its four bytes are there.
#[derive(Debug)]
pub struct Deframer {
    bytes: BytesMut,
    length_max: usize,
}

impl Deframer {
    /// Starts at the beginning of a stream whose frames have bodies of at most `length_max` bytes.
    pub fn new(length_max: usize) -> Self {
        Self { bytes: BytesMut::new(), length_max }
    }

    /// Appends bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the body of the next whole frame; `None` until it is whole.
    ///
    /// # Errors
    ///
    /// Fails on a length that is negative or beyond the maximum, and from then on each time.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(header) = self.bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = i32::from_be_bytes(*header);
        let refused = FrameError { length: i64::from(length), length_max: self.length_max };
        let length = usize::try_from(length).map_err(|_| refused)?;
        if length > self.length_max {
            return Err(refused);
        }
        if self.bytes.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        self.bytes.advance(HEADER_BYTES);
        Ok(Some(self.bytes.split_to(length).freeze()))
    }
}

/// Builds one frame: reserves the length, lets `body` write, then fills the length in.
///
/// # Errors
///
/// Fails if the body is longer than `length_max` (which is at most `i32::MAX` in effect).
pub fn build_frame(length_max: usize, body: impl FnOnce(&mut Writer)) -> Result<BytesMut, FrameError> {
    let mut writer = Writer::new();
    writer.i32(0);
    body(&mut writer);
    let mut bytes = writer.into_bytes();
    let length = bytes.len() - HEADER_BYTES;
    let refused = FrameError { length: i64::try_from(length).unwrap_or(i64::MAX), length_max };
    if length > length_max {
        return Err(refused);
    }
    let header = i32::try_from(length).map_err(|_| refused)?.to_be_bytes();
    bytes[..HEADER_BYTES].copy_from_slice(&header);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_the_bytes_arrive() {
        let mut stream = build_frame(16, |writer| writer.string("ab")).unwrap();
        stream.extend_from_slice(&build_frame(16, |_| ()).unwrap());
        let mut deframer = Deframer::new(16);
        let mut frames = Vec::new();
        for byte in &stream {
            deframer.push(&[*byte]);
            while let Some(frame) = deframer.next_frame().unwrap() {
                frames.push(frame);
            }
        }
        assert_eq!(frames, [&[0, 0, 0, 2, b'a', b'b'][..], &[]]);
    }

    #[test]
    fn a_length_outside_the_maximum_is_refused_from_its_four_bytes() {
        for (header, length) in
            [([0, 0, 0, 17], 17), ([0xff, 0xff, 0xff, 0xff], -1), ([0x7f, 0xff, 0xff, 0xff], 0x7fff_ffff)]
        {
            let mut deframer = Deframer::new(16);
            deframer.push(&header);
            assert_eq!(deframer.next_frame().unwrap_err().length(), length);
            assert_eq!(deframer.next_frame().unwrap_err().length(), length, "an unreadable stream stays unreadable");
        }
    }

    #[test]
    fn a_body_beyond_the_maximum_is_not_framed() {
        assert!(build_frame(8, |writer| writer.i64(1)).is_ok());
        assert_eq!(build_frame(7, |writer| writer.i64(1)).unwrap_err().length(), 8);
    }
}
