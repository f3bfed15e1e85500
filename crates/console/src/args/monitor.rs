//! The options of `monitor`.

use std::path::PathBuf;

use clap::Args;

use crate::config::Listen;

/// Serve what is known of all locks, by HTTP
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockkeeper monitor
  lockkeeper monitor --listen 127.0.0.1:9142 --lock-metrics 'nightly-*' --connect zk://zk1:2181

  http://127.0.0.1:9142/                          the page, for a browser
  curl http://127.0.0.1:9142/api/locks            holders, and how many wait
  curl http://127.0.0.1:9142/api/locks/NAME       one lock with its queue
  curl http://127.0.0.1:9142/api/events           what has happened
  curl http://127.0.0.1:9142/api/deadlocks        who waits for whom
  curl http://127.0.0.1:9142/metrics              for Prometheus
  curl http://127.0.0.1:9142/healthz              503 while the service cannot be asked

  lockkeeper monitor --operate --operate-token-file /etc/lockkeeper/operate-token

It takes part in no lock. It changes nothing, unless it is started with --operate: then those who have the token may \
revoke, break, freeze and thaw locks, on the page and by programs. TERM stops it.")]
pub struct MonitorArgs {
    /// Where to listen, as in 127.0.0.1:9142, which is the default, localhost:9142 or 9142; port 0 is any free one
    #[arg(long, value_name = "ADDR", value_parser = Listen::parse, default_value = "127.0.0.1:9142")]
    pub listen: Listen,
    /// A lock beside those of the service's base, as in --also /kazoo/locks/nightly; may be given several times
    #[arg(long, value_name = "NAME")]
    pub also: Vec<String>,
    /// Locks whose metrics have their names, as in --lock-metrics 'nightly-*'; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub lock_metrics: Vec<String>,
    /// A file that keeps the alerts over a restart, so that none is told twice; of this monitor alone
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Carry out orders of those who have the token: revoke, break, freeze, thaw; beyond loopback only with TLS
    #[arg(long)]
    pub operate: bool,
    /// A file with the token, which its owner alone can read; without it, LOCKKEEPER_OPERATE_TOKEN has the token
    #[arg(long, value_name = "FILE", requires = "operate")]
    pub operate_token_file: Option<PathBuf>,
    /// Where a proxy has the page for browsers, with its scheme: requests for this host are answered too
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
}
