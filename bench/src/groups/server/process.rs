//! The two servers as separate processes: Apache with the heap that its own script gives it, and this program again,
//! which then serves.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::process::{self, Process};
use lockkeeper_zk_server::EmbeddedServer;
use tempfile::TempDir;

use crate::load::Outcome;
use crate::load::{Stopwatch, one_thread};

/// Apache and what it needs, as Debian's `libzookeeper-java` installs it.
const CLASS_PATH: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar";
/// After how many transactions Apache takes a snapshot by default.
pub(super) const SNAPSHOT_AFTER: usize = 100_000;
/// Java's heap as ZooKeeper's own start script sets it.
const HEAP: &str = "-Xmx1000m";
/// How long a server may take until it serves.
const SERVING_WITHIN: Duration = Duration::from_secs(120);
/// How long one look may take: a server that is starting can accept a connection and forget it.
const LOOK_WITHIN: Duration = Duration::from_millis(500);
/// How long to wait between two looks whether Apache serves; it takes hundreds of them to start.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(2);

/// A server, its data, and how long it took from its start until it served.
pub(in crate::groups) struct Server {
    pub(in crate::groups) address: SocketAddr,
    pub(super) ready: Duration,
    process: Process,
    data: TempDir,
    /// Apache's; ours takes any.
    port: Option<ReservedPort>,
}

impl Server {
    /// Starts this program as `serve DIRECTORY`, which prints where it listens.
    pub(in crate::groups) fn embedded() -> io::Result<Self> {
        Self::embedded_on(tempfile::tempdir()?)
    }

    fn embedded_on(data: TempDir) -> io::Result<Self> {
        let mut command = process::command(std::env::current_exe()?);
        command.arg("serve").arg(data.path()).stdout(Stdio::piped());
        let watch = Stopwatch::start();
        let mut process = Process::start(command).map_err(io::Error::other)?;
        let mut line = String::new();
        BufReader::new(process.take_stdout().expect("asked to be piped")).read_line(&mut line)?;
        let address = line.trim().parse().map_err(io::Error::other)?;
        ask_whether_it_serves(address)?;
        Ok(Self { address, ready: watch.elapsed(), process, data, port: None })
    }

    /// Starts Apache, which takes a snapshot after so many transactions.
    pub(super) fn apache(snapshot_after: usize) -> io::Result<Self> {
        Self::apache_on(tempfile::tempdir()?, ReservedPort::take().map_err(io::Error::other)?, snapshot_after)
    }

    #[expect(clippy::disallowed_methods, reason = "it looks again and again, up to a deadline")]
    fn apache_on(data: TempDir, port: ReservedPort, snapshot_after: usize) -> io::Result<Self> {
        let configuration = data.path().join("zoo.cfg");
        let text = format!(
            "tickTime=2000\ndataDir={}\nclientPortAddress=127.0.0.1\nclientPort={}\nmaxClientCnxns=0\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\nsnapCount={snapshot_after}\n",
            data.path().display(),
            port.number()
        );
        fs::write(&configuration, text)?;
        let mut command = process::command("java");
        command
            .args([HEAP, "-cp", CLASS_PATH, "org.apache.zookeeper.server.quorum.QuorumPeerMain"])
            .arg(configuration)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let watch = Stopwatch::start();
        let mut process = Process::start(command).map_err(io::Error::other)?;
        while let Err(error) = ask_whether_it_serves(port.address()) {
            if !process.is_running() || watch.elapsed() > SERVING_WITHIN {
                return Err(io::Error::other(format!("Apache does not serve: {error}")));
            }
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
        Ok(Self { address: port.address(), ready: watch.elapsed(), process, data, port: Some(port) })
    }

    /// Kills it and starts it on its data again.
    pub(super) fn started_again(self) -> io::Result<Self> {
        let Self { process, data, port, .. } = self;
        drop(process);
        match port {
            Some(port) => Self::apache_on(data, port, SNAPSHOT_AFTER),
            None => Self::embedded_on(data),
        }
    }

    /// Has the peak of its memory counted from now.
    pub(super) fn forget_peak(&self) -> io::Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5")
    }

    /// The most memory it had in use.
    pub(super) fn peak_mib(&self) -> io::Result<f64> {
        self.mib("VmHWM:")
    }

    /// How much memory it has in use.
    pub(super) fn resident_mib(&self) -> io::Result<f64> {
        self.mib("VmRSS:")
    }

    fn mib(&self, name: &str) -> io::Result<f64> {
        mib_of(self.process.id(), name)
    }
}

/// Reads a figure of a process's memory, as the kernel names it.
pub(in crate::groups) fn mib_of(process: u32, name: &str) -> io::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u32>().ok());
    Ok(f64::from(kib.ok_or_else(|| io::Error::other(format!("no {name}")))?) / 1024.0)
}

fn ask_whether_it_serves(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LOOK_WITHIN))?;
    stream.write_all(b"srvr")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.contains("Mode: standalone") { Ok(()) } else { Err(io::Error::other(answer)) }
}

/// Serves from this directory, and prints where; on one thread, as `lockkeeper server` does. Returns when it fails.
pub(crate) fn serve(directory: &Path) -> Outcome<()> {
    one_thread()?.block_on(async {
        let server = EmbeddedServer::builder().data_dir(directory).start().await?;
        println!("{}", server.address().ok_or("it does not listen")?);
        io::stdout().flush()?;
        server.stopped().await;
        Err("the server has stopped".into())
    })
}
