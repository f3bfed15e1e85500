//! The servers: Apache's, and an embedded one in a separate process, which is this binary started once more.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode, Stdio};

use libtest_mimic::Failed;
use lockkeeper_faults::zookeeper::{self, Server, Setup};
use lockkeeper_zk_server::EmbeddedServer;

/// Tells this binary that it is to be a server until its input ends.
const SERVES: &str = "LOCKKEEPER_TEST_CROWD_SERVES";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Embedded,
    Apache,
}

impl Kind {
    pub(crate) fn can_start(self, test: &str) -> bool {
        match self {
            Self::Embedded => true,
            Self::Apache => zookeeper::availability().or_skip(test),
        }
    }

    pub(crate) async fn start(self) -> Result<Running, Failed> {
        match self {
            Self::Apache => Ok(Running::Apache(Box::new(Server::standalone(Setup::new()).await?))),
            Self::Embedded => {
                let mut command = Command::new(std::env::current_exe()?);
                let mut process = command.env(SERVES, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
                let output = process.stdout.take().ok_or("the server has no output")?;
                let mut line = String::new();
                BufReader::new(output).read_line(&mut line)?;
                let address = line.trim().parse()?;
                Ok(Running::Embedded { address, process })
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Embedded => "embedded",
            Self::Apache => "apache",
        })
    }
}

/// A server that runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) enum Running {
    Apache(Box<Server>),
    Embedded { address: SocketAddr, process: Child },
}

impl Running {
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Apache(server) => server.address(),
            Self::Embedded { address, .. } => *address,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Self::Embedded { process, .. } = self {
            drop(process.stdin.take());
            let _ = process.wait();
        }
    }
}

pub(crate) fn is_asked_to_serve() -> bool {
    std::env::var_os(SERVES).is_some()
}

/// Serves until the input ends.
pub(crate) fn serve() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(EmbeddedServer::start()).expect("a server");
    println!("{}", server.address().expect("it listens"));
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}
