//! `lockkeeper` on real Apache ZooKeeper: real commands in real processes, against servers that are killed and clients
//! of other makes.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `fleet` | many commands, while a server of an ensemble is killed and restarted |
//! | `examining` | `doctor` and `capabilities` |
//! | `death` | runners that are killed, stopped, or have their place taken away |
//! | `grace` | which grace is refused |
//! | `looking` | `ls`, `show`, `wait`, `capabilities`, `check` |
//! | `moving` | nodes that move to Apache's server and back |
//! | `peers` | one queue with Curator |
//! | `refusal` | servers that cannot be reached or used |
//! | `round_trips` | how many round trips a command costs |
//! | `site` | a service and a machine that uses it |
//!
//! Each test needs Java and Debian's packages, and skips by name without them.

mod death;
mod examining;
#[path = "../support/round_trips.rs"]
mod few_round_trips;
mod fleet;
mod grace;
mod looking;
#[path = "../support/machine.rs"]
mod machine;
mod moving;
mod peers;
mod refusal;
mod round_trips;
mod site;
#[expect(dead_code, reason = "the tests on a server use a part of it")]
#[path = "../support/mod.rs"]
mod support;
