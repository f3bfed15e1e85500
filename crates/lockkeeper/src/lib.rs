//! Distributed locks: one fair queue with fencing tokens on every service.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockkeeper::Error> {
//! let keeper = lockkeeper::connect("memory:")?; // or "file:", or "zk://h1:2181,h2:2181"
//! let guard = keeper.mutex("nightly-backup")?.lock().await?;
//! println!("ours, with token {}", guard.fencing_token());
//! guard.release().await?;
//! keeper.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! - First come, first served, across tasks, processes and, where the service spans them, machines.
//! - A [`FencingToken`] with each grant is greater than all before it: [fencing](guide::fencing).
//! - A [`Hold`] says until when the lock may be believed to be held: [losing a lock](guide::losing_a_lock).
//! - Futures and guards may be dropped at any point. No contender is left behind.
//!
//! [The guide](guide) begins with [a first lock](guide::start). [`guide::production`] has a whole service.
//!
//! # Services
//!
//! The URL chooses the service, never which feature is on. [`Keeper::capabilities`] says what it promises.
//!
//! | URL | feature | guide |
//! | --- | --- | --- |
//! | `file:DIRECTORY`, or `file:` for the default directory | `file` (default), on Linux | [`guide::files`] |
//! | `zk://HOST[:PORT],…[/CHROOT]` | `zookeeper` (default) | [`guide::zookeeper`] |
//! | `etcd://HOST[:PORT],…[/BASE]` | `etcd` | [`guide::etcd`] |
//! | `postgres://[USER@]HOST[:PORT],…/DATABASE` | `postgres` | [`guide::postgresql`] |
//! | `mariadb://[USER@]HOST[:PORT],…`, `mysql://…` | `mysql` | [`guide::mariadb`] |
//! | `redis://HOST[:PORT],…[/DATABASE]`, `redis+sentinel://…/MASTER` | `redis` | [`guide::redis`] |
//! | `memory:` | | [`guide::memory`] |
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `tls` | the schemes with `+tls`, of each service |
//! | `deadpool-postgres` | locks over a [`pool`] of deadpool; the crate `lockkeeper-sqlx` has one of sqlx |
//! | `fence-postgres`, `fence-mysql` | [`fence::sql::bind`] in transactions of tokio-postgres and mysql_async |
//! | `http` | a `tower` layer that refuses overtaken holders, in [`fence`] |
//! | `history` | a file of grants and their ends, which `lockkeeper verify` judges |
//! | `metrics` | metrics of waits, holds and sessions: [`guide::metrics`] |
//! | `serde` | `Serialize` and `Deserialize` for [`ServiceUrl`] and [`FencingToken`]; `Serialize` for what is shown |
//! | `full` | all of these, and all services |
//!
//! # What there is
//!
//! | | |
//! | --- | --- |
//! | [`Mutex`], [`RwLock`], [`Semaphore`] | one at a time; readers or a writer; a given number at a time |
//! | [`MultiLock`] | several of them, all or none |
//! | [`OwnerKey`] | locking again what the owner holds; nested [`Mutex::run`] closures do that too |
//! | [`Waiting`] | a place in line whose position can be asked for |
//! | [`election`] | one leader: an election, a latch, a selector |
//! | [`once`] | a job that runs once for each hour, day or version |
//! | [`barrier`] | waiting until a way is open; starting and ending together |
//! | [`counter`] | one small value or number, compared and set |
//! | [`fence`] | resources that refuse a holder which was overtaken, by its token |
//! | [`blocking`] | locks, elections, barriers and counters for threads, in programs without a runtime |
//! | [`backend`], [`testing`] | services of one's own; a service whose faults a test chooses |
//!
//! # Ending a program
//!
//! [`Keeper::close`] ends the session and reports whether the service has confirmed it. Call it last, and before
//! `std::process::exit`. Without it the locks pass on at once if `main` returns or panics with its tokio runtime, and
//! after the session timeout if the process is killed; on files always at once. [`guide::ending`] has all cases.
//!
//! # Stopping what waits
//!
//! Drop the future, by `tokio::select!`, `tokio::time::timeout` or the end of its task. Work within [`Mutex::run`] is
//! dropped with it, and the lock is given back. [`Mutex::lock_timeout`] and [`Mutex::run_timeout`] answer `None` when
//! the time is over. In [`blocking`] nothing interrupts a thread: give the wait a timeout, or close the keeper, which
//! ends all of its waits with [`ErrorKind::Closed`]. This replaces Java's `Thread.interrupt()`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockkeeper::Error> {
//! # let keeper = lockkeeper::connect("memory:")?;
//! # let stopped = async { tokio::task::yield_now().await };
//! let report = keeper.mutex("report")?;
//! # let busy = report.lock().await?;
//! tokio::select! {
//!     written = report.run(|_hold| async { "written" }) => println!("{}", written?),
//!     () = stopped => println!("not now; the queue is left"),
//! }
//! # drop(busy);
//! # Ok(())
//! # }
//! ```
//!
//! # Passwords
//!
//! In a URL, a password's `/`, `?` and `@` are percent-encoded; the URL is never shown with it. Credentials that are
//! kept apart from the URL need no escapes: see [`builder`].

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::exhaustive_enums, unnameable_types)]

pub mod blocking;
pub mod fence;
pub mod guide;
#[cfg(feature = "history")]
pub mod history;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "postgres")]
pub mod pool;
mod settings;

use std::sync::{Arc, LazyLock};

use lockkeeper_core::clock::RuntimeClock;
use lockkeeper_core::url::invalid;
use lockkeeper_recipes::memory::MemoryService;

pub use lockkeeper_core::clock;
pub use lockkeeper_core::{
    Advice, Answers, Capabilities, ContenderId, ContenderInfo, Error, ErrorKind, Exclusion, Fencing, FencingToken,
    Finding, Liveness, LossReason, Mode, Modes, NAME_BYTES_MAX, NamePattern, Operation, Owner, ParseTokenError,
    QueueName, Remnant, RemnantKind, Removal, Requirement, Result, Revocation, SafeUntil, Scrutiny, ServiceUrl,
    SessionTimeout, Severity, StoppedHolder, UNUSED_FOR, UrlBuilder, Wait, parse_duration, parse_duration_with_unit,
};
pub use lockkeeper_recipes::{
    Admin, Changes, Event, Guard, Handoff, Hold, Keeper, KeeperBuilder, LockKind, Member, MultiGuard, MultiLock, Mutex,
    MutexGuard, Observer, OwnContender, OwnerKey, Permit, Permits, ReadGuard, Reentrant, ReleaseReason, RwLock,
    Semaphore, Waiting, WriteGuard, kind,
};
pub use lockkeeper_recipes::{once, retry};
#[doc(hidden)]
pub use settings::settings_in_force;

/// Following all locks of a service.
pub mod follow {
    pub use lockkeeper_core::{
        FollowEvent, Follower, Following, LockSnapshot, PassedBetween, Picture, Scope, SilentSession,
    };
}

/// One leader at a time.
pub mod election {
    pub use lockkeeper_recipes::{
        CloseMode, Election, LatchChanges, LatchEvent, LeaderChanges, LeaderLatch, LeaderSelector, Leadership, Requeue,
        WorkError,
    };
}

/// Waiting until a way is open; starting and ending together.
pub mod barrier {
    pub use lockkeeper_recipes::{Barrier, DoubleBarrier, Entered, MEMBERS_MAX};
}

/// One small value or number, compared and set.
pub mod counter {
    pub use lockkeeper_core::{VALUE_BYTES_MAX, Value, ValueVersion};
    pub use lockkeeper_recipes::{Count, SharedCounter, SharedValue};
}

/// What [`Keeper::new`] takes, and what the author of a backend needs: the waist, and the decision above it.
///
/// The file `examples/toy_backend.rs` of the crate `lockkeeper-conformance` is a whole backend in three hundred lines
/// that passes that crate's suite. A new one can start from it.
pub mod backend {
    pub use lockkeeper_core::{
        AdminBackend, Backend, BoxFuture, Caller, ConnectionNumber, Contender, Departure, ENTRIES_MAX, Enqueued, Entry,
        Expected, Extent, Flow, FlowKind, Freshness, Lifetime, LivenessAt, MutexRole, Openable, Opener, Part,
        ProcessId, QueueView, Rank, Request, Session, SessionBond, SessionMeter, Standing, Ticket, TicketHead, Values,
        Withdrawal,
    };
    pub use lockkeeper_recipes::decide;
}

/// A service within the process whose faults a test chooses, and what the metrics of a lock cost.
pub mod testing {
    pub use lockkeeper_core::clock::TestClock;
    pub use lockkeeper_recipes::memory::{MemoryService, Testing};
    #[cfg(feature = "metrics")]
    pub use lockkeeper_recipes::meter::Records;
}

/// The one memory service of this process, for every `memory:` URL.
static MEMORY: LazyLock<MemoryService> = LazyLock::new(|| MemoryService::new(Arc::new(RuntimeClock::new())));

/// Opens a way to the service that `url` names.
///
/// Nothing is sent yet: if the service cannot be reached, the first lock fails.
///
/// # Errors
///
/// [`ErrorKind::InvalidUrl`] for a URL that cannot be used, [`ErrorKind::Unsupported`] for a service that is not
/// compiled in or not for this system, and the reasons on this machine: a directory that may not be written
/// ([`ErrorKind::Refused`]), or a file of certificates that cannot be used ([`ErrorKind::InvalidConfig`]).
pub fn connect(url: impl TryInto<ServiceUrl, Error: Into<Error>>) -> Result<Keeper> {
    builder(url).map(KeeperBuilder::build)
}

/// Starts a keeper for the service that `url` names, with other settings. Its errors are those of [`connect`].
///
/// ```
/// use lockkeeper::retry::RetryPolicy;
///
/// let keeper = lockkeeper::builder("memory:")?.retry(RetryPolicy::none()).build();
/// # let _ = keeper;
/// # Ok::<(), lockkeeper::Error>(())
/// ```
///
/// A URL that was parsed before may have got [defaults](ServiceUrl::with_default) from elsewhere, or credentials that
/// are kept apart from it:
///
/// ```no_run
/// use lockkeeper::ServiceUrl;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let password = std::fs::read_to_string("/run/secrets/zookeeper")?;
/// let url = ServiceUrl::parse("zk://h1,h2,h3")?.with_user("ann").with_password(password.trim_end());
/// let keeper = lockkeeper::builder(&url)?.build();
/// # let _ = keeper;
/// # Ok(())
/// # }
/// ```
pub fn builder(url: impl TryInto<ServiceUrl, Error: Into<Error>>) -> Result<KeeperBuilder> {
    let url = url.try_into().map_err(Into::into)?;
    match url.scheme() {
        "memory" => memory_service(&url),
        #[cfg(all(feature = "file", target_os = "linux"))]
        "file" => file(&url),
        #[cfg(feature = "zookeeper")]
        "zk" | "zk+tls" => Ok(Keeper::builder(Arc::new(lockkeeper_zookeeper::ZooKeeperBackend::open(&url)?))),
        #[cfg(feature = "etcd")]
        "etcd" | "etcd+tls" => Ok(Keeper::builder(Arc::new(lockkeeper_etcd::EtcdBackend::open(&url)?))),
        #[cfg(feature = "redis")]
        "redis" | "redis+tls" | "redis+sentinel" | "redis+sentinel+tls" => {
            Ok(Keeper::builder(Arc::new(lockkeeper_redis::RedisBackend::open(&url)?)))
        }
        #[cfg(feature = "postgres")]
        "postgres" | "postgres+tls" => Ok(Keeper::builder(Arc::new(lockkeeper_sql::SqlBackend::open(&url)?))),
        #[cfg(feature = "mysql")]
        "mariadb" | "mariadb+tls" | "mysql" | "mysql+tls" => {
            Ok(Keeper::builder(Arc::new(lockkeeper_sql::SqlBackend::open(&url)?)))
        }
        scheme => Err(not_served(scheme)),
    }
}

/// Why there is no service of this scheme.
fn not_served(scheme: &str) -> Error {
    let feature = match scheme {
        "file" if cfg!(not(target_os = "linux")) => return no_files(),
        "file" => "file",
        "zk" | "zk+tls" => "zookeeper",
        "etcd" | "etcd+tls" => "etcd",
        "redis" | "redis+tls" | "redis+sentinel" | "redis+sentinel+tls" => "redis",
        "postgres" | "postgres+tls" => "postgres",
        "mariadb" | "mariadb+tls" | "mysql" | "mysql+tls" => "mysql",
        other => return unknown(other),
    };
    let features = match scheme.ends_with("+tls") {
        true => format!("features `{feature}` and `tls`"),
        false => format!("feature `{feature}`"),
    };
    let message = format!("`{scheme}:` needs the {features} of the crate `lockkeeper`");
    Error::permanent(ErrorKind::Unsupported, Operation::Configure, message)
}

/// Why there are no files elsewhere.
fn no_files() -> Error {
    let message = "`file:` is for Linux alone, whose pipes and inotify it needs; on this system take `zk:`, `etcd:`, \
                   `redis:`, `postgres:`, `mariadb:` or `mysql:`, or `memory:` within one process";
    Error::permanent(ErrorKind::Unsupported, Operation::Configure, message)
}

/// Why there is no service of a scheme that is none of ours: many are known from other clients.
fn unknown(scheme: &str) -> Error {
    let is = match scheme.split('+').next().unwrap_or(scheme) {
        "http" => "no service of locks; an etcd is `etcd://HOST:2379`",
        "https" => "no service of locks; an etcd with TLS is `etcd+tls://HOST:2379`",
        "sqlite" => "for one machine, which `file:DIRECTORY` serves without timeouts and without polling",
        "jdbc" | "r2dbc" => "to be left out",
        "unix" | "redis-socket" => "not known; a Unix socket is a host, as in `redis://%2Frun%2Fredis.sock`",
        "redis" if scheme == "redis+unix" => "not known; a Unix socket is a host, as in `redis://%2Frun%2Fredis.sock`",
        "redis-sentinel" | "sentinel" => "called `redis+sentinel://HOST/MASTER` here",
        "postgres" => "called `postgres:` here, or `postgres+tls:`",
        "mysql" | "mariadb" => "called `mysql:` or `mariadb:` here, with `+tls` or without",
        "redis" => "called `redis:` here, `redis+tls:` or `redis+sentinel:`",
        _ => "no service; there are `file:`, `memory:`, `zk:`, `etcd:`, `redis:`, `postgres:`, `mariadb:` and `mysql:`",
    };
    invalid(format!("`{scheme}:` is {is}"))
}

fn memory_service(url: &ServiceUrl) -> Result<KeeperBuilder> {
    url.refuse_unknown_keys(&[])?;
    if !url.hosts().is_empty() || !url.path().is_empty() {
        return Err(invalid(format!("`{url}` should be just `memory:`")));
    }
    Ok(MEMORY.keeper_builder())
}

#[cfg(all(feature = "file", target_os = "linux"))]
pub use lockkeeper_file::{end_place, lifeline};

#[cfg(all(feature = "file", target_os = "linux"))]
fn file(url: &ServiceUrl) -> Result<KeeperBuilder> {
    url.refuse_unknown_keys(&[])?;
    if !url.hosts().is_empty() {
        let cure = "write `file:/path`, `file:path` or `file:`";
        return Err(invalid(format!("`{url}` names no directory of this machine; {cure}")));
    }
    let directory = match url.path() {
        "" => lockkeeper_file::default_directory(std::env::var_os("LOCKKEEPER_DIR").as_deref())?,
        path => path.into(),
    };
    let backend = lockkeeper_file::FileBackend::open(&directory, Arc::new(clock::SystemClock))?;
    Ok(Keeper::builder(Arc::new(backend)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(feature = "file", feature = "zookeeper"))]
    fn a_url_that_cannot_be_used_is_refused_with_what_could_be() {
        for (url, word) in [
            ("redis2://h", "`zk:`, `etcd:`, `redis:`"),
            ("http://h1:2379", "`etcd://HOST:2379`"),
            ("https://h1:2379", "`etcd+tls://HOST:2379`"),
            ("redis+unix:///run/redis.sock", "`redis://%2Frun%2Fredis.sock`"),
            ("redis-sentinel://h1/main", "`redis+sentinel://HOST/MASTER`"),
            ("postgresql+asyncpg://h1/app", "`postgres:`"),
            ("mysql+pymysql://h1/app", "`mysql:`"),
            ("jdbc:postgresql://h1/app", "left out"),
            ("file://host/x", "directory"),
            ("file:x?base=y", "`base`"),
            ("zk:", "server"),
            ("zk://h?sesion_timeout=3s", "`sesion_timeout`"),
            ("memory:x", "`memory:`"),
            ("zk://ann:1234/Sc0tt@h", "%40"),
            ("zk://h1;h2", "`;`"),
            ("memory:?a=b", "`a`"),
            ("sqlite:/var/lib/app.db", "`file:DIRECTORY`"),
            ("/var/lib/lockkeeper", "scheme"),
        ] {
            let error = connect(url).expect_err(url);
            assert_eq!(error.advice(), Advice::Permanent, "{url}");
            let told = format!("{error:#}");
            assert!(told.contains(word) && told.len() <= 200, "{url}: {told}");
        }
    }

    #[test]
    fn a_service_that_is_not_compiled_in_names_its_feature() {
        for (url, feature, is_compiled_in) in [
            ("zk://h1", "zookeeper", cfg!(feature = "zookeeper")),
            ("etcd://h1,h2/app", "etcd", cfg!(feature = "etcd")),
            ("redis://h1,h2/1", "redis", cfg!(feature = "redis")),
            ("redis+sentinel://h1,h2/main", "redis", cfg!(feature = "redis")),
            ("postgres://h1/app", "postgres", cfg!(feature = "postgres")),
            ("mysql://h1", "mysql", cfg!(feature = "mysql")),
            ("mariadb://h1", "mysql", cfg!(feature = "mysql")),
        ] {
            match connect(url) {
                Ok(keeper) => assert!(is_compiled_in && keeper.capabilities().backend == feature, "{url}"),
                Err(error) => {
                    assert_eq!((error.kind(), error.advice()), (ErrorKind::Unsupported, Advice::Permanent));
                    assert!(!is_compiled_in && error.to_string().contains(&format!("feature `{feature}`")), "{error}");
                }
            }
        }
    }

    #[test]
    fn where_there_are_no_files_the_services_to_take_are_named() {
        let error = no_files();
        assert_eq!((error.kind(), error.advice()), (ErrorKind::Unsupported, Advice::Permanent));
        let told = format!("{error:#}");
        let is_named = ["`zk:`", "`postgres:`", "`memory:`"].iter().all(|url| told.contains(url));
        assert!(is_named && told.len() <= 200, "{told}");
    }

    #[test]
    fn tls_reads_its_files_when_the_service_is_opened_if_it_is_compiled_in() {
        for (scheme, feature, is_compiled_in) in [
            ("zk+tls", "zookeeper", cfg!(feature = "zookeeper")),
            ("etcd+tls", "etcd", cfg!(feature = "etcd")),
            ("redis+tls", "redis", cfg!(feature = "redis")),
            ("postgres+tls", "postgres", cfg!(feature = "postgres")),
            ("mysql+tls", "mysql", cfg!(feature = "mysql")),
            ("mariadb+tls", "mysql", cfg!(feature = "mysql")),
        ] {
            let error = connect(format!("{scheme}://h1?ca=/no/such/file").as_str()).unwrap_err();
            let (told, kind) = (format!("{error:#}"), error.kind());
            assert_eq!(error.advice(), Advice::Permanent, "{told}");
            match (is_compiled_in, cfg!(feature = "tls")) {
                (true, true) => assert!(kind == ErrorKind::InvalidConfig && told.contains("/no/such/file"), "{told}"),
                (true, false) => assert!(kind == ErrorKind::Unsupported && told.contains("feature `tls`"), "{told}"),
                (false, _) => assert!(told.contains(&format!("features `{feature}` and `tls`")), "{told}"),
            }
        }
    }

    #[test]
    fn a_url_is_checked_when_its_service_is_opened() {
        for url in [
            "zk://h1?session_timeout=10ms",
            "etcd://h1?session_timeout=1s",
            "redis+sentinel://h1",
            "postgres://h1?session_timeout=1s",
            "mysql://h1?schema=No",
        ] {
            let error = connect(url).unwrap_err();
            assert_eq!(error.advice(), Advice::Permanent, "{url}: {error}");
            assert!([ErrorKind::InvalidUrl, ErrorKind::Unsupported].contains(&error.kind()), "{url}: {error}");
        }
    }

    #[tokio::test]
    async fn every_memory_url_of_a_process_means_the_same_service() {
        let (one, other) = (connect("memory:").unwrap(), connect("memory:").unwrap());
        let guard = one.mutex("shared").unwrap().lock().await.unwrap();
        assert!(other.mutex("shared").unwrap().try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
        assert!(other.mutex("shared").unwrap().try_lock().await.unwrap().is_some());
    }
}
