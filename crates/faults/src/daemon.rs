//! The base of every server: where it listens, its folder and log, its processes, and its clock, which can be moved by
//! Debian's `faketime`.
//!
//! `server` starts and ends one; what it is started with, and how it is asked, its kind knows.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use crate::authority::CertificateFiles;
use crate::namespaces::Network;
use crate::ports::ReservedPort;
use crate::process::{self, Family, Process};
use crate::scratch::{self, DATA, Scratch};
use crate::{Availability, Error, Result, wait};

/// How long a server may take until it serves. A fifth of a second is usual.
pub(crate) const SERVING_WITHIN: Duration = wait::PATIENCE;

/// How long a server may take to end when asked to, before it is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// A command that runs what follows it in the usual class of the scheduler.
const USUAL_CLASS: [&str; 3] = ["chrt", "--other", "0"];

/// A file with this mode is for its owner alone.
const PRIVATE: u32 = 0o600;

/// What a server says, in its folder.
const LOG: &str = "server.log";

/// How much of a server's log goes into an error.
const LOG_TAIL_BYTES: usize = 2_000;

/// Whether a server can [leave the lowest class](Ground::leaves_idle_class) of the scheduler here.
fn class_availability() -> Availability {
    let [chrt, arguments @ ..] = USUAL_CLASS;
    let tried = Command::new(chrt).args(arguments).arg("true").stderr(Stdio::null()).status();
    match tried.is_ok_and(|status| status.success()) {
        true => Availability::Present,
        false => Availability::Missing("these tests run in the lowest class of the scheduler, without root".to_owned()),
    }
}

/// Where a server listens, where its files lie, and who it is.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    /// Its folder is on the disk, for measuring; else in memory, where no write waits for a disk.
    pub(crate) on_disk: bool,
    pub(crate) room_bytes: Option<u64>,
    pub(crate) has_clock: bool,
    /// It refuses to run as root: it runs under the account `nobody` there.
    pub(crate) is_powerless: bool,
    /// It does not run in the lowest class of the scheduler, where tests may run: it wants to leave that class, which
    /// its account must not.
    pub(crate) leaves_idle_class: bool,
    /// How many ports it needs beside that of clients.
    pub(crate) more_ports: usize,
    pub(crate) namespace: Option<Namespace>,
}

impl Ground {
    /// Whether a server can have this here.
    pub(crate) fn availability(&self) -> Availability {
        let needed: [(bool, fn() -> Availability); 3] = [
            (self.has_clock, clock_availability),
            (self.room_bytes.is_some(), scratch::room_availability),
            (self.leaves_idle_class, class_availability),
        ];
        let needed = needed.into_iter().filter_map(|(is_needed, available)| is_needed.then_some(available));
        needed.fold(process::availability(), Availability::and)
    }
}

/// A namespace, and its addresses for this process and for other namespaces.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    name: String,
    clients: Ipv4Addr,
    peers: Ipv4Addr,
}

impl Namespace {
    /// That of the server `index` of a network.
    pub(crate) fn of(network: &Network, index: usize) -> Self {
        let (clients, peers) = (network.client_address(index), network.peer_address(index));
        Self { name: network.namespace(index), clients, peers }
    }
}

/// One server's processes, folder and ports; dropping it kills it and removes its files.
#[derive(Debug)]
pub struct Daemon {
    /// Dropped first.
    running: Option<Running>,
    folder: Scratch,
    ground: Ground,
    ports: Vec<ReservedPort>,
}

/// The fields are dropped in this order.
#[derive(Debug)]
struct Running {
    family: Family,
    _leftovers: Option<Leftovers>,
}

impl Daemon {
    /// Reserves a folder and ports; starts nothing.
    pub(crate) fn new(ground: Ground) -> Result<Self> {
        let folder = match ground.room_bytes {
            Some(bytes) => Scratch::with_room(bytes)?,
            None if ground.on_disk => Scratch::new()?,
            None => Scratch::in_memory()?,
        };
        if ground.is_powerless {
            folder.give()?;
        }
        if ground.has_clock {
            set_clock(folder.path(), 0)?;
        }
        let ports = (0..=ground.more_ports).map(|_| ReservedPort::take()).collect::<Result<_>>()?;
        Ok(Self { running: None, folder, ground, ports })
    }

    /// Where clients of this process connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.client_address(0)
    }

    /// Where this process reaches one of its ports.
    pub(crate) fn client_address(&self, port: usize) -> SocketAddr {
        let port = &self.ports[port];
        self.ground.namespace.as_ref().map_or_else(|| port.address(), |own| (own.clients, port.number()).into())
    }

    /// Where processes in the other namespaces of its network reach one of its ports, or this process if it is in none.
    pub(crate) fn peer_address(&self, port: usize) -> SocketAddr {
        let port = &self.ports[port];
        self.ground.namespace.as_ref().map_or_else(|| port.address(), |own| (own.peers, port.number()).into())
    }

    /// Copies certificates to where the server's account can read them, and others cannot.
    pub(crate) fn take(&self, certificates: &CertificateFiles) -> Result<()> {
        let CertificateFiles { cert, key, ca } = self.copied_certificate_files();
        for (from, to) in [&certificates.cert, &certificates.key, &certificates.ca].into_iter().zip([cert, key, ca]) {
            fs::copy(from, &to).map_err(Error::io(from.display()))?;
            fs::set_permissions(&to, Permissions::from_mode(PRIVATE)).map_err(Error::io(to.display()))?;
            scratch::give(&to)?;
        }
        Ok(())
    }

    /// Where certificates lie that were [taken](Self::take).
    pub(crate) fn copied_certificate_files(&self) -> CertificateFiles {
        let [cert, key, ca] = ["cert.pem", "key.pem", "ca.pem"].map(|name| self.file(name));
        CertificateFiles { cert, key, ca }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Writes a file in its folder, and returns where it is.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.file(name);
        fs::write(&file, text).map_err(Error::io(file.display()))?;
        Ok(file)
    }

    /// Where its data lie.
    pub(crate) fn data_folder(&self) -> PathBuf {
        self.file(DATA)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.family.0.id())
    }

    /// A command under the server's account, in its namespace, with its clock if it has one.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut before = Vec::new();
        if self.ground.leaves_idle_class {
            before.extend(USUAL_CLASS);
        }
        if let Some(own) = &self.ground.namespace {
            before.extend(process::in_namespace(&own.name));
        }
        let mut command = match self.ground.is_powerless {
            true => process::command_without_root(&before, "env"),
            false => process::command_behind(&before, "env"),
        };
        if self.ground.is_powerless {
            command.arg("LC_ALL=C");
        }
        if self.ground.has_clock {
            command.args(clock_variables(self.folder()));
        }
        command.arg(program).current_dir(self.folder()).stdin(Stdio::null());
        command
    }

    /// Starts the server with a command made by [`command`](Self::command), which goes on in the background.
    pub(crate) fn start(&mut self, mut command: Command) -> Result<()> {
        let log = || File::options().create(true).append(true).open(self.file(LOG)).map_err(Error::io(LOG));
        command.stdout(log()?).stderr(log()?);
        let process = Process::start(command)?;
        let leftovers = self.ground.has_clock.then(|| Leftovers(process.id()));
        self.running = Some(Running { family: Family(process), _leftovers: leftovers });
        Ok(())
    }

    /// Runs a command made by [`command`](Self::command) to its end.
    pub(crate) async fn run(&self, mut command: Command) -> Result<()> {
        let output = self.file("program.log");
        let log = || File::create(&output).map_err(Error::io(output.display()));
        command.stderr(log()?).stdout(Stdio::null());
        let status = Process::start(command)?.exited(SERVING_WITHIN).await?;
        match status.success() {
            true => Ok(()),
            false => Err(Error::new(format!("{status}: {}", tail(&output)))),
        }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.running.as_mut().is_some_and(|running| running.family.0.is_running())
    }

    /// Waits until a look finds that it serves.
    pub(crate) async fn serving(&mut self, mut look: impl AsyncFnMut() -> bool) -> Result<()> {
        let address = self.address();
        let what = format!("{address} serving");
        let found = wait::until(&what, SERVING_WITHIN, async || match self.is_running() {
            true => look().await.then_some(true),
            false => Some(false),
        });
        match found.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.with_log(&format!("{address} has ended"))),
            Err(error) => Err(self.with_log(&error.to_string())),
        }
    }

    pub(crate) fn with_log(&self, message: &str) -> Error {
        Error::new(format!("{message}:\n{}", tail(&self.file(LOG))))
    }

    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    /// Lets `ask` ask it to end, and kills it if it does not within ten seconds.
    pub(crate) async fn stop(&mut self, ask: impl FnOnce(&mut Process) -> Result<()>) {
        if let Some(mut running) = self.running.take()
            && ask(&mut running.family.0).is_ok()
        {
            // Dropping the processes kills what did not end in time.
            let _ = running.family.0.exited(STOPPED_WITHIN).await;
        }
    }

    pub(crate) fn pause(&mut self) -> Result<()> {
        self.running()?.pause()
    }

    pub(crate) fn resume(&mut self) -> Result<()> {
        self.running()?.resume()
    }

    /// Takes all the room that its folder has left, in a file.
    pub(crate) fn fill_disk(&self) -> Result<()> {
        if self.ground.room_bytes.is_none() {
            return Err(Error::new(format!("{} was set up with room without limit", self.address())));
        }
        let filled = File::create(self.filling()).and_then(|mut file| io::copy(&mut io::repeat(0), &mut file));
        match filled {
            Err(error) if error.kind() == ErrorKind::StorageFull => Ok(()),
            Err(error) => Err(Error::io(self.filling().display())(error)),
            Ok(_) => Err(Error::new("a file system was never full")),
        }
    }

    /// Gives the room back.
    pub(crate) fn free_disk(&self) -> Result<()> {
        fs::remove_file(self.filling()).map_err(Error::io(self.filling().display()))
    }

    fn filling(&self) -> PathBuf {
        self.file("filling")
    }

    fn running(&mut self) -> Result<&mut Family> {
        let address = self.address();
        let running = self.running.as_mut().map(|running| &mut running.family);
        running.ok_or_else(|| Error::new(format!("{address} does not run")))
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
}

/// The library that answers for the clock, and the C library right behind it: jemalloc reads the clock before the first
/// library is ready to answer, and waits for itself forever. So the server allocates by the C library.
const FAKETIME: &str = "LD_PRELOAD=/usr/$LIB/faketime/libfaketime.so.1 libc.so.6";

/// Timers go on as they were, and each look at the clock reads the file.
const FAKETIME_SETTINGS: [&str; 2] = ["FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_NO_CACHE=1"];

/// The file that says how far the clock is from the machine's, in the server's folder.
const CLOCK: &str = "clock";

/// What the library leaves in memory when its process is killed, but for the process id at the end.
const FAKETIME_LEFT: [&str; 2] = ["/dev/shm/faketime_shm_", "/dev/shm/sem.faketime_sem_"];

/// How far the time that a server tells may be from the expected one, since both are whole seconds.
const TOLERANCE_S: i64 = 1;

/// Whether such clocks can be had here.
pub(crate) fn clock_availability() -> Availability {
    Availability::of_programs(&["faketime"], "faketime")
}

/// What `env` sets for a program, so that it has such a clock; the file must be there.
fn clock_variables(folder: &Path) -> Vec<OsString> {
    let mut file = OsString::from("FAKETIME_TIMESTAMP_FILE=");
    file.push(folder.join(CLOCK));
    [FAKETIME].into_iter().chain(FAKETIME_SETTINGS).map(OsString::from).chain([file]).collect()
}

/// Says how far the clock is ahead of the machine's, in seconds. A reader sees the old distance or the new one.
fn set_clock(folder: &Path, ahead_s: i64) -> Result<()> {
    let (file, new) = (folder.join(CLOCK), folder.join("clock.new"));
    let written = fs::write(&new, format!("{ahead_s:+}\n")).and_then(|()| fs::rename(&new, &file));
    written.map_err(Error::io(file.display()))
}

/// How far the clock is ahead of the machine's, in seconds.
fn clock_ahead_s(folder: &Path) -> Result<i64> {
    let file = folder.join(CLOCK);
    let text = fs::read_to_string(&file).map_err(Error::io(file.display()))?;
    text.trim().parse().map_err(|error| Error::new(format!("{}: {error}", file.display())))
}

/// Moves the clock of a server to this many seconds ahead of the machine's, and waits until the server tells that time.
#[expect(clippy::future_not_send, reason = "a test waits in its own task")]
pub(crate) async fn move_clock(
    folder: &Path,
    ahead_s: i64,
    server: SocketAddr,
    time_s: impl AsyncFn() -> Result<i64>,
) -> Result<()> {
    let asked = Instant::now();
    let (before, told) = (time_s().await?, Instant::now());
    let moved = before + ahead_s - clock_ahead_s(folder)?;
    set_clock(folder, ahead_s)?;
    let passed = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    wait::until(&format!("{server} moving its clock"), wait::PATIENCE, async || {
        // A busy machine lets time pass between what a server tells and what is read here.
        let earliest = moved + passed(told.elapsed());
        let time = time_s().await.ok()?;
        let latest = moved + passed(asked.elapsed());
        (earliest - TOLERANCE_S..=latest + TOLERANCE_S).contains(&time).then_some(())
    })
    .await
}

/// What the library keeps in memory for one process; dropping this after the process removes it.
#[derive(Debug)]
struct Leftovers(u32);

impl Drop for Leftovers {
    fn drop(&mut self) {
        for path in FAKETIME_LEFT.map(|start| PathBuf::from(format!("{start}{}", self.0))) {
            // A process that ended as it was asked to has removed it.
            let _ = fs::remove_file(path);
        }
    }
}
