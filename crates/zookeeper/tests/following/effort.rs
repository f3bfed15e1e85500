//! How long the processors have worked for a process, or for one thread of this one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Failed;

/// Whose work is counted.
#[derive(Clone, Debug)]
pub(crate) enum Worker {
    Process(u32),
    /// A thread of this process, by its name.
    Thread(&'static str),
}

/// The work of each task.
#[derive(Debug)]
pub(crate) struct Effort(BTreeMap<PathBuf, Duration>);

impl Worker {
    /// How long the processors have worked for it since it began.
    pub(crate) fn effort(&self) -> Result<Effort, Failed> {
        let (process, name) = match self {
            Self::Process(id) => (id.to_string(), None),
            Self::Thread(name) => ("self".to_owned(), Some(*name)),
        };
        let mut tasks = BTreeMap::new();
        for task in fs::read_dir(format!("/proc/{process}/task"))? {
            let task = task?.path();
            // A thread may end meanwhile.
            if name.is_none_or(|name| read(&task, "comm").is_some_and(|comm| comm.trim() == name))
                && let Some(nanos) = read(&task, "schedstat").and_then(|text| text.split(' ').next()?.parse().ok())
            {
                tasks.insert(task, Duration::from_nanos(nanos));
            }
        }
        if tasks.is_empty() { Err(format!("{self:?} does not run").into()) } else { Ok(Effort(tasks)) }
    }
}

impl Effort {
    /// How much of it was done since `before`, by those tasks that still run.
    pub(crate) fn since(&self, before: &Self) -> Duration {
        let done = |(task, effort): (&PathBuf, &Duration)| *effort - before.0.get(task).copied().unwrap_or_default();
        self.0.iter().map(done).sum()
    }
}

fn read(task: &Path, file: &str) -> Option<String> {
    fs::read_to_string(task.join(file)).ok()
}
