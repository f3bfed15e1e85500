//! A simulated machine that uses a service of many machines: its config file names the service.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockkeeper_faults::{figures, long, wait};

use crate::support::{Ended, PATIENCE, Place, Running, eventually, now};

/// How long anything may take that a healthy service does, also on a machine with other work to do.
pub(crate) const SOON: Duration = PATIENCE;

/// Long enough for commands that are started fifty at once.
pub(crate) const SETTINGS: &str = "session_timeout=30s";

/// How many commands count at once.
pub(crate) const COUNTING: usize = 50;

/// Asserts that a lock was handed on in time after its holder's death, in the long run: on a machine that other tests
/// use as well, what is late says nothing.
pub(crate) fn assert_in_time(took: Duration, within: Duration) {
    assert!(!long::is_asked_for() || took <= within, "{took:?}");
}

/// What a command says of itself that ends before its lock was given back.
const LATE: &str = "it stays taken until the session ends at the service";

/// Tells a command whose pids are its arguments whether any of them is alive.
pub(crate) const ALL_DEAD: &str = r#"
    for pid in "$@"; do
        case "$(sed 's/.*) //' /proc/$pid/stat 2>/dev/null)" in ''|Z*|X*) ;; *) exit 1 ;; esac
    done
    echo $$ > next"#;

/// Reads, waits for the disk and writes: without exclusion, hardly any of fifty survives. The command with the number
/// `$1` waits until the service has changed.
const COUNT: &str = r#"
    read number < counter
    if [ "$number" = "$1" ]; then while [ ! -e changed ]; do sleep 0.01; done; fi
    sync counter
    echo $((number + 1)) > counter"#;

/// No command of a fleet has this number.
const NEVER: usize = usize::MAX;

/// What a service does while commands use it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    Begins,
    Ends,
}

/// A machine that uses a service.
pub(crate) struct Site {
    place: Place,
    /// Whether a command has ended before its lock was given back.
    is_late: AtomicBool,
}

impl Deref for Site {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Site {
    /// A machine that uses the service of this URL.
    pub(crate) fn of(url: &str) -> Self {
        Self { place: Place::of(url), is_late: AtomicBool::new(false) }
    }

    /// Starts `lockkeeper run OPTIONS NAME -- sh -c SCRIPT sh ARGUMENT…`.
    pub(crate) fn start(&self, options: &[&str], name: &str, script: &str, arguments: &[String]) -> Running {
        let line = [&["run"], options, &[name, "--", "sh", "-c", script, "sh"]].concat();
        Running::start(self.command(&line).args(arguments).current_dir(self.notes()))
    }

    /// Starts it and waits until it stands in the queue behind `ahead` others.
    pub(crate) fn join(&self, name: &str, ahead: usize, script: &str, arguments: &[String]) -> Running {
        let running = self.start(&["-q"], name, script, arguments);
        eventually("it has joined", || (self.contenders(name)? > ahead).then_some(()));
        running
    }

    /// How many stand in a queue; none while the service elects a leader and refuses every look.
    fn contenders(&self, name: &str) -> Option<usize> {
        let shown = self.run(&["show", "--json", name]);
        if shown.code == Some(0) {
            return Some(shown.json()["contenders"].as_array().unwrap().len());
        }
        assert_eq!(shown.code, Some(125), "{shown:?}");
        None
    }

    /// Waits for the end of commands, and asserts that all succeed and say nothing. On a busy machine one may say that
    /// it has ended before its lock was given back.
    pub(crate) fn succeed(&self, commands: Vec<Running>) {
        for command in commands {
            let Ended { code, stderr: said, .. } = command.end();
            let is_late = said.lines().count() == 1 && said.contains(LATE);
            self.is_late.fetch_or(is_late, Ordering::Relaxed);
            assert!(code == Some(0) && (said.is_empty() || is_late), "{code:?}: {said}");
        }
    }

    /// Asserts that no queue is in use; if a command has said that it ended too early for that, once its session is
    /// over.
    pub(crate) fn assert_nothing_left(&self) {
        if self.is_late.load(Ordering::Relaxed) {
            eventually("no queue is in use", || self.run(&["ls"]).stdout.is_empty().then_some(()));
        }
        assert_eq!(self.printed(&["ls"]), "");
    }

    /// Has fifty commands count at once, and asserts that none is lost and that nothing is left.
    pub(crate) fn fifty_count(&self, who: &str) {
        self.counted(who, self.fifty(NEVER));
    }

    /// The same while a service changes: it begins when so many have counted, and ends when half have. Until then one
    /// command holds the lock.
    pub(crate) async fn fifty_count_over(&self, who: &str, after: usize, mut change: impl AsyncFnMut(Change)) {
        let fifty = self.fifty(COUNTING / 2);
        self.until_counted(after).await;
        change(Change::Begins).await;
        self.until_counted(COUNTING / 2).await;
        change(Change::Ends).await;
        self.write("changed", "");
        self.counted(who, fifty);
    }

    /// Starts them; answers when that was begun.
    fn fifty(&self, waits: usize) -> (Instant, Vec<Running>) {
        self.write("counter", "0\n");
        let begun = now();
        (begun, (0..COUNTING).map(|_| self.start(&["-q"], "count", COUNT, &[waits.to_string()])).collect())
    }

    fn counted(&self, who: &str, (begun, commands): (Instant, Vec<Running>)) {
        self.succeed(commands);
        assert_eq!(self.read("counter"), format!("{COUNTING}\n"));
        self.assert_nothing_left();
        let took = begun.elapsed().as_secs_f64();
        figures::tell(&format!("{who}: {COUNTING} counted in {took:.1} s, none lost"));
    }

    async fn until_counted(&self, number: usize) {
        // Empty for a moment while it is written.
        let reached = async || self.read("counter").trim().parse().ok().filter(|&counted: &usize| counted >= number);
        wait::until(&format!("counting up to {number}"), SOON, reached).await.unwrap();
    }
}
