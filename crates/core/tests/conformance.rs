//! The conformance suite on the memory backend.
fn main() {}
