//! The contenders that are written in Rust: this program, started again.

use std::path::PathBuf;

use clap::Subcommand;
use lockkeeper_faults::{Error, Result, process};
use tokio::time;

use super::{Place, ours, postgres, rslock};
use crate::contender::{ANSWERS_EVERY, Program};

/// Why a contender could not go on, in words.
pub(super) type Contention<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Which contender this program is started as.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Kind {
    Ours,
    Rslock,
    Shedlock,
    Advisory,
}

/// What this program starts itself for.
#[derive(Debug, Subcommand)]
pub(crate) enum Part {
    /// Be a contender.
    #[command(hide = true)]
    Contend {
        kind: Kind,
        /// A URL, or the addresses of servers.
        service: String,
        lock: String,
    },
}

/// The program of a contender of ours.
pub(super) fn program(kind: Kind, service: &str, place: &Place) -> Result<Program> {
    let path: PathBuf = std::env::current_exe().map_err(Error::io("this program"))?;
    let mut command = process::command(path);
    let kind = clap::ValueEnum::to_possible_value(&kind).expect("no kind is left out");
    command.args(["contend", kind.get_name(), service, &place.lock]);
    Ok(Program::new(command))
}

impl Part {
    /// Contends until the process is killed.
    pub(crate) fn play(&self) -> Contention<()> {
        let Self::Contend { kind, service, lock } = self;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        runtime.block_on(async {
            match kind {
                Kind::Ours => ours::contend(service, lock).await,
                Kind::Rslock => rslock::contend(service, lock).await,
                Kind::Shedlock => postgres::contend_with_shedlock(service, lock).await,
                Kind::Advisory => postgres::contend_with_advisory(service).await,
            }
        })
    }
}

/// Says that it asks for the lock now.
pub(super) fn say_waiting() {
    println!("waiting");
}

/// Says that it holds the lock.
pub(super) fn say_granted(token: Option<u64>) {
    match token {
        Some(token) => println!("granted {token}"),
        None => println!("granted -"),
    }
}

/// Answers for ever whether it believes that it holds the lock.
pub(super) async fn answer(mut believes: impl AsyncFnMut() -> bool) {
    loop {
        println!("{}", if believes().await { "yes" } else { "no" });
        time::sleep(ANSWERS_EVERY).await;
    }
}
