//! The server as its users see it: over sockets and in memory, with its faults, and on disk.

mod blocking;
mod disk;
mod sockets;
#[cfg(feature = "tls")]
mod tls;
mod virtual_time;
