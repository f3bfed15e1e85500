//! kazoo's `Lock`, in Python.

use lockkeeper_faults::peers::kazoo;
use lockkeeper_faults::{Result, process};

use super::{Owner, Place, Rival, TIMEOUT};
use crate::contender::{ANSWERS_EVERY, Program};
use crate::stage::Service;

pub(super) const RIVAL: Rival = Rival {
    name: "kazoo `Lock`",
    owner: Owner::Other,
    service: Service::ZooKeeper,
    asks: "`is_acquired`, and no `SUSPENDED` or `LOST` was heard",
    availability: kazoo::availability,
    program,
};

fn program(place: &Place) -> Result<Program> {
    let mut command = process::command("python3");
    command.env("PYTHONPATH", kazoo::packages()?);
    command.args(["-c", include_str!("../../contenders/kazoo_contender.py"), &place.hosts()]);
    command.arg(TIMEOUT.as_secs_f64().to_string()).arg(format!("/{}", place.lock));
    command.arg(ANSWERS_EVERY.as_secs_f64().to_string());
    Ok(Program::new(command))
}
