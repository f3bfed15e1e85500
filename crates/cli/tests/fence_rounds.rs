//! `fence` in long rounds: holders that are overtaken between their check and their write.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lockkeeper_faults::long;
use tempfile::TempDir;

/// How often a holder is overtaken.
const ROUNDS_LONG: u32 = 1_000;

/// One round in so many has the overtaken holder write after the other for certain. In the next both begin at once,
/// and the overtaken one takes long; in the one after that the scheduler decides.
const LATE_EVERY: u32 = 3;

/// How long the write of the overtaken holder takes in one round of [`LATE_EVERY`], in seconds: longer than the start
/// of a process.
const SLOW_WRITE_S: &str = "0.01";

/// A resource: a file to which holders append their tokens, with or without a fence before it.
struct Resource<'a> {
    log: &'a Path,
    fence: Option<&'a Path>,
}

impl Resource<'_> {
    /// Starts the write of a holder that has checked its lock; `before` is what it does first.
    fn write(&self, token: u32, before: &str) -> Child {
        let script = format!("{before} echo $LOCKKEEPER_TOKEN >> {}", self.log.display());
        let mut command = match self.fence {
            Some(fence) => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
                command.arg("fence").arg(fence).args(["--", "sh"]);
                command
            }
            None => Command::new("sh"),
        };
        command.args(["-c", &script]).env("LOCKKEEPER_TOKEN", token.to_string()).env("LOCKKEEPER_NAME", "x");
        command.stderr(Stdio::null()).spawn().unwrap()
    }

    /// Plays the rounds; returns the tokens in the order in which they were written.
    fn play(&self, rounds: u32) -> Vec<u32> {
        for round in 1..=rounds {
            let (overtaken, current) = (2 * round, 2 * round + 1);
            if round % LATE_EVERY == 0 {
                assert_eq!(code(self.write(current, "")), Some(0), "round {round}");
                let refused = if self.fence.is_some() { 123 } else { 0 };
                assert_eq!(code(self.write(overtaken, "")), Some(refused), "round {round}");
            } else {
                let before = if round % LATE_EVERY == 1 { format!("sleep {SLOW_WRITE_S};") } else { String::new() };
                for writer in [self.write(overtaken, &before), self.write(current, "")] {
                    let code = code(writer);
                    assert!(matches!(code, Some(0 | 123)), "round {round}: {code:?}");
                }
            }
        }
        let text = fs::read_to_string(self.log).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

fn code(mut child: Child) -> Option<i32> {
    child.wait().unwrap().code()
}

fn stale_writes(tokens: &[u32]) -> usize {
    tokens.windows(2).filter(|pair| pair[1] < pair[0]).count()
}

#[test]
fn overtaken_holders_write_nothing_behind_a_fence_and_something_without_one() {
    let rounds = long::rounds(ROUNDS_LONG);
    let place = TempDir::new().unwrap();
    let (fenced, bare, fence) = (place.path().join("fenced"), place.path().join("bare"), place.path().join("fence"));

    let tokens = Resource { log: &fenced, fence: Some(&fence) }.play(rounds);
    assert_eq!(stale_writes(&tokens), 0, "in {rounds} rounds");
    let current = tokens.iter().filter(|token| *token % 2 == 1).count();
    assert_eq!(current, rounds as usize, "each holder that was not overtaken has written");

    let found = stale_writes(&Resource { log: &bare, fence: None }.play(rounds));
    assert!(found >= (rounds / LATE_EVERY) as usize, "{found} stale writes in {rounds} rounds without a fence");
    println!("{rounds} rounds: 0 stale writes behind the fence, {found} without it");
}
