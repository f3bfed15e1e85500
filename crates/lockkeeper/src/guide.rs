//! The guide, page by page; its code is compiled and run as part of this documentation.
//!
//! | page | the question it answers |
//! | --- | --- |
//! | [`which_lock`] | mutex, read/write lock, semaphore, election, barrier or counter |
//! | [`first_lock`] | from nothing to a lock in a program and in a script |
//! | [`settings`] | every key of every URL, with its default |
//! | [`timeouts`] | how long a caller waits, and how long a dead holder blocks |
//! | [`losing_a_lock`] | what happens to work whose lock is lost, and what fencing tokens are for |
//! | [`fencing`] | how a resource refuses a holder that was overtaken, with an example for each kind |
//! | [`operating`] | a monitor, its alerts and metrics, and what to do when something is stuck |
//! | [`metrics`] | what a program records of its own locks, for Prometheus and OpenTelemetry |
//! | [`ending`] | SIGTERM, the end of the runtime, `close()` and what cannot be helped |
//! | [`testing`] | tests without a service, and with an embedded ZooKeeper |
//! | [`moving`] | from Curator, kazoo or flock |
//! | [`choosing_a_service`] | files, ZooKeeper, etcd, a database or Redis, by case |
//! | [`etcd`] | versions of etcd, least rights to copy, restoring a snapshot |
//! | [`redis`] | what is promised on Redis and Valkey, versions, least rights to copy, settings of the server |
//! | [`sql`] | PostgreSQL and MariaDB: setup, least rights, poolers, failovers, settings of the server |
//! | [`zookeeper`] | how to run an ensemble for locks, and what happens when it fails |
//! | [`compatibility`] | versions, Rust, layouts that share a queue, upgrades, versions of services |
//! | [`peers`] | a comparison with other libraries |

#[doc = include_str!("../guide/which-lock.md")]
pub mod which_lock {}

#[doc = include_str!("../guide/first-lock.md")]
pub mod first_lock {}

#[doc = include_str!("../guide/settings.md")]
pub mod settings {}

#[doc = include_str!("../guide/timeouts.md")]
pub mod timeouts {}

#[doc = include_str!("../guide/losing-a-lock.md")]
pub mod losing_a_lock {}

#[doc = include_str!("../guide/fencing.md")]
pub mod fencing {}

#[doc = include_str!("../guide/operating.md")]
pub mod operating {}

#[doc = include_str!("../guide/metrics.md")]
pub mod metrics {}

#[doc = include_str!("../guide/ending.md")]
pub mod ending {}

#[doc = include_str!("../guide/testing.md")]
pub mod testing {}

#[doc = include_str!("../guide/moving.md")]
pub mod moving {}

#[doc = include_str!("../guide/choosing-a-service.md")]
pub mod choosing_a_service {}

#[doc = include_str!("../guide/etcd.md")]
pub mod etcd {}

#[doc = include_str!("../guide/redis.md")]
pub mod redis {}

#[doc = include_str!("../guide/sql.md")]
pub mod sql {}

#[doc = include_str!("../guide/zookeeper.md")]
pub mod zookeeper {}

#[doc = include_str!("../guide/compatibility.md")]
pub mod compatibility {}

#[doc = include_str!("../guide/peers.md")]
pub mod peers {}
