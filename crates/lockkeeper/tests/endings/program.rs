//! The other process: a program that takes the lock, says so, waits for a word, and ends.

use std::fmt;
use std::io::{BufRead as _, Write as _};

use lockkeeper::blocking;
use tokio::runtime::Builder;

use crate::threads::Threads;

/// What tells this binary to be the other process: its runtime, its end, and the URL.
pub(crate) const PROGRAM: &str = "LOCKKEEPER_TEST_ENDING";

/// The lock.
pub(crate) const LOCK: &str = "ending";

/// What becomes of its guard when `main` ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    JustDropped,
    /// A task has it, or a variable of `main` where there are no tasks.
    Held,
    Panic,
}

/// A program.
pub(crate) struct Program {
    threads: Threads,
    way: Way,
    url: String,
}

impl Program {
    /// All programs on one service.
    pub(crate) fn all(url: &str) -> impl Iterator<Item = Self> {
        let ways = [Way::JustDropped, Way::Held, Way::Panic];
        Threads::ALL.into_iter().flat_map(move |threads| ways.map(|way| Self { threads, way, url: url.to_owned() }))
    }

    /// What it is told.
    pub(crate) fn told(&self) -> String {
        format!("{self:?} {}", self.url)
    }

    /// Reads what it is told.
    pub(crate) fn read(told: &str) -> Self {
        let of = |told: &str| Self::all("").find(|program| format!("{program:?}") == told);
        let (program, url) = told.rsplit_once(' ').expect("a program and a URL");
        Self { url: url.to_owned(), ..of(program).expect("one of all") }
    }

    /// Plays it.
    pub(crate) fn play(&self) {
        let mut builder = match self.threads {
            Threads::One => Builder::new_current_thread(),
            Threads::Several => Builder::new_multi_thread(),
            Threads::Blocking => return self.play_blocking(),
        };
        builder.worker_threads(2).enable_all().build().unwrap().block_on(async {
            let keeper = lockkeeper::connect(self.url.as_str()).unwrap();
            let guard = keeper.mutex(LOCK).unwrap().lock().await.unwrap();
            tokio::task::spawn_blocking(until_told).await.unwrap();
            match self.way {
                Way::JustDropped => drop(guard),
                Way::Held => {
                    tokio::spawn(async move {
                        std::future::pending::<()>().await;
                        drop(guard);
                    });
                    tokio::task::yield_now().await;
                }
                Way::Panic => panic!("as it should"),
            }
        });
    }

    fn play_blocking(&self) {
        let keeper = blocking::connect(self.url.as_str()).unwrap();
        let guard = keeper.mutex(LOCK).unwrap().lock().unwrap();
        until_told();
        match self.way {
            Way::JustDropped => drop(guard),
            Way::Held => {}
            Way::Panic => panic!("as it should"),
        }
    }
}

/// Says that the lock is held, and waits for a word.
fn until_told() {
    println!("held");
    std::io::stdout().flush().unwrap();
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}

impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {:?}", self.threads, self.way)
    }
}
