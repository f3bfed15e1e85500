//! What the queues of one lock leave in its directory, and how that ends: parts, batches, frozen places, requests,
//! values, and watching all of them.

mod changes;
mod frozen;
mod held_up;
mod replaced;
mod requests;
mod together;
mod values;
