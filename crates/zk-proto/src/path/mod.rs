//! Node paths that are always valid, the chroot a client lives under, and sequence numbers.

mod chroot;
mod sequence;
mod znode_path;

pub use chroot::Chroot;
pub use sequence::{SEQUENCE_DIGITS, format_sequence, parse_sequence};
pub use znode_path::{PathError, PathErrorReason, SequentialPath, ZnodePath, validate_path};
