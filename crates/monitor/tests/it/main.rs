//! Deadlocks of real keepers, seen through what a service shows.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `collecting` | holders, waiters and deadlocks are known as they come and go |
//! | `keepers` | tasks and owner keys that wait for each other are found, and those that do not are not |

mod collecting;
mod keepers;
