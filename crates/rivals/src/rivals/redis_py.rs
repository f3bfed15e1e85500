//! redis-py's `Lock` with a thread that renews it, as Redisson's watchdog does; in Python.

use lockkeeper_faults::{Availability, Error, Packages, Result, process};

use super::{Owner, Place, Rival, TIMEOUT};
use crate::contender::{ANSWERS_EVERY, Program};
use crate::stage::Service;

pub(super) const RIVAL: Rival = Rival {
    name: "redis-py `Lock`, renewed",
    owner: Owner::Other,
    service: Service::Redis,
    asks: "`owned()`, which asks the server, and no renewal was refused",
    availability,
    program,
};

const PACKAGES: Packages = Packages::new("redis-py", include_str!("../../../faults/python/redis-py.txt"));

fn availability() -> Availability {
    PACKAGES.availability()
}

fn program(place: &Place) -> Result<Program> {
    let [address] = place.addresses[..] else { return Err(Error::new("it knows one server")) };
    let mut command = process::command("python3");
    command.env("PYTHONPATH", PACKAGES.folder()?);
    command.args(["-c", include_str!("../../contenders/redis_py_contender.py")]);
    command.args([address.ip().to_string(), address.port().to_string(), TIMEOUT.as_secs_f64().to_string()]);
    command.arg(&place.lock).arg(ANSWERS_EVERY.as_secs_f64().to_string());
    Ok(Program::new(command))
}
