//! A lock's directory: its flock, its listing, its true name, and its end.
//!
//! All queues of one lock, its parts, lie in one directory. So one flock admits to all of them, one listing shows
//! both sides of the lock, and one removal ends it.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_core::{FencingToken, Part, QueueName, Ticket};
use rustix::fs::{AtFlags, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use crate::access::{DirectoryAccess, MadeKind};
use crate::base::Base;
use crate::entry_name::EntryName;
use crate::shared_files::{self, Patience};
use crate::site::BaseSite;

/// The file whose flock admits one entrant at a time. It is made first and removed last, so a directory without it is
/// about to begin or to end.
pub(crate) const ENTER: &str = ".enter";

/// The symbolic link that leads nowhere and whose target is the queue's name, where the directory's own name is only a
/// digest of it. A link is there with its content at once or not at all, and needs no mode.
pub(crate) const NAME: &str = ".name";

/// The prefix of the file that says what is asked of a contender; its ticket follows.
pub(crate) const REQUEST_PREFIX: &str = ".ask-";

/// The prefix of the file that holds a queue's value; its part follows.
pub(crate) const VALUE_PREFIX: &str = ".value-";

/// Names the file that holds a queue's value.
pub(crate) const fn value_name(part: Part) -> &'static str {
    match part {
        Part::Line => ".value-line",
        Part::Waiters => ".value-gate",
        Part::Permits => ".value-permits",
    }
}

/// The prefix of the mark that is there while several entries are made at once; the number of the first follows. The
/// entries are hidden until it is gone, and stay hidden if their maker dies before.
pub(crate) const BATCH_PREFIX: &str = ".new-batch-";

/// How often a directory that others make and remove at the same time is tried.
const TRIES_MAX: u32 = 64;

/// The listing's buffer, in bytes: some 300 contenders for each call.
const LISTING_BYTES: usize = 32 * 1024;

/// What a lock's directory shows.
#[derive(Debug, Default)]
pub(crate) struct DirectoryListing {
    /// The contenders of all parts, in their order.
    pub(crate) contenders: Vec<EntryName>,
    /// The contenders for which a request was left.
    requested: Vec<Ticket>,
    /// Whether there is a value that lives until it is removed: that of the plain queue. The values of a semaphore's
    /// queues say what its contenders have agreed on, and go with them.
    pub(crate) has_lasting_value: bool,
    /// Names that were being prepared; under the lock's flock it is certain that their makers died.
    temporaries: Vec<String>,
    /// Contenders that are being made together with others, and do not count until all are there.
    unfinished: Vec<EntryName>,
}

impl DirectoryListing {
    /// Returns the contenders of one part, in their order.
    pub(crate) fn of(&self, part: Part) -> impl Iterator<Item = &EntryName> {
        self.contenders.iter().filter(move |name| name.part == part)
    }

    /// Tells whether a contender is being made together with others that are not all there yet.
    pub(crate) fn is_unfinished(&self, name: &EntryName) -> bool {
        self.unfinished.contains(name)
    }

    /// Tells whether a request was left for a contender.
    pub(crate) fn is_requested(&self, name: &EntryName) -> bool {
        self.requested.contains(&name.ticket)
    }

    fn sort(&mut self) {
        if let Some(first) = self.temporaries.iter().find_map(|name| first_of_batch(name)) {
            self.unfinished = self.contenders.extract_if(.., |name| name.token().as_u64() >= first).collect();
        }
        self.contenders.sort_unstable_by_key(|name| name.position);
    }
}

/// Lists a lock's directory that was opened for this call alone. One that was removed since then is listed as empty.
pub(crate) fn list(directory: BorrowedFd<'_>) -> Result<DirectoryListing, Errno> {
    match list_standing(directory) {
        Err(Errno::NOENT) => Ok(DirectoryListing::default()),
        listing => listing,
    }
}

/// Lists a lock's directory; fails with `NOENT` if it was removed.
fn list_standing(directory: BorrowedFd<'_>) -> Result<DirectoryListing, Errno> {
    rustix::fs::seek(directory, SeekFrom::Start(0))?;
    let mut listing = DirectoryListing::default();
    let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        sort_in(entry?.file_name(), &mut listing);
    }
    listing.sort();
    Ok(listing)
}

fn sort_in(file_name: &CStr, listing: &mut DirectoryListing) {
    match file_name.to_str() {
        Ok(text) if text.starts_with('.') => {
            if shared_files::is_temporary(text) || first_of_batch(text).is_some() {
                listing.temporaries.push(text.to_owned());
            } else if let Some(ticket) = text.strip_prefix(REQUEST_PREFIX) {
                listing.requested.extend(Ticket::parse(ticket));
            } else if text == value_name(Part::Line) {
                listing.has_lasting_value = true;
            }
        }
        text => match text.ok().and_then(EntryName::parse) {
            Some(name) => listing.contenders.push(name),
            None => warn_once(file_name),
        },
    }
}

/// Names the file that says what is asked of a contender.
pub(crate) fn request_name(ticket: Ticket) -> String {
    format!("{REQUEST_PREFIX}{ticket}")
}

fn warn_once(file_name: &CStr) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!(?file_name, "a queue's directory has a file that is not a contender; such files are ignored");
    }
}

/// Reads a queue's name from its directory's.
pub(crate) fn name_of(queues: &Path, encoded: &str) -> Option<QueueName> {
    QueueName::decode(encoded).or_else(|| {
        let target = rustix::fs::readlink(queues.join(encoded).join(NAME), Vec::new()).ok()?;
        QueueName::new(target.to_str().ok()?).ok().filter(|name| name.encoded() == encoded)
    })
}

/// Whether a directory was still there when it was used.
#[derive(Debug)]
pub(crate) enum Locked {
    /// It is there, and we hold its lock.
    Ours,
    /// Another opening holds the lock.
    Busy,
    /// It was removed or replaced: another one has to be opened.
    Removed,
}

/// An open directory of a lock, to enter its queues. The flock belongs to this opening, so it is for one thread at a
/// time.
#[derive(Debug)]
pub(crate) struct QueueDirectory {
    site: Arc<BaseSite>,
    enter: OwnedFd,
    access: DirectoryAccess,
    /// The name that has to be stored before the first entry.
    unnamed: Option<QueueName>,
}

impl QueueDirectory {
    /// Opens a queue's directory, and makes it if it is missing.
    pub(crate) fn open(base: &Base, queue: &QueueName) -> Result<Self, Errno> {
        let encoded = queue.encoded();
        let path = base.queues.join(&encoded);
        for _ in 0..TRIES_MAX {
            let site = match BaseSite::open(path.clone()) {
                Ok(site) => site,
                Err(Errno::NOENT) => {
                    match base.make_queue(&encoded) {
                        // Another process may be removing what we make; then another try makes it.
                        Ok(()) | Err(Errno::NOENT) => continue,
                        Err(errno) => return Err(errno),
                    }
                }
                Err(errno) => return Err(errno),
            };
            let access = DirectoryAccess::within(site.directory())?;
            match shared_files::open_or_make(site.directory(), ENTER, &access) {
                Ok(enter) => {
                    let unnamed = queue.is_digested().then(|| queue.clone());
                    return Ok(Self { site: Arc::new(site), enter, access, unnamed });
                }
                // The directory was removed since we opened it.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::NOENT)
    }

    /// Opens a directory by its path, to tidy it; does not make one.
    pub(crate) fn open_existing(path: &Path) -> Result<Self, Errno> {
        let site = BaseSite::open(path.to_owned())?;
        let access = DirectoryAccess::within(site.directory())?;
        let enter = shared_files::open_or_make(site.directory(), ENTER, &access)?;
        Ok(Self { site: Arc::new(site), enter, access, unnamed: None })
    }

    /// Takes the queue's lock.
    pub(crate) fn lock(&mut self, patience: Patience<'_>) -> Result<Locked, Errno> {
        if !shared_files::lock(&self.enter, patience)? {
            return Ok(Locked::Busy);
        }
        let ready = shared_files::leads_to(&self.site.path().join(ENTER), &self.enter).and_then(|is_there| {
            if is_there {
                self.store_name()?;
            }
            Ok(is_there)
        });
        match ready {
            Ok(true) => Ok(Locked::Ours),
            Ok(false) => {
                self.unlock();
                Ok(Locked::Removed)
            }
            Err(errno) => {
                self.unlock();
                Err(errno)
            }
        }
    }

    /// Gives the queue's lock back.
    pub(crate) fn unlock(&self) {
        shared_files::unlock(&self.enter);
    }

    /// Lists the queue; under its lock, since the position of the listing is shared. Fails with `NOENT` if the
    /// directory was removed.
    pub(crate) fn list(&self) -> Result<DirectoryListing, Errno> {
        list_standing(self.directory().as_fd())
    }

    pub(crate) fn directory(&self) -> &OwnedFd {
        self.site.directory()
    }

    /// Returns it together with its path.
    pub(crate) fn site(&self) -> &Arc<BaseSite> {
        &self.site
    }

    /// Returns the modes of what is made in it.
    pub(crate) const fn access(&self) -> &DirectoryAccess {
        &self.access
    }

    /// Removes a file; it is no error if it is not there.
    pub(crate) fn remove(&self, file_name: &str) -> Result<(), Errno> {
        match rustix::fs::unlinkat(self.directory(), file_name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            outcome => outcome,
        }
    }

    /// Removes what is not needed any more; under its lock.
    pub(crate) fn tidy(&self, listing: &DirectoryListing) {
        // What cannot be removed does no harm, and the next process tries again.
        for name in &listing.unfinished {
            let _ = self.remove(name.as_str());
        }
        // After the entries that they hide.
        for temporary in &listing.temporaries {
            let _ = self.remove(temporary);
        }
        for &ticket in &listing.requested {
            if listing.contenders.iter().all(|name| name.ticket != ticket) {
                let _ = self.remove(&request_name(ticket));
            }
        }
    }

    /// Hides the contenders that get this number or a greater one, until [`QueueDirectory::end_batch`].
    pub(crate) fn begin_batch(&self, first: FencingToken) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(self.directory(), batch_name(first), flags, self.access.mode_of_new(MadeKind::File))
            .map(drop)
    }

    /// Shows them, all at once.
    pub(crate) fn end_batch(&self, first: FencingToken) -> Result<(), Errno> {
        self.remove(&batch_name(first))
    }

    /// Removes the whole directory; under its lock, when it has no contender and no lasting value left.
    ///
    /// A process that waits for the lock meets a file without a name, and starts over. A process that comes after the
    /// lock file is gone and before the directory is makes another lock file, and then the directory stays.
    pub(crate) fn remove_all(&self, path: &Path) -> Result<(), Errno> {
        self.remove(value_name(Part::Waiters))?;
        self.remove(value_name(Part::Permits))?;
        self.remove(NAME)?;
        self.remove(ENTER)?;
        match rustix::fs::rmdir(path) {
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            outcome => outcome,
        }
    }

    fn store_name(&mut self) -> Result<(), Errno> {
        let Some(queue) = &self.unnamed else {
            return Ok(());
        };
        match rustix::fs::symlinkat(queue.as_str(), self.directory(), NAME) {
            Ok(()) | Err(Errno::EXIST) => self.unnamed = None,
            // The directory was removed: there is nothing to name.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }
}

/// Tells whether a file of a lock's directory that is no contender may be one of ours.
pub(crate) fn is_ours(file_name: &str) -> bool {
    [ENTER, NAME].contains(&file_name)
        || [REQUEST_PREFIX, VALUE_PREFIX, shared_files::TEMPORARY_PREFIX]
            .iter()
            .any(|prefix| file_name.starts_with(prefix))
}

fn batch_name(first: FencingToken) -> String {
    format!("{BATCH_PREFIX}{:020}", first.as_u64())
}

/// Reads the number in the name of a batch's mark; `None` if it is none.
fn first_of_batch(name: &str) -> Option<u64> {
    name.strip_prefix(BATCH_PREFIX)?.parse().ok()
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ContenderState {
    /// Some process holds its write end.
    Alive,
    Left,
    /// It was broken; its name has to go before a waiter goes on.
    Broken,
    /// No process holds its write end any more.
    Dead,
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::clock::SystemClock;

    use super::*;

    fn base(directory: &Path) -> Base {
        Base::open(directory, Arc::new(SystemClock)).unwrap()
    }

    #[test]
    fn an_entrant_who_waited_while_the_directory_was_removed_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let base = base(directory.path());
        let queue = QueueName::new("q").unwrap();
        let mut reaper = QueueDirectory::open(&base, &queue).unwrap();
        let mut entrant = QueueDirectory::open(&base, &queue).unwrap();
        assert!(matches!(reaper.lock(Patience::Now), Ok(Locked::Ours)));
        assert!(matches!(entrant.lock(Patience::Now), Ok(Locked::Busy)));
        reaper.remove_all(&base.queue_path(&queue)).unwrap();
        reaper.unlock();
        assert!(matches!(entrant.lock(Patience::Now), Ok(Locked::Removed)));
        assert!(!base.queue_path(&queue).exists());
        let mut again = QueueDirectory::open(&base, &queue).unwrap();
        assert!(matches!(again.lock(Patience::Now), Ok(Locked::Ours)));
    }

    #[test]
    fn a_name_that_is_stored_as_a_digest_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let base = base(directory.path());
        let queue = QueueName::new(&"/é".repeat(66)).unwrap();
        assert!(queue.is_digested());
        let mut opened = QueueDirectory::open(&base, &queue).unwrap();
        assert!(matches!(opened.lock(Patience::Now), Ok(Locked::Ours)));
        assert_eq!(name_of(&base.queues, &queue.encoded()), Some(queue));
    }

    #[test]
    fn a_directory_that_is_removed_while_it_is_read_shows_no_contender() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("q");
        std::fs::create_dir(&path).unwrap();
        let opened = shared_files::open_directory(&path).unwrap();
        std::fs::remove_dir(&path).unwrap();
        assert!(list(opened.as_fd()).unwrap().contenders.is_empty());
    }

    #[test]
    fn files_that_are_not_contenders_are_not_listed() {
        let directory = tempfile::tempdir().unwrap();
        let temporary = format!(".new-{:032x}", 7);
        let others = ["readme", ".enter", ".new-x", ".new-batch-x", "00000000000000000001-0-mutex-1-h-c", ".ask-me"];
        for name in others.into_iter().chain([temporary.as_str()]) {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let listing = list(shared_files::open_directory(directory.path()).unwrap().as_fd()).unwrap();
        assert_eq!((listing.contenders.len(), listing.temporaries), (0, vec![temporary]));
        assert_eq!((listing.requested, listing.has_lasting_value), (Vec::new(), false));
    }
}
