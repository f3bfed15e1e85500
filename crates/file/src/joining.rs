//! The making of entries: under the lock's flock, all that were asked for in one call, or none.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use lockkeeper_core::{ContenderId, Error, ErrorKind, FencingToken, Mode, Operation, QueueView, Rank, Result};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::counter::{Counter, Numbering};
use crate::directory::QueueDirectory;
use crate::entering::AttemptOutcome;
use crate::entry_name::{EntryName, EntryPosition};
use crate::errors::failed;
use crate::gate::{FileJoin, JoinedEntries};
use crate::inner::{FileSessionState, VERSION};
use crate::pipe::Pipe;
use crate::shared_files::Patience;

impl FileJoin {
    /// Makes the entries; under the lock's flock.
    pub(crate) fn join(
        &self,
        session: &FileSessionState,
        directory: &QueueDirectory,
        counter: &Mutex<Counter>,
        patience: Patience<'_>,
    ) -> Result<AttemptOutcome<JoinedEntries>> {
        let listing = match directory.list() {
            Err(Errno::NOENT) => return Ok(AttemptOutcome::Removed),
            listing => listing.map_err(|errno| self.failed(session, "list the directory", errno))?,
        };
        // Left by a process that died here, since no other process prepares a name under our lock.
        directory.tidy(&listing);
        let mut present = listing.contenders;
        let Some(names) = self.names(session, &mut present, counter, patience)? else {
            return Ok(AttemptOutcome::Busy);
        };
        if !self.tickets().all(|ticket| session.table().begin(ticket)) {
            return Ok(AttemptOutcome::Withdrawn);
        }
        let made = match self.make(session, directory, names) {
            Ok(made) => made,
            Err(Errno::NOENT) => {
                self.tickets().for_each(|ticket| session.table().retreat(ticket));
                return Ok(AttemptOutcome::Removed);
            }
            Err(errno) => return Err(self.failed(session, "make a contender in", errno)),
        };
        let Some(pipes) = made else {
            return Ok(AttemptOutcome::Withdrawn);
        };
        let view = self.view(session, directory.directory(), &present);
        Ok(AttemptOutcome::Done(JoinedEntries { pipes, view }))
    }

    /// Gives every entry its name, and puts it where it will stand among the present contenders; `None` if a number
    /// must be waited for.
    fn names(
        &self,
        session: &FileSessionState,
        present: &mut Vec<EntryName>,
        counter: &Mutex<Counter>,
        patience: Patience<'_>,
    ) -> Result<Option<Vec<EntryName>>> {
        let mut names = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let (at, position) = match &entry.rank {
                Rank::Tail => {
                    // No entry may come in ahead of the present contenders, even if the counter was lost and the clock
                    // set back.
                    let floor = present.last().map_or(0, |last| last.token().as_u64());
                    let Numbering::Number(number) = counter.lock().next(floor, patience)? else {
                        return Ok(None);
                    };
                    (present.len(), EntryPosition::tail(token(number)?))
                }
                Rank::With(anchor) => self.right_behind(session, present, anchor)?,
            };
            let name = EntryName::compose(position, self.queue.part(), entry);
            present.insert(at, name.clone());
            names.push(name);
        }
        Ok(Some(names))
    }

    fn right_behind(
        &self,
        session: &FileSessionState,
        present: &[EntryName],
        anchor: &ContenderId,
    ) -> Result<(usize, EntryPosition)> {
        let is_anchor = |name: &EntryName| name.as_str() == anchor.as_str() && name.part == self.queue.part();
        let is_ours = |name: &EntryName| !name.is_frozen && session.table().stands(name.ticket);
        let Some(before) = present.iter().position(|name| is_anchor(name) && is_ours(name)) else {
            let message = "the contender whose place was to be shared is gone";
            return Err(Error::permanent(ErrorKind::Removed, Operation::Join, message));
        };
        let next = present.get(before + 1).map(|name| name.position);
        let position = present[before].position.behind(next).ok_or_else(|| {
            let message = "there is no room for one more within the same place";
            Error::transient(ErrorKind::LimitReached, Operation::Join, message)
        })?;
        Ok((before + 1, position))
    }

    /// Makes the contenders, all or none; `None` if one of them was withdrawn meanwhile.
    fn make(
        &self,
        session: &FileSessionState,
        directory: &QueueDirectory,
        names: Vec<EntryName>,
    ) -> Result<Option<Vec<Arc<Pipe>>>, Errno> {
        // A single entry is seen whole or not at all.
        let newcomers = names.iter().filter(|name| name.position.is_tail());
        let batch = if names.len() > 1 { newcomers.map(EntryName::token).min() } else { None };
        let mut pipes = Vec::with_capacity(names.len());
        let outcome = self.fill(session, directory, names, batch, &mut pipes);
        if !matches!(outcome, Ok(true)) {
            // What cannot be unlinked is closed, and counts as dead.
            let left = pipes.iter().map(|pipe| pipe.leave()).fold(Ok(()), Result::and);
            if let Some(first) = batch {
                let _ = directory.end_batch(first);
            }
            left?;
        }
        outcome.map(|all_are_wanted| all_are_wanted.then_some(pipes))
    }

    fn fill(
        &self,
        session: &FileSessionState,
        directory: &QueueDirectory,
        names: Vec<EntryName>,
        batch: Option<FencingToken>,
        pipes: &mut Vec<Arc<Pipe>>,
    ) -> Result<bool, Errno> {
        if let Some(first) = batch {
            directory.begin_batch(first)?;
        }
        for (name, entry) in names.into_iter().zip(&self.entries) {
            pipes.push(Arc::new(Pipe::enter(directory, name, &entry.lifetime)?));
        }
        if self.needs_disk() {
            session.base.flush_queue(directory.directory())?;
        }
        let mut all_are_wanted = true;
        for pipe in &*pipes {
            all_are_wanted &= session.table().settle(pipe.name().ticket, pipe);
        }
        if all_are_wanted && let Some(first) = batch {
            directory.end_batch(first)?;
        }
        Ok(all_are_wanted)
    }

    /// Shows the queue with the entries in it.
    ///
    /// A contender is looked at where its death would change what the view says: members are counted, and of each mode
    /// but ours one that lives must be shown. A wait for any other shows whether it lives.
    fn view(&self, session: &FileSessionState, directory: &OwnedFd, present: &[EntryName]) -> QueueView {
        let mut shown: Vec<Mode> =
            self.entries.first().map(|entry| entry.mode).filter(|mode| *mode != Mode::Member).into_iter().collect();
        // A contender that we cannot look at must not be shown as dead.
        let is_alive = |name: &EntryName| session.is_alive(directory, name).unwrap_or(true);
        let must_be_shown = |name: &&EntryName| {
            let is_shown = shown.contains(&name.mode) || is_alive(name);
            if is_shown && name.mode != Mode::Member && !shown.contains(&name.mode) {
                shown.push(name.mode);
            }
            is_shown
        };
        let of_part = present.iter().filter(|name| name.part == self.queue.part());
        let contenders: Vec<_> = of_part.filter(must_be_shown).map(EntryName::contender).collect();
        let mut view = QueueView::new(VERSION, contenders);
        view.elsewhere = crate::inner::elsewhere(self.queue.part(), present, is_alive);
        view
    }

    fn failed(&self, session: &FileSessionState, what: &str, errno: Errno) -> Error {
        failed(Operation::Join, what, &session.base.queue_path(&self.queue), errno)
    }
}

fn token(number: u64) -> Result<FencingToken> {
    FencingToken::new(number, 0).ok_or_else(|| {
        Error::permanent(ErrorKind::LimitReached, Operation::Join, "the counter gave a number that is not a token")
    })
}
