//! State that all parts of a session share: its places, its counter, its looks at queues.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lockkeeper_core::{
    ConnectionNumber, Error, ErrorKind, Liveness, LossReason, Mode, Operation, Part, QueueName, QueueView, Result,
    SafeUntil, SessionBond, Ticket,
};
use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;
use tokio::sync::oneshot;

use crate::base::Base;
use crate::counter::{BootId, Counter};
use crate::directory::{self, ContenderState};
use crate::entry_name::EntryName;
use crate::errors::failed;
use crate::gate::{Helpers, QueueGate};
use crate::pipe::Looker;
use crate::shared_files;
use crate::table::{PlaceTable, Remains};

/// There is only one connection to a directory.
pub(crate) const VERSION: ConnectionNumber = ConnectionNumber(0);

/// What all parts of a session share; threads that make its entries hold it as well.
pub(crate) struct FileSessionState {
    pub(crate) base: Arc<Base>,
    pub(crate) looker: Arc<Looker>,
    /// Shared by all sessions of the backend, for calls that do not wait.
    pub(crate) counter: Arc<Mutex<Counter>>,
    boot: BootId,
    pub(crate) bond: SessionBond,
    table: Mutex<PlaceTable>,
    helpers: Mutex<Helpers>,
}

impl FileSessionState {
    pub(crate) fn new(base: Arc<Base>, looker: Arc<Looker>, counter: Arc<Mutex<Counter>>, boot: BootId) -> Self {
        let bond = SessionBond::new(base.clock.clone(), SafeUntil::ProcessEnd);
        Self { base, looker, counter, boot, bond, table: Mutex::default(), helpers: Mutex::default() }
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, PlaceTable> {
        self.table.lock()
    }

    /// Returns a counter with an opening that no other part of the process uses.
    pub(crate) fn separate_counter(&self) -> Counter {
        Counter::new(self.base.clone(), self.boot)
    }

    pub(crate) fn helpers(&self) -> MutexGuard<'_, Helpers> {
        self.helpers.lock()
    }

    /// Forgets a ticket whose entry was not made, or whose value was written.
    pub(crate) fn forget(&self, ticket: Ticket) {
        let retired = self.table().forget(ticket);
        if let Some(gate) = retired {
            gate.retire(&self.looker);
        }
    }

    pub(crate) fn check_bond(&self, operation: Operation) -> Result<()> {
        match self.bond.liveness() {
            Liveness::Lost(reason) => Err(lost(reason, operation)),
            _ => Ok(()),
        }
    }

    /// Opens the directory of a queue's lock; `None` if there is none.
    pub(crate) fn open_directory(&self, queue: &QueueName, operation: Operation) -> Result<Option<OwnedFd>> {
        let path = self.base.queue_path(queue);
        match shared_files::open_directory(&path) {
            Ok(opened) => Ok(Some(opened)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed(operation, "open the directory", &path, errno)),
        }
    }

    /// Lists a queue without its dead contenders, and removes these.
    pub(crate) fn view(&self, queue: &QueueName) -> Result<QueueView> {
        self.check_bond(Operation::View)?;
        let Some(opened) = self.open_directory(queue, Operation::View)? else {
            return Ok(QueueView::new(VERSION, []));
        };
        let fail = |errno| failed(Operation::View, "list the directory", &self.base.queue_path(queue), errno);
        let names = directory::list(opened.as_fd()).map_err(fail)?.contenders;
        let mut contenders = Vec::new();
        for name in names.iter().filter(|name| name.part == queue.part()) {
            if self.is_alive(&opened, name).map_err(fail)? {
                contenders.push(name.contender());
            }
        }
        let mut view = QueueView::new(VERSION, contenders);
        // A contender that we cannot look at must not be shown as dead.
        view.elsewhere = elsewhere(queue.part(), &names, |name| self.is_alive(&opened, name).unwrap_or(true));
        Ok(view)
    }

    /// Tells whether a contender stands, and removes it if it is dead or broken.
    pub(crate) fn is_alive(&self, directory: &OwnedFd, name: &EntryName) -> Result<bool, Errno> {
        if self.table().stands(name.ticket) && !name.is_frozen {
            return Ok(true);
        }
        match self.looker.look_at(directory, name)? {
            Some(ContenderState::Alive) => Ok(true),
            Some(ContenderState::Dead | ContenderState::Broken) => {
                // If we may not, it stays dead for all who look.
                let _ = rustix::fs::unlinkat(directory, name.as_str(), rustix::fs::AtFlags::empty());
                Ok(false)
            }
            Some(ContenderState::Left) | None => Ok(false),
        }
    }

    /// Ends everything; returns what is still being done or undone, and at which gates, and the first failure.
    pub(crate) fn end(&self) -> (Vec<oneshot::Receiver<()>>, Vec<Arc<QueueGate>>, Result<()>) {
        self.bond.lose(LossReason::Closed);
        let Remains { pipes, undone, gates } = self.table().close();
        let mut outcome = Ok(());
        for pipe in pipes {
            let left = report_leaving(pipe.leave(), pipe.name());
            outcome = outcome.and(left);
        }
        for gate in &gates {
            gate.retire(&self.looker);
        }
        (undone, gates, outcome)
    }
}

impl fmt::Debug for FileSessionState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FileSessionState")
            .field("base", &self.base.path)
            .field("bond", &self.bond)
            .finish_non_exhaustive()
    }
}

/// The mode of a contender on the other side of the lock, if there is one.
pub(crate) fn elsewhere(part: Part, names: &[EntryName], is_alive: impl Fn(&EntryName) -> bool) -> Option<Mode> {
    part.opposite()
        .iter()
        .find_map(|&other| names.iter().find(|name| name.part == other && is_alive(name)))
        .map(|name| name.mode)
}

/// A contender that could not be unlinked is closed all the same, so it counts as dead and other processes remove it.
pub(crate) fn report_leaving(outcome: Result<(), Errno>, name: &EntryName) -> Result<()> {
    let path = std::path::Path::new(name.as_str());
    outcome.map_err(|errno| failed(Operation::Leave, "remove the contender", path, errno))
}

pub(crate) fn lost(reason: LossReason, operation: Operation) -> Error {
    match reason {
        LossReason::Closed => Error::permanent(ErrorKind::Closed, operation, reason.to_string()),
        reason => Error::transient(ErrorKind::Lost(reason), operation, reason.to_string()),
    }
}
