//! Bad input, grown from a kept corpus: streams of frames, single requests, and data directories.
//!
//! Each target replays what lies in its folder of `corpus` as it is, then changes it at random; `PROPTEST_CASES` sets how
//! often. What a target is failed by is printed; put it into the folder as a file and it is replayed for ever.
//!
//! - `mutation`: the corpus, and how it is changed;
//! - `service`: a machine with a good client beside the bad one; `streams` and `requests` are the targets on it;
//! - `directories`: the target that loads snapshots and logs.

#[path = "../embedded/client.rs"]
#[allow(dead_code, reason = "shared with another test, which uses more of it")]
mod client;
mod directories;
mod mutation;
mod requests;
mod service;
mod streams;
