//! Locks in a program of threads, without a runtime: the thread that locks is the owner, and may lock again.

use lockkeeper::blocking::{self, Keeper};

// README: begin
fn main() -> Result<(), lockkeeper::Error> {
    let keeper = blocking::connect("memory:")?;
    std::thread::scope(|scope| {
        let keeper = &keeper;
        let workers = [1, 2, 3].map(|worker| scope.spawn(move || work(keeper, worker)));
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })
}

fn work(keeper: &Keeper, worker: u32) -> Result<(), lockkeeper::Error> {
    let report = keeper.mutex("report")?;
    let _outer = report.lock()?; // one worker at a time
    let inner = report.lock()?; // the thread has it already: no wait
    println!("worker {worker} writes with token {}", inner.fencing_token());
    Ok(())
}
// README: end
