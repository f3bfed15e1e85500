//! The conformance suite on the file backend.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use lockkeeper_conformance::{Arguments, Client, Fault, FaultKind, Fixture, HANDOFFS, run_under};
use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, BoxFuture, Error, ErrorKind, Operation, Result};
use lockkeeper_file::FileBackend;
use tempfile::TempDir;

fn main() -> ExitCode {
    run_under(&Arguments::from_args(), start, &HANDOFFS)
}

fn start() -> BoxFuture<Result<Arc<dyn Fixture>>> {
    Box::pin(async {
        let directory = tempfile::tempdir().map_err(|error| failed(&error))?;
        let fixture: Arc<dyn Fixture> = Arc::new(FileFixture { directory });
        Ok(fixture)
    })
}

fn failed(error: &std::io::Error) -> Error {
    Error::permanent(ErrorKind::Backend, Operation::Inspect, error.to_string())
}

/// A separate directory. Each client opens it anew, as another process would.
#[derive(Debug)]
struct FileFixture {
    directory: TempDir,
}

impl Fixture for FileFixture {
    fn client(&self) -> BoxFuture<Result<Arc<dyn Client>>> {
        let directory = self.directory.path().to_owned();
        let opened = FileBackend::open(&directory, Arc::new(SystemClock))
            .map(|backend| -> Arc<dyn Client> { Arc::new(FileClient { backend: Arc::new(backend), directory }) });
        Box::pin(std::future::ready(opened))
    }

    /// A waiter watches the pipe of the contender ahead. It sees the pipe end when the owner's
    /// process closes it, or when the owner notices that its name was removed; the owner of a removed name notices that
    /// only when it looks.
    fn can_inflict(&self, kind: FaultKind) -> bool {
        matches!(kind, FaultKind::RemoveContender | FaultKind::Wipe)
    }

    /// All files and directories below the directory of queues, of any kind.
    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        let mut leftovers = Vec::new();
        let listed = list(&self.directory.path().join("queues"), &mut leftovers);
        Box::pin(std::future::ready(listed.map(|()| leftovers).map_err(|error| failed(&error))))
    }
}

fn list(directory: &Path, found: &mut Vec<String>) -> std::io::Result<()> {
    let entries = match fs::read_dir(directory) {
        // It was removed meanwhile, or never made.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        found.push(path.display().to_string());
        if path.is_dir() {
            list(&path, found)?;
        }
    }
    Ok(())
}

/// Removes all that lies in the directory.
fn wipe(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    Ok(())
}

#[derive(Debug)]
struct FileClient {
    backend: Arc<FileBackend>,
    directory: PathBuf,
}

impl Client for FileClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        let done = match fault {
            Fault::RemoveContender { queue, contender, .. } => {
                let path = self.directory.join("queues").join(queue.encoded()).join(contender.as_str());
                fs::remove_file(path).map_err(|error| failed(&error))
            }
            Fault::Wipe => wipe(&self.directory).map_err(|error| failed(&error)),
            fault => {
                let message = format!("{fault:?} cannot be done to a directory");
                Err(Error::permanent(ErrorKind::Unsupported, Operation::Configure, message))
            }
        };
        Box::pin(std::future::ready(done))
    }
}
