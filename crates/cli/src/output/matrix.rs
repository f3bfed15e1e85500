//! The promises of each service, also of those that this program was built without, for `capabilities` without a
//! service.

use serde::Serialize;

use super::table;

/// A column of the table, by its title.
type Column = (&'static str, fn(&MatrixRow) -> &'static str);

/// What one service promises, in words that a reader can compare.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MatrixRow {
    service: &'static str,
    url: &'static str,
    /// Whether this program can use it; else `feature` says what its build lacked.
    is_compiled_in: bool,
    feature: Option<&'static str>,
    reaches: &'static str,
    exclusion: &'static str,
    order: &'static str,
    reentrancy: &'static str,
    shared_locks: &'static str,
    semaphore: &'static str,
    stopped_holder: &'static str,
    release_after_death: &'static str,
    tokens: &'static str,
    tokens_survive: &'static str,
    consistency: &'static str,
    breaks_exclusion: &'static str,
    cost: &'static str,
}

/// All services.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Matrix(Vec<MatrixRow>);

/// What is the same on every service, since every recipe is written once.
const ORDER: &str = "first come, first served";
const REENTRANCY: &str = "by owner keys, within a process";
const YES: &str = "yes";

const MEMORY: MatrixRow = MatrixRow {
    service: "memory",
    url: "memory:",
    is_compiled_in: true,
    feature: None,
    reaches: "one process",
    exclusion: "process",
    order: ORDER,
    reentrancy: REENTRANCY,
    shared_locks: YES,
    semaphore: YES,
    stopped_holder: "keeps",
    release_after_death: "at once, with the process",
    tokens: "process",
    tokens_survive: "nothing: they end with the process",
    consistency: "one queue in memory",
    breaks_exclusion: "nothing within the process",
    cost: "nothing",
};

const FILES: MatrixRow = MatrixRow {
    service: "files",
    url: "file:DIRECTORY",
    reaches: "one machine",
    exclusion: "machine",
    release_after_death: "at once: the kernel closes the holder's pipe",
    tokens: "clock",
    tokens_survive: "reboots; a wiped directory too, unless the clock was set back; not a restored backup",
    consistency: "the kernel's: one lock on the queue's directory, one counter",
    breaks_exclusion: "a directory that is renamed, replaced or deleted while locks are held; a pipe deleted by hand",
    cost: "a directory on a local file system",
    ..MEMORY
};

const ZOOKEEPER: MatrixRow = MatrixRow {
    service: "zookeeper",
    url: "zk://HOST,… or zk+tls://HOST,…",
    reaches: "all machines",
    exclusion: "timed",
    stopped_holder: "expires",
    release_after_death: "within the session timeout + 1.5 ticks + 1 s; a change of leader begins the timeout anew",
    tokens: "service",
    tokens_survive: "restarts and emptied queues; not a loss of the data, and not a restored backup",
    consistency: "writes in one order that a quorum agrees on; looks behind a sync",
    breaks_exclusion: "a tick greater than the URL's, or than half the session timeout if the URL has none; a leader's \
                       ping later than 100 ms; a paused virtual machine without its clock; a node deleted by hand; a \
                       restored backup",
    cost: "three or five servers with a Java runtime",
    ..FILES
};

const SERVER: MatrixRow = MatrixRow {
    service: "lockkeeper server",
    url: "zk://HOST",
    reaches: "all machines that reach the one that it runs on",
    release_after_death: "within the session timeout + 1.5 ticks + 1 s",
    tokens: "clock",
    tokens_survive: "restarts; an emptied directory too, unless the clock was set back",
    consistency: "one server: writes in one order",
    breaks_exclusion: "an end or a crash without --data-dir; a tick greater than the URL's, or than half the session \
                       timeout if the URL has none; a paused virtual machine without its clock; a node deleted by hand",
    cost: "one process; no lock can be had while it is down",
    ..ZOOKEEPER
};

const ETCD: MatrixRow = MatrixRow {
    service: "etcd",
    url: "etcd://HOST,… or etcd+tls://HOST,…; with ?layout=etcdctl mutexes and elections alone",
    release_after_death: "within the session timeout + 1.5 s; a change of leader begins the timeout anew and adds the \
                          time of an election",
    tokens: "clock",
    tokens_survive: "a loss of all data, unless the clock was set back; a restored snapshot after `lockkeeper doctor \
                     --after-restore`",
    consistency: "linearizable: transactions and reads that a quorum agrees on",
    breaks_exclusion: "members before 3.4.31 or 3.5.13, when a leader stands still and goes on; a paused virtual \
                       machine without its clock; a key deleted or a lease revoked by hand; a restored snapshot",
    cost: "three or five servers",
    ..ZOOKEEPER
};

const POSTGRES: MatrixRow = MatrixRow {
    service: "postgres",
    url: "postgres://HOST,…/DATABASE",
    release_after_death: "within 1.25 × the session timeout + 1 s, if another client is there",
    tokens: "clock",
    tokens_survive: "a loss of all data, a failover and a restored backup, unless the server's clock was set back \
                     further than the loss",
    consistency: "one primary: transactions under the lock of the queue's row",
    breaks_exclusion: "a primary that was replaced and still answers; a cold copy put back while no holder is \
                       connected, without `lockkeeper doctor --after-restore`; clocks whose speeds differ by more \
                       than 2 %; a paused virtual machine without its clock; a row deleted by hand",
    cost: "one server, with synchronous standbys more",
    ..ETCD
};

const MYSQL: MatrixRow = MatrixRow {
    service: "mysql",
    url: "mariadb://HOST,… or mysql://HOST,…",
    breaks_exclusion: "a server that was replaced and still answers; a copy put back on the same server while no \
                       holder is connected, without `lockkeeper doctor --after-restore`; clocks whose speeds differ \
                       by more than 2 %; a paused virtual machine without its clock; a row deleted by hand. Tested on \
                       MariaDB; on MySQL it was not",
    cost: "one server, with replicas more",
    ..POSTGRES
};

const REDIS: MatrixRow = MatrixRow {
    service: "redis",
    url: "redis://HOST,… or redis+tls://HOST,… or redis+sentinel://HOST,…/MASTER; with ?layout=setnx \
          mutexes alone",
    exclusion: "best-effort",
    release_after_death: "within the session timeout + a sixth of it, at most 1 s, if another client is there",
    tokens: "clock",
    tokens_survive: "a loss of all data and a failover, unless the new server's clock is behind the last grant",
    consistency: "one server: scripts in one order; replicas hear of it later",
    breaks_exclusion: "a promoted replica that has not heard of a grant; a restart that lost one (all but `appendfsync \
                       always` may); FLUSHALL; eviction by `allkeys-…`; a paused virtual machine without its clock; a \
                       key deleted by hand",
    cost: "one server; with sentinels or as a cluster, three or more",
    ..ETCD
};

impl Matrix {
    /// The services, the one with the least to run first.
    pub(crate) fn of_all_services() -> Self {
        let etcd = MatrixRow { is_compiled_in: cfg!(feature = "etcd"), feature: Some("etcd"), ..ETCD };
        let redis = MatrixRow { is_compiled_in: cfg!(feature = "redis"), feature: Some("redis"), ..REDIS };
        let postgres = MatrixRow { is_compiled_in: cfg!(feature = "postgres"), feature: Some("postgres"), ..POSTGRES };
        let mysql = MatrixRow { is_compiled_in: cfg!(feature = "mysql"), feature: Some("mysql"), ..MYSQL };
        Self(vec![MEMORY, FILES, ZOOKEEPER, SERVER, etcd, postgres, mysql, redis])
    }

    /// Returns them as text: what is brief side by side, and the rest for each service.
    pub(crate) fn text(&self) -> String {
        let brief: [Column; 6] = [
            ("", |row| row.service),
            ("exclusion", |row| row.exclusion),
            ("shared locks", |row| row.shared_locks),
            ("semaphore", |row| row.semaphore),
            ("stopped holder", |row| row.stopped_holder),
            ("tokens", |row| row.tokens),
        ];
        let beside = |(title, cell): &Column| -> Vec<String> {
            std::iter::once((*title).to_owned()).chain(self.0.iter().map(|row| cell(row).to_owned())).collect()
        };
        let mut text = table(&brief.iter().map(beside).collect::<Vec<_>>());
        for row in &self.0 {
            text.push('\n');
            text.push_str(&row.text());
        }
        text.push_str("\nWith --connect URL: what is left of it there, once the service was examined.\n");
        text
    }
}

impl MatrixRow {
    fn text(&self) -> String {
        let lacks = match self.feature {
            Some(feature) if !self.is_compiled_in => format!(" (not in this build: it needs the feature `{feature}`)"),
            _ => String::new(),
        };
        let rows = [
            ("  URL", self.url),
            ("  reaches", self.reaches),
            ("  order", self.order),
            ("  reentrancy", self.reentrancy),
            ("  a dead holder's lock is free", self.release_after_death),
            ("  tokens survive", self.tokens_survive),
            ("  consistency", self.consistency),
            ("  exclusion is broken by", self.breaks_exclusion),
            ("  cost to run", self.cost),
        ];
        let lines = table(&rows.map(|(title, cell)| vec![title.to_owned(), cell.to_owned()]));
        format!("{}{lacks}\n{lines}", self.service)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Promises;
    use super::*;

    fn row(service: &str) -> MatrixRow {
        let Matrix(rows) = Matrix::of_all_services();
        rows.into_iter().find(|row| row.service == service).expect("the service is there")
    }

    #[test]
    fn what_the_matrix_says_of_a_service_is_what_its_backend_says() {
        let directory = tempfile::TempDir::new().unwrap();
        let files = format!("file:{}", directory.path().display());
        let services = [
            ("memory", "memory:", true),
            ("files", &files, true),
            ("zookeeper", "zk://h1", true),
            ("etcd", "etcd://h1", cfg!(feature = "etcd")),
            ("postgres", "postgres://h1/app", cfg!(feature = "postgres")),
            ("mysql", "mariadb://h1", cfg!(feature = "mysql")),
            ("redis", "redis://h1", cfg!(feature = "redis")),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _inside = runtime.enter();
        for (service, url, _) in services.into_iter().filter(|(.., is_compiled_in)| *is_compiled_in) {
            let keeper = lockkeeper::connect(url).unwrap();
            let promises = Promises::new(String::new(), keeper.capabilities(), &[]);
            let row = row(service);
            let said = [row.exclusion, row.tokens, row.stopped_holder];
            assert_eq!(promises.words(), said, "{service}");
        }
    }
}
