//! The guide, page by page; its code is compiled and run as part of this documentation.
//!
//! | page | what it answers |
//! | --- | --- |
//! | [`start`] | a first lock in five minutes: library, command, tests |
//! | [`choosing`] | which service, which kind of lock, which systems |
//! | [`files`] | locks on one machine |
//! | [`zookeeper`] | an ensemble for locks, shared with Curator or kazoo |
//! | [`etcd`] | versions, least rights, restoring a snapshot |
//! | [`redis`] | what best effort means, rights, sentinels, clusters |
//! | [`postgresql`] | your database or your pool, failovers, rights |
//! | [`mariadb`] | what differs on MariaDB and MySQL |
//! | [`memory`] | locks of one process, for tests |
//! | [`recipes`] | leader, workers, once per slot, migrations, limiter, moving from other libraries |
//! | [`production`] | axum with SIGTERM, Kubernetes, systemd, cron, what to do when |
//! | [`losing_a_lock`] | what a holder sees, and what becomes of its work |
//! | [`fencing`] | how a resource refuses a holder that was overtaken |
//! | [`timeouts`] | how long a caller waits, and how long a dead holder blocks |
//! | [`ending`] | when the next waiter gets the lock, signals, forks |
//! | [`testing`] | tests without a service, and with an embedded ZooKeeper |
//! | [`operating`] | monitor, alerts, orders, Prometheus |
//! | [`metrics`] | what a program records of its own locks |
//! | [`settings`] | URLs, credentials, TLS |
//! | [`errors`] | each kind of error: what happened, what to do |
//! | [`faq`] | short answers |
//! | [`compatibility`] | Rust, versions, layouts, upgrades |
//! | [`peers`] | a comparison, and when to take the other |

#[doc = include_str!("../guide/start.md")]
pub mod start {}

#[doc = include_str!("../guide/choosing.md")]
pub mod choosing {}

#[doc = include_str!("../guide/files.md")]
pub mod files {}

#[doc = include_str!("../guide/zookeeper.md")]
pub mod zookeeper {}

#[doc = include_str!("../guide/etcd.md")]
pub mod etcd {}

#[doc = include_str!("../guide/redis.md")]
pub mod redis {}

#[doc = include_str!("../guide/postgresql.md")]
pub mod postgresql {}

#[doc = include_str!("../guide/mariadb.md")]
pub mod mariadb {}

#[doc = include_str!("../guide/memory.md")]
pub mod memory {}

#[doc = include_str!("../guide/recipes.md")]
pub mod recipes {}

#[doc = include_str!("../guide/production.md")]
pub mod production {}

#[doc = include_str!("../guide/losing-a-lock.md")]
pub mod losing_a_lock {}

#[doc = include_str!("../guide/fencing.md")]
pub mod fencing {}

#[doc = include_str!("../guide/timeouts.md")]
pub mod timeouts {}

#[doc = include_str!("../guide/ending.md")]
pub mod ending {}

#[doc = include_str!("../guide/testing.md")]
pub mod testing {}

#[doc = include_str!("../guide/operating.md")]
pub mod operating {}

#[doc = include_str!("../guide/metrics.md")]
pub mod metrics {}

#[doc = include_str!("../guide/settings.md")]
pub mod settings {}

#[doc = include_str!("../guide/errors.md")]
pub mod errors {}

#[doc = include_str!("../guide/faq.md")]
pub mod faq {}

#[doc = include_str!("../guide/compatibility.md")]
pub mod compatibility {}

#[doc = include_str!("../guide/peers.md")]
pub mod peers {}
