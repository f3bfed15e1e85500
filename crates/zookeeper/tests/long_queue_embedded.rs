//! The test of long queues, with an embedded server.

#[path = "long_queue.rs"]
mod long_queue;
