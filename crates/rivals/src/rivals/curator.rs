//! Curator's `InterProcessMutex`, in Java.

use lockkeeper_faults::Result;
use lockkeeper_faults::peers::curator;

use super::{Owner, Place, Rival, TIMEOUT};
use crate::contender::{ANSWERS_EVERY, Program};
use crate::stage::Service;

pub(super) const RIVAL: Rival = Rival {
    name: "Curator `InterProcessMutex`",
    owner: Owner::Other,
    service: Service::ZooKeeper,
    asks: "`isAcquiredInThisProcess`, and no `SUSPENDED` or `LOST` was heard",
    availability: curator::availability,
    program,
};

const SOURCES: &[(&str, &str)] = &[("CuratorContender.java", include_str!("../../contenders/CuratorContender.java"))];

fn program(place: &Place) -> Result<Program> {
    let mut command = curator::program("curator-contender", SOURCES, "CuratorContender")?;
    command.arg(place.hosts()).arg(TIMEOUT.as_millis().to_string()).arg(format!("/{}", place.lock));
    command.arg(ANSWERS_EVERY.as_millis().to_string());
    Ok(Program::new(command))
}
