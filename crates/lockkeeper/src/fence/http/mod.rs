//! A fence before an HTTP service: a `tower` layer that refuses requests of holders that were overtaken.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `layer` | the layer and its service: from the check to the response |
//! | `admission` | whose token a request brings: pure |
//! | `lines` | one request of a lock at a time, and how many wait |
//! | `refusal` | the answers to requests that are refused: pure |
//!
//! Where the greatest tokens are kept belongs to the store.

mod admission;
mod layer;
mod lines;
mod refusal;

pub use layer::{FenceLayer, Fenced};
pub use lines::WAITING_MAX;
pub use refusal::StoreFailure;
