//! The server as its users see it: over sockets and in memory, with its faults, and on disk.

mod disk;
mod faults;
mod sockets;
mod virtual_time;
