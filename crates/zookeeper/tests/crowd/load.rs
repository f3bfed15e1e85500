//! Work that keeps every core busy, beside what is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    None,
    EveryCore,
}

/// Threads that never wait, until this is dropped.
#[derive(Debug)]
pub(crate) struct Loaded {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn begin(self) -> Loaded {
        let is_over = Arc::new(AtomicBool::new(false));
        let count = match self {
            Self::None => 0,
            Self::EveryCore => thread::available_parallelism().map_or(2, usize::from),
        };
        let spin = |_| {
            let is_over = is_over.clone();
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..count).map(spin).collect();
        Loaded { is_over, threads }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
