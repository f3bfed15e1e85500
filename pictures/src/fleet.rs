//! The fleet that is shown: locks on a real ZooKeeper that Curator, kazoo and commands of ours hold and wait for. Two
//! of these commands wait for each other.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lockkeeper_faults::hosts::Hosts;
use lockkeeper_faults::peers::{Kind, Peer, curator, kazoo};
use lockkeeper_faults::process::Process;
use lockkeeper_faults::{Error, Result, wait, zookeeper};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Where the fleet finds its service: an address of this machine alone, under the usual port.
const SERVICE_AT: &str = "127.0.2.1:2181";
const SERVICE: &str = "zk-1:2181";

/// The machines, by addresses that are kept for documentation.
const MACHINES: &[(&str, &str)] = &[("127.0.2.1", "zk-1"), ("192.0.2.17", "app-7"), ("192.0.2.24", "app-4")];

/// How long anything may take, on a machine with other work to do.
const SOON: Duration = Duration::from_secs(60);

/// How long a peer may wait for its turn: longer than all pictures take.
const TURN_WITHIN: Duration = Duration::from_secs(600);

const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// What our commands do: nothing, until they are ended.
const STAY: &str = "exec sleep 3600";

/// Who holds and who waits, in the order in which they join: host, options with the lock, program.
const OURS: &[(&str, &[&str], &str)] = &[
    ("web-3", &["nightly-backup"], "backup.sh"),
    ("web-5", &["reports/daily", "--permits", "3"], "report.sh"),
    ("web-6", &["reports/daily", "--permits", "3"], "report.sh"),
    ("web-3", &["search-index", "--shared"], "search.sh"),
    ("web-4", &["search-index", "--shared"], "search.sh"),
    ("web-2", &["search-index"], "reindex.sh"),
    ("web-4", &["search-index", "--shared"], "search.sh"),
    ("web-1", &["certificates/renew"], "renew.sh"),
    ("web-6", &["cache/warm-eu"], "warm.sh"),
    ("web-2", &["mail/outbox"], "send.sh"),
    ("web-5", &["mail/outbox"], "send.sh"),
];

/// Those that join behind the peers.
const LATER: &[(&str, &[&str], &str)] =
    &[("web-5", &["nightly-backup"], "backup.sh"), ("web-6", &["nightly-backup"], "prune.sh")];

/// Two commands that take one lock each and then want the other's.
const CROSSED: [(&str, &str, &str, &str); 2] = [
    ("web-1", "billing/close", "close-month.sh", "ledger/post"),
    ("web-2", "ledger/post", "post-ledger.sh", "billing/close"),
];

/// A staged fleet; dropping it ends all of it.
pub(crate) struct Fleet {
    command: PathBuf,
    hosts: Hosts,
    folder: TempDir,
    processes: Vec<Process>,
    waiting: Vec<JoinHandle<()>>,
    forwarding: JoinHandle<()>,
    _server: zookeeper::Server,
}

impl Fleet {
    /// Stages it; `command` is a build of ours.
    pub(crate) async fn stage(command: &Path) -> Result<Self> {
        let server = zookeeper::Server::standalone(zookeeper::Setup::new()).await?;
        let forwarding = forward(server.address().to_string()).await?;
        let folder = TempDir::new().map_err(Error::io("a temporary folder"))?;
        let (hosts, command) = (Hosts::new(MACHINES)?, command.to_owned());
        let (processes, waiting) = (Vec::new(), Vec::new());
        let mut fleet = Self { command, hosts, folder, processes, waiting, forwarding, _server: server };
        for (host, lock, program, waits) in CROSSED {
            let text = format!("{}\nexec \"$LOCKKEEPER\" run -q {waits} -- post.sh", fleet.until_go());
            fleet.run(host, &[lock], program, &text)?;
            fleet.until_contenders(lock, 1).await?;
        }
        fs::write(fleet.go(), "").map_err(Error::io("a note"))?;
        for (_, lock, ..) in CROSSED {
            fleet.until_contenders(lock, 2).await?;
        }
        fleet.join_all(OURS).await?;
        fleet.join_peers().await?;
        fleet.join_all(LATER).await?;
        fleet.freeze().await?;
        Ok(fleet)
    }

    /// A note for the commands that wait for each other.
    fn go(&self) -> PathBuf {
        self.folder.path().join("go")
    }

    fn until_go(&self) -> String {
        format!("while [ ! -e {} ]; do sleep 0.05; done", self.go().display())
    }

    async fn join_all(&mut self, all: &[(&str, &[&str], &str)]) -> Result<()> {
        for (host, options, program) in all {
            let lock = options[0];
            let before = self.contenders(lock)?;
            self.run(host, options, program, STAY)?;
            self.until_contenders(lock, before + 1).await?;
        }
        Ok(())
    }

    /// Curator, kazoo by its own name and by its program's.
    async fn join_peers(&mut self) -> Result<()> {
        let (lock, path) = ("nightly-backup", "/lockkeeper/nightly-backup");
        let curator = curator::start_on(&self.hosts, "app-7", SERVICE, SESSION_TIMEOUT).await?;
        let kazoo = kazoo::start_on(&self.hosts, "app-4", "exports@app-4", SERVICE, SESSION_TIMEOUT).await?;
        for (peer, kind) in [(curator, Kind::Mutex), (kazoo, Kind::CuratorNamedMutex)] {
            let before = self.contenders(lock)?;
            self.waiting.push(tokio::spawn(wait_for_turn(peer, kind, path)));
            self.until_contenders(lock, before + 1).await?;
        }
        let mut holder = curator::start_on(&self.hosts, "app-7", SERVICE, SESSION_TIMEOUT).await?;
        holder.lock(Kind::OwnedMutex, "/lockkeeper/invoices", TURN_WITHIN).await?;
        self.waiting.push(tokio::spawn(async move {
            let _holds = holder;
            std::future::pending::<()>().await;
        }));
        self.join_all(&[("web-4", &["invoices"], "invoice.sh")]).await
    }

    async fn freeze(&mut self) -> Result<()> {
        let freeze = ["freeze", "deploy/web", "--reason", "database move until 18:00"];
        said("our command", self.order("web-1", &freeze)?)?;
        self.join_all(&[("web-3", &["deploy/web"], "deploy.sh")]).await
    }

    /// Starts `run OPTIONS -- PROGRAM` on a host; the program has this text.
    fn run(&mut self, host: &str, options: &[&str], program: &str, text: &str) -> Result<()> {
        self.program("post.sh", STAY)?;
        self.program(program, text)?;
        let arguments = [&["run", "-q"], options, &["--", program]].concat();
        let mut command = self.order(host, &arguments)?;
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.processes.push(Process::start(command)?);
        Ok(())
    }

    /// Writes a program into a folder in which commands look for theirs.
    fn program(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.path().join(name);
        if path.exists() {
            return Ok(());
        }
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).map_err(Error::io(path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(Error::io(path.display()))
    }

    /// Our command on a host, with the fleet's service.
    pub(crate) fn order(&self, host: &str, arguments: &[&str]) -> Result<Command> {
        let mut command = self.hosts.command(host, &self.command);
        command.args(arguments);
        self.surround(&mut command)?;
        Ok(command)
    }

    /// Any program on a host, in the surroundings of ours.
    pub(crate) fn program_on(&self, host: &str, program: &str) -> Result<Command> {
        let mut command = self.hosts.command(host, program);
        self.surround(&mut command)?;
        Ok(command)
    }

    fn surround(&self, command: &mut Command) -> Result<()> {
        let path = std::env::var("PATH").map_err(|error| Error::new(format!("PATH: {error}")))?;
        command.env_clear().env("PATH", format!("{}:{path}", self.folder.path().display()));
        command.env("HOME", self.folder.path()).env("LOCKKEEPER_URL", format!("zk://{SERVICE}"));
        command.env("LOCKKEEPER", &self.command);
        Ok(())
    }

    pub(crate) fn command(&self) -> &Path {
        &self.command
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How many stand in a queue.
    fn contenders(&self, lock: &str) -> Result<usize> {
        let shown = said("our command", self.order("web-1", &["show", "--json", lock])?)?;
        let shown: Value = serde_json::from_str(&shown).map_err(|error| Error::new(format!("{error}: {shown}")))?;
        Ok(shown["contenders"].as_array().map_or(0, Vec::len))
    }

    async fn until_contenders(&self, lock: &str, count: usize) -> Result<()> {
        let stand = async || self.contenders(lock).is_ok_and(|found| found == count).then_some(());
        wait::until(&format!("{count} contenders of {lock}"), SOON, stand).await
    }

    /// Starts a monitor of the fleet; returns it and where its page is.
    pub(crate) fn monitor(&self) -> Result<(Process, String)> {
        let mut command = self.order("web-1", &["monitor", "--listen", "127.0.0.1:0"])?;
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut monitor = Process::start(command)?;
        let said = monitor.take_stderr().ok_or_else(|| Error::new("the monitor says nothing"))?;
        let mut said = BufReader::new(said);
        let mut line = String::new();
        said.read_line(&mut line).map_err(Error::io("the monitor"))?;
        // What it says later must not fill the pipe.
        thread::spawn(move || said.lines().map_while(std::result::Result::ok).for_each(drop));
        let at = line.trim_end().rsplit_once(", at ").map(|(_, at)| at.to_owned());
        Ok((monitor, at.ok_or_else(|| Error::new(format!("the monitor said {line:?}")))?))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.waiting.iter().for_each(JoinHandle::abort);
        self.forwarding.abort();
    }
}

/// Runs a command to its end; answers what it says.
pub(crate) fn said(name: &str, mut command: Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(name))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Error::new(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)))),
    }
}

async fn wait_for_turn(mut peer: Peer, kind: Kind, path: &str) {
    // It is ended while it waits.
    let _ = peer.lock(kind, path, TURN_WITHIN).await;
}

/// Passes connections to the address of the fleet's service on to its server.
async fn forward(server: String) -> Result<JoinHandle<()>> {
    let listener = TcpListener::bind(SERVICE_AT).await.map_err(Error::io(SERVICE_AT))?;
    let server: Arc<str> = server.into();
    Ok(tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let server = Arc::clone(&server);
            tokio::spawn(async move {
                if let Ok(mut server) = TcpStream::connect(&*server).await {
                    // Either side may end it.
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    }))
}
