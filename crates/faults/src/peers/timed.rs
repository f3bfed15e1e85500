//! Locks that a peer times within its own process, so that no pipe is in the figures.

use std::time::Duration;

use super::{Kind, Peer};
use crate::{Error, Result};

/// How the threads of a crowd come to their locks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sharing {
    /// One lock, an object of it for each thread.
    Each,
    /// One lock, one object of it for all threads.
    Shared,
    /// A separate lock for each thread.
    Own,
}

/// What a crowd of threads was granted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TimedCrowd {
    /// From the first request to the last release.
    pub took: Duration,
    /// How often each thread had its lock.
    pub grants: Vec<u64>,
}

impl Peer {
    /// Takes the lock and gives it back `count` times, with a pause after each; answers the times, without the pauses.
    /// Curator and kazoo only.
    pub async fn time_alone(&mut self, path: &str, count: u32, pause: Duration) -> Result<Vec<Duration>> {
        let arguments = [&Kind::Mutex.word(), path, &count.to_string(), &pause.as_micros().to_string()];
        let times = self.ask("time-alone", &arguments, pause * count).await?;
        self.times("time-alone", &times)
    }

    /// Tries `count` times to take a lock that another client holds; answers the times. Curator only.
    pub async fn time_refused(&mut self, path: &str, count: u32) -> Result<Vec<Duration>> {
        let times = self.ask("time-refused", &[&Kind::Mutex.word(), path, &count.to_string()], Duration::ZERO).await?;
        self.times("time-refused", &times)
    }

    /// Lets so many threads take a lock and give it back for this time. Curator only.
    pub async fn time_crowd(
        &mut self,
        path: &str,
        sharing: Sharing,
        threads: usize,
        time: Duration,
    ) -> Result<TimedCrowd> {
        let (threads, millis) = (threads.to_string(), time.as_millis().to_string());
        let arguments = [&Kind::Mutex.word(), path, &threads, &millis, sharing.word()];
        let figures = self.ask("time-crowd", &arguments, time).await?;
        self.crowd("time-crowd", &figures)
    }

    /// Lets so many threads take a read/write lock for this time, each by a separate object; of so many grants of a
    /// thread, one is to write. Curator only.
    pub async fn time_mixed(
        &mut self,
        path: &str,
        one_in_so_many: u32,
        threads: usize,
        time: Duration,
    ) -> Result<TimedCrowd> {
        let (threads, millis) = (threads.to_string(), time.as_millis().to_string());
        let arguments = [&Kind::Read.word(), path, &threads, &millis, &one_in_so_many.to_string()];
        let figures = self.ask("time-mixed", &arguments, time).await?;
        self.crowd("time-mixed", &figures)
    }

    fn crowd(&self, command: &str, figures: &[String]) -> Result<TimedCrowd> {
        let numbers = self.numbers(command, figures)?;
        match numbers.split_first() {
            Some((took, grants)) => Ok(TimedCrowd { took: Duration::from_nanos(*took), grants: grants.to_vec() }),
            None => Err(self.unexpected(command, figures)),
        }
    }

    fn times(&self, command: &str, figures: &[String]) -> Result<Vec<Duration>> {
        Ok(self.numbers(command, figures)?.into_iter().map(Duration::from_nanos).collect())
    }

    fn numbers(&self, command: &str, figures: &[String]) -> Result<Vec<u64>> {
        let numbers: std::result::Result<Vec<u64>, _> = figures.iter().map(|figure| figure.parse()).collect();
        numbers.map_err(|_: std::num::ParseIntError| -> Error { self.unexpected(command, figures) })
    }
}

impl Sharing {
    const fn word(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::Shared => "shared",
            Self::Own => "own",
        }
    }
}
