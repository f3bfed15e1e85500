//! Tests of what is found, and what never is.
//!
//! - `scene`: queues for tests;
//! - `alerts`, `outbox`: alerts over virtual time, and to a receiver that is down;
//! - `breaches`: what no lock may show;
//! - `senders`: what several monitors tell;
//! - `model`: what is known of holds, and what has happened;
//! - `named`: deadlocks as they happen, each with its chain and its way out;
//! - `plain`, `random_worlds`: a simulation that knows nothing of reductions, and worlds in which both must agree;
//! - `quiet`: programs that cannot block each other, and no alarm.

mod alerts;
mod breaches;
mod model;
mod named;
mod outbox;
mod plain;
pub(crate) mod planted;
mod quiet;
mod random_worlds;
pub(crate) mod scene;
mod senders;
