//! `flock(1)`, which becomes the program that it runs under the lock.

use lockkeeper_faults::{Availability, Error, Result, process};

use super::{Owner, Place, Rival};
use crate::contender::{Line, Program, Tells};
use crate::stage::Service;

pub(super) const RIVAL: Rival = Rival {
    name: "`flock(1)`",
    owner: Owner::Other,
    service: Service::Files,
    asks: "its process runs",
    availability,
    program,
};

fn availability() -> Availability {
    process::availability()
}

/// Says that it asks, and runs what says that it is granted; that lasts longer than a round.
const CONTENDER: &str = "echo waiting; exec flock --no-fork \"$0\" sh -c 'echo granted -; exec sleep 600'";

fn program(place: &Place) -> Result<Program> {
    std::fs::create_dir_all(&place.folder).map_err(Error::io(place.folder.display()))?;
    let mut command = process::command("sh");
    command.args(["-c", CONTENDER]).arg(place.folder.join(&place.lock));
    Ok(Program { command, tells: Tells::ByRunning, parse: Line::parse })
}
