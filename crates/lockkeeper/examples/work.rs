//! Work that must not outlive its lock, and a resource that refuses a holder that was overtaken.

use std::time::Duration;

use lockkeeper::{FencingToken, Hold};

/// A resource that remembers the greatest token it has seen.
#[derive(Default)]
struct Ledger {
    seen: Option<FencingToken>,
    lines: Vec<String>,
}

impl Ledger {
    fn append(&mut self, token: FencingToken, line: String) -> Result<(), String> {
        if self.seen > Some(token) {
            return Err(format!("token {token} was overtaken"));
        }
        self.seen = Some(token);
        self.lines.push(line);
        Ok(())
    }
}

// README: begin
#[tokio::main]
async fn main() -> Result<(), lockkeeper::Error> {
    let keeper = lockkeeper::connect("memory:")?;
    let ledger = keeper.mutex("ledger")?;

    // The closure is dropped at its next await if the lock is lost.
    let written = ledger.run(write_report).await?;
    println!("{written} line(s)");

    // Or wait for a while only.
    match ledger.lock_timeout(Duration::from_secs(5)).await? {
        Some(_guard) => println!("ours until the end of this block"),
        None => println!("busy for five seconds"),
    }
    Ok(())
}

async fn write_report(hold: Hold) -> usize {
    let mut ledger = Ledger::default();
    if hold.is_held() {
        ledger.append(hold.fencing_token(), "report".to_owned()).expect("no writer has a greater token");
    }
    ledger.lines.len()
}
// README: end
