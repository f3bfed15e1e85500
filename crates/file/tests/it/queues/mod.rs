//! Traces of one lock's queues in its directory, and how they end: parts, batches, frozen places, requests, values, and
//! watching all of them.

mod changes;
mod frozen;
mod held_up;
mod replaced;
mod requests;
mod together;
mod values;
