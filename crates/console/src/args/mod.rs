//! The options of `monitor` and of an operator's orders.

mod monitor;
mod orders;

pub use monitor::MonitorArgs;
pub use orders::{BreakArgs, FreezableKind, FreezeArgs, RevokeArgs, ThawArgs, reason};
