//! The options of `server`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::config::{Listen, ServerSettings, Size, Words};

/// Run a ZooKeeper server for this machine
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockkeeper server --data-dir /srv/zookeeper
  lockkeeper server --listen localhost:2181 --listen 10.0.0.5:2181 --data-dir /srv/zookeeper

It speaks ZooKeeper's client protocol, for Lockkeeper, Curator, kazoo and others, on one machine; for more than one \
machine, run Apache ZooKeeper. TERM stops it in order.

Options that are not given are taken from [server] in the config file, where they have the same names with _ for -. \
LOCKKEEPER_SUPER_PASSWORD, or the file of --super-password-file, has the password of the user `super`, who may do \
everything; without it there is no such user.")]
pub(crate) struct ServerArgs {
    /// Where to listen, as in 127.0.0.1:2181, which is the default, localhost:2181 or 2181; may be given several times;
    /// port 0 is any free one
    #[arg(long, value_name = "ADDR", value_parser = Listen::parse)]
    listen: Vec<Listen>,
    /// Where to keep the data; without it, in memory until the end
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// In which steps sessions expire, by default 2s, as in 500ms
    #[arg(long, value_name = "DUR", value_parser = lockkeeper::parse_duration)]
    tick: Option<Duration>,
    /// The shortest session timeout that is granted, by default 2 ticks; a client that asks for less gets this
    #[arg(long, value_name = "DUR", value_parser = lockkeeper::parse_duration)]
    session_timeout_min: Option<Duration>,
    /// The longest session timeout that is granted, by default 20 ticks: so long may a dead client hold a lock
    #[arg(long, value_name = "DUR", value_parser = lockkeeper::parse_duration)]
    session_timeout_max: Option<Duration>,
    /// How often empty containers and nodes whose time to live is over are looked for and removed, by default 1m
    #[arg(long, value_name = "DUR", value_parser = lockkeeper::parse_duration)]
    container_check: Option<Duration>,
    /// The largest request, by default 1MiB; a connection that sends a larger one is closed
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    frame_max: Option<Size>,
    /// How much memory the server may take, by default 2GiB: all limits on nodes, watches, sessions, connections,
    /// requests and answers that are not read follow from it
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    memory: Option<Size>,
    /// How much of it nodes and their data may take, by default half; what would exceed it is refused as a quota is
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    tree_max: Option<Size>,
    /// How many connections one address may have, by default 60; further ones are closed at once; 0 is no limit
    #[arg(long, value_name = "COUNT")]
    max_connections_per_ip: Option<usize>,
    /// Which four-letter words are answered, by default srvr,ruok,mntr,stat,isro; * is all of them
    #[arg(long, value_name = "LIST", value_parser = Words::parse)]
    words: Option<Words>,
    /// A file with the password of the user `super`, which no other user may read
    #[arg(long, value_name = "FILE")]
    super_password_file: Option<PathBuf>,
    /// The server's certificate, followed by its chain, in PEM form: with it, clients are served over TLS only
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The key of that certificate, without a password, in PEM form, which no other user may read
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// The authorities in PEM form that clients' certificates must be of; without it, clients need none
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Where to serve metrics to Prometheus, by HTTP at /metrics, as in 127.0.0.1:9141 or 9141
    #[arg(long, value_name = "ADDR", value_parser = Listen::parse)]
    metrics: Option<Listen>,
}

impl From<ServerArgs> for ServerSettings {
    fn from(args: ServerArgs) -> Self {
        let ServerArgs { listen, data_dir, tick, session_timeout_min, session_timeout_max, .. } = args;
        let ServerArgs { container_check, frame_max, memory, tree_max, max_connections_per_ip, words, .. } = args;
        let ServerArgs { super_password_file, tls_cert, tls_key, tls_ca, metrics, .. } = args;
        Self {
            listen,
            data_dir,
            tick,
            session_timeout_min,
            session_timeout_max,
            container_check,
            frame_max,
            memory,
            tree_max,
            max_connections_per_ip,
            words,
            super_password_file,
            tls_cert,
            tls_key,
            tls_ca,
            metrics,
        }
    }
}
