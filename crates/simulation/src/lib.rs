//! Clients of locks against the embedded server in virtual time: what a seed chooses, and whether a rule is broken.
//!
//! The protocol code is the real one: recipes, guards, sessions, the client, the server. What lies between and beneath
//! is simulated: clocks that go at unequal rates, machines that stand still, a network that delays and cuts, a server
//! that restarts or loses its data. One thread runs all of it, and a seed decides every choice, so a seed that breaks a
//! rule breaks it again:
//!
//! ```sh
//! cargo xtask simulate seed 4711
//! ```
//!
//! Which of two tasks that wait for one watch is woken first is the runtime's choice. It follows the seed too in a
//! build with `--cfg tokio_unstable`, which is what `cargo xtask simulate` makes; other builds choose anew in each run.
//!
//! | files | what lives there |
//! | --- | --- |
//! | [`plan`] | what a seed chooses: machines, calls, faults; pure |
//! | `machine` | a machine: its clock, and its pauses |
//! | `network` | the way between a machine and the server |
//! | `service` | the server, which can be replaced by an empty one |
//! | `user` | the calls of one user, and what is recorded of them |
//! | `faults` | the faults of a plan, when their time comes |
//! | [`flaw`] | faults that no rule allows, to prove that the checker finds them |
//! | [`world`] | one run of a seed |
//! | [`campaign`] | many seeds on all cores |

pub mod campaign;
mod faults;
pub mod flaw;
mod machine;
mod network;
pub mod plan;
mod service;
mod user;
pub mod world;
