//! Bad input, grown from a kept corpus: streams of frames, single requests, and data directories.
//!
//! Each target replays the files of its folder of `corpus` as they are, then changes them at random; `PROPTEST_CASES`
//! sets how often. The input that a target fails on is printed; put it into the folder as a file and it is always
//! replayed.
//!
//! - `mutation`: the corpus, and how it is changed;
//! - `service`: a machine with a good client beside the bad one, and the two targets on it: streams and requests;
//! - `directories`: the target that loads snapshots and logs.

mod directories;
mod mutation;
mod service;
