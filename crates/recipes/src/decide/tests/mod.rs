//! The decisions in every queue of up to six contenders, against a second definition that is a table.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `queues` | the queues, and the second definition |
//! | `decisions` | the decision in each of them |
//! | `departures` | what a departure proves, and whose wait it ends |
//! | `extents` | that a view which leaves contenders out decides alike |
//! | `holders` | who holds, as an onlooker sees it |

mod decisions;
mod departures;
mod extents;
mod holders;
mod queues;
