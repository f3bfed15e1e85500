//! Deadlocks of real keepers, seen through what a service shows.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `keepers` | tasks and owner keys that wait for each other are found, and those that do not are not |

mod keepers;
