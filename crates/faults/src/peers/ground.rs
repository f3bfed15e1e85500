//! The folder in which all holders of a lock write down their turns, so that two holders inside at once are seen; and
//! the Rust side of its rules.
//!
//! In the folder lie:
//!
//! - `inside/`: an empty file `MODE.PID.NAME` for each holder that is inside now. MODE is `write`, `read` or `permit`.
//! - `stay`: how many milliseconds to stay inside.
//! - `number`: a decimal number. A writer reads it, stays, and writes it plus one; others read it before and after.
//! - `grants`: a line `MODE`, `PID.NAME`, `NODE` for each grant, with tabs between them; NODE is the name of its node.
//! - `faults`: a line for each thing that should not have been seen.
//!
//! Under a granted lock a holder creates its file in `inside/`, lists the folder, and writes down a fault if it meets a
//! holder that it must not meet: a writer must meet no other holder, others must meet none of another mode. Then come
//! the line in `grants` and the number, and the file is removed before the lock is released. Of two that overlap, the
//! later one always sees the other, so nothing depends on timing. The test judges how many permits there may be at
//! once.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time;

use crate::scratch::Scratch;
use crate::{Error, Result};

/// How long a holder stays inside by default: others have the time to come in if nothing keeps them out.
const STAY: Duration = Duration::from_millis(1);

/// ZooKeeper ends the name of a sequential node with this many digits.
const SEQUENCE_DIGITS: usize = 10;

/// What a holder may meet inside.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Mode {
    /// No other holder: it holds a mutex, or the write side of a lock.
    Write,
    /// Other readers.
    Read,
    /// Other holders of permits.
    Permit,
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Permit => "permit",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Write, Self::Read, Self::Permit].into_iter().find(|mode| mode.word() == word)
    }
}

/// One grant, as its holder wrote it down.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Grant {
    /// How it was held.
    pub mode: Mode,
    /// `PID.NAME`; a peer's names are the numbers of its threads, from 0.
    pub who: String,
    /// The name of its node, without the path.
    pub node: String,
}

impl Grant {
    /// The node's place in line; `None` if its name does not end in digits (a lease of kazoo's).
    pub fn sequence(&self) -> Option<u32> {
        let start = self.node.len().checked_sub(SEQUENCE_DIGITS)?;
        self.node.get(start..)?.parse().ok()
    }
}

/// A ground: empty at first, removed with its last clone.
#[derive(Clone, Debug)]
pub struct Ground {
    folder: Arc<Scratch>,
    stay: Duration,
}

impl Ground {
    /// Makes one with the number 0, where a visit lasts a millisecond.
    pub fn new() -> Result<Self> {
        Self::with_stay(STAY)
    }

    /// Makes one with the number 0, where a visit lasts this many whole milliseconds. A semaphore of Curator's or
    /// kazoo's needs some milliseconds for a grant: visits must last longer for its holders to meet.
    pub fn with_stay(stay: Duration) -> Result<Self> {
        let folder = Scratch::new()?;
        let millis = stay.as_millis().to_string();
        for (file, text) in [("stay", millis.as_str()), ("number", "0"), ("grants", ""), ("faults", "")] {
            fs::write(folder.path().join(file), text).map_err(Error::io(file))?;
        }
        fs::create_dir(folder.path().join("inside")).map_err(Error::io("inside"))?;
        Ok(Self { folder: Arc::new(folder), stay })
    }

    /// Its folder, for processes that follow the rules themselves.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Goes inside, under a lock that is held: looks for other holders, and writes the grant down.
    ///
    /// `who` tells the contenders of this process apart; `node` is the name or path of the hold's node.
    pub fn enter(&self, mode: Mode, who: &str, node: &str) -> Result<Inside> {
        let who = format!("{}.{who}", std::process::id());
        let own = self.folder().join("inside").join(format!("{}.{who}", mode.word()));
        OpenOptions::new().create_new(true).write(true).open(&own).map_err(Error::io(own.display()))?;
        let mut inside = Inside { ground: self.clone(), own, mode, seen: 0, number: 0 };
        inside.look()?;
        let node = node.rsplit('/').next().unwrap_or(node);
        self.append("grants", &format!("{}\t{who}\t{node}", mode.word()))?;
        inside.number = self.number()?;
        Ok(inside)
    }

    /// Enters, stays and leaves; answers how many were inside, itself among them. What peers do.
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves without counting.
    pub async fn visit(&self, mode: Mode, who: &str, node: &str) -> Result<usize> {
        let inside = self.enter(mode, who, node)?;
        let seen = inside.seen();
        time::sleep(self.stay).await;
        inside.leave()?;
        Ok(seen)
    }

    /// The number: how many writers have left, if none met another.
    pub fn number(&self) -> Result<u64> {
        let text = self.read("number")?;
        text.trim().parse().map_err(|_| Error::new(format!("no number, but: {text}")))
    }

    /// What should not have been seen; empty if all is well.
    pub fn faults(&self) -> Result<Vec<String>> {
        Ok(self.read("faults")?.lines().map(str::to_owned).collect())
    }

    /// All grants in the order in which they were written down: for a writer, that of the grants.
    pub fn grants(&self) -> Result<Vec<Grant>> {
        self.read("grants")?.lines().map(|line| grant(line).ok_or_else(|| Error::new(line))).collect()
    }

    /// The writers that came in before a contender with a place ahead of theirs: the later of each two, in its words.
    ///
    /// Only for locks whose holders are all in one line of sequential nodes, which is not recreated meanwhile.
    pub fn overtaken(&self) -> Result<Vec<Grant>> {
        let mut last = None;
        let mut overtaken = Vec::new();
        for grant in self.grants()?.into_iter().filter(|grant| grant.mode == Mode::Write) {
            let sequence = grant.sequence().ok_or_else(|| Error::new(format!("no sequence: {}", grant.node)))?;
            if last.is_some_and(|last| sequence < last) {
                overtaken.push(grant);
            } else {
                last = Some(sequence);
            }
        }
        Ok(overtaken)
    }

    /// Removes a process that was killed inside; to be called before another contender can be granted its lock.
    pub fn forget(&self, process_id: u32) -> Result<()> {
        let infix = format!(".{process_id}.");
        for name in self.inside()?.into_iter().filter(|name| name.contains(&infix)) {
            fs::remove_file(self.folder().join("inside").join(&name)).map_err(Error::io(name))?;
        }
        Ok(())
    }

    /// The holders that are inside now, as `MODE.PID.NAME`.
    pub fn inside(&self) -> Result<Vec<String>> {
        let folder = self.folder().join("inside");
        let entries = fs::read_dir(&folder).map_err(Error::io(folder.display()))?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        names.collect::<std::io::Result<_>>().map_err(Error::io(folder.display()))
    }

    fn read(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.folder().join(file)).map_err(Error::io(file))
    }

    /// Appends a line in one call, so that the lines of several do not mix.
    fn append(&self, file: &str, line: &str) -> Result<()> {
        let opened = OpenOptions::new().append(true).open(self.folder().join(file));
        opened.and_then(|mut opened| opened.write_all(format!("{line}\n").as_bytes())).map_err(Error::io(file))
    }
}

/// A visit. Dropping it leaves without counting, as a holder does that has lost the lock.
#[derive(Debug)]
#[must_use = "dropping it leaves at once"]
pub struct Inside {
    ground: Ground,
    own: PathBuf,
    mode: Mode,
    seen: usize,
    number: u64,
}

impl Inside {
    /// How many were inside when this one had come in, itself among them.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Leaves: a writer counts the number up, others check that it has not changed.
    pub fn leave(self) -> Result<()> {
        if self.mode == Mode::Write {
            // Not truncated: a process that does not wait for us must not find it empty.
            let opened = OpenOptions::new().write(true).open(self.ground.folder().join("number"));
            let text = (self.number + 1).to_string();
            return opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::io("number"));
        }
        let (before, after) = (self.number, self.ground.number()?);
        match before == after {
            true => Ok(()),
            false => self.ground.append("faults", &format!("{} read {before} and then {after}", self.name())),
        }
    }

    fn look(&mut self) -> Result<()> {
        let names = self.ground.inside()?;
        self.seen = names.len();
        let own = self.name();
        let shared = format!("{}.", self.mode.word());
        let may_meet = |name: &str| name == own || self.mode != Mode::Write && name.starts_with(&shared);
        let met: Vec<&str> = names.iter().map(String::as_str).filter(|name| !may_meet(name)).collect();
        match met.is_empty() {
            true => Ok(()),
            false => self.ground.append("faults", &format!("{own} met {}", met.join(" "))),
        }
    }

    fn name(&self) -> String {
        self.own.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // It may be absent: the ground may be gone before the visit ends.
        let _ = fs::remove_file(&self.own);
    }
}

fn grant(line: &str) -> Option<Grant> {
    let mut fields = line.split('\t');
    let grant =
        Grant { mode: Mode::parse(fields.next()?)?, who: fields.next()?.to_owned(), node: fields.next()?.to_owned() };
    fields.next().is_none().then_some(grant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_meets_one_it_must_not_meet_writes_it_down() {
        let faults_of = |first, second| {
            let ground = Ground::new().expect("a ground");
            let first = ground.enter(first, "first", "n-0000000001").expect("entered");
            let second = ground.enter(second, "second", "n-0000000002").expect("entered");
            assert_eq!((first.seen(), second.seen()), (1, 2));
            second.leave().expect("left");
            first.leave().expect("left");
            ground.faults().expect("faults").len()
        };
        use Mode::{Permit, Read, Write};
        for (first, second) in [(Read, Read), (Permit, Permit)] {
            assert_eq!(faults_of(first, second), 0, "{first:?} and {second:?}");
        }
        for (first, second) in [(Write, Write), (Write, Permit), (Permit, Read)] {
            assert_eq!(faults_of(first, second), 1, "{first:?} and {second:?}");
        }
        // The writer is met, and what it has written is read.
        assert_eq!(faults_of(Read, Write), 2);
    }

    #[test]
    fn a_writer_ahead_of_one_that_was_granted_before_it_was_overtaken() {
        let ground = Ground::new().expect("a ground");
        for sequence in [3, 5, 4, 6] {
            let node = format!("x-lock-{sequence:010}");
            ground.enter(Mode::Write, "one", &node).and_then(Inside::leave).expect("in and out");
        }
        let overtaken = ground.overtaken().expect("grants");
        assert_eq!(overtaken.iter().map(Grant::sequence).collect::<Vec<_>>(), [Some(4)]);
    }

    #[test]
    fn what_a_killed_process_left_is_forgotten_and_nothing_else() {
        let ground = Ground::new().expect("a ground");
        let ours = ground.enter(Mode::Write, "one", "n").expect("entered");
        fs::write(ground.folder().join("inside/write.1.0"), "").expect("writable");
        ground.forget(1).expect("removed");
        assert_eq!(ground.inside().expect("one").len(), 1);
        ours.leave().expect("left");
    }
}
