//! One real server for a case, on a free port of loopback, with its data in a separate folder.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult};

/// How long a server may take to start.
const START_TIME_MAX: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

/// Whether there is a `redis-server`.
pub(crate) fn is_available() -> bool {
    Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let address = TcpListener::bind(("127.0.0.1", 0)).and_then(|port| port.local_addr()).expect("a free port");
        let process = spawn(address, folder.path());
        let server = Self { process, address, folder };
        server.connect();
        server
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connect(&self) -> Connection {
        let begun = Instant::now();
        loop {
            let client = redis::Client::open(format!("redis://{}", self.address)).expect("a URL");
            let connected: RedisResult<Connection> = client
                .get_connection()
                .and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection).map(|_| connection));
            match connected {
                Ok(connection) => return connection,
                Err(error) => assert!(begun.elapsed() < START_TIME_MAX, "no server: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub(crate) fn restart(&mut self) {
        let _: RedisResult<String> = redis::cmd("SAVE").query(&mut self.connect());
        self.end();
        self.process = spawn(self.address, self.folder.path());
        self.connect();
    }

    pub(crate) fn wipe(&mut self) {
        self.end();
        let _ = std::fs::remove_file(self.folder.path().join("dump.rdb"));
        self.process = spawn(self.address, self.folder.path());
        self.connect();
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).arg(self.process.id().to_string()).status();
        assert!(status.expect("kill").success());
    }
}

fn spawn(address: SocketAddr, folder: &std::path::Path) -> Child {
    let port = address.port().to_string();
    let mut command = Command::new("redis-server");
    command.args([
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--enable-debug-command",
        "yes",
    ]);
    command.current_dir(folder).stdout(Stdio::null()).spawn().expect("redis-server")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
