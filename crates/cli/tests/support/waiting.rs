//! Waiting for what must happen, up to a deadline.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a thing that must happen may take, on a machine with many times the work that it can do. What a test has
/// running meanwhile, so that it does not end by itself, runs for longer.
pub(crate) const PATIENCE: Duration = lockkeeper_faults::wait::PATIENCE;

#[expect(clippy::disallowed_methods, reason = "a test's own deadline")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// How long the pauses between looks become: what is waited for needs the processor too.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Waits until `look` finds something.
#[expect(clippy::disallowed_methods, reason = "pauses between looks, up to a deadline")]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let (deadline, mut pause) = (now() + PATIENCE, Duration::from_millis(2));
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(now() < deadline, "waited in vain until {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Does something that must end in time.
pub(crate) fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(work());
    });
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("waited in vain until {what}"))
}

/// Waits for a file with a whole line and returns the number in it.
pub(crate) fn number_in(file: &Path) -> i32 {
    eventually(&format!("a number is in {}", file.display()), || {
        fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok()
    })
}
