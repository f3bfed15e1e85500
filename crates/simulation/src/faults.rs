//! The faults of a plan, when their time comes.

use std::sync::Arc;

use lockkeeper_history::What;
use tokio::time::{Instant, sleep_until};

use crate::network::Way;
use crate::plan::{FaultKind, FaultPlan};
use crate::world::RunParts;

/// Inflicts a fault for as long as it lasts.
pub(crate) async fn inflict(parts: Arc<RunParts>, begun: Instant, fault: FaultPlan) {
    sleep_until(begun + fault.at).await;
    let over = sleep_until(begun + fault.at + fault.lasts);
    let (machines, ways) = (&parts.machines, &parts.ways);
    match fault.what {
        FaultKind::MachineStops(number) => {
            parts.history.record(What::Stopped { keeper: keeper(number) });
            machines[number].stop();
            over.await;
            machines[number].go_on();
            parts.history.record(What::GoesOn { keeper: keeper(number) });
        }
        FaultKind::ServerStops => {
            let running = parts.service.now();
            running.stop();
            over.await;
            running.go_on();
        }
        FaultKind::Cut(number) => {
            ways[number].cut();
            over.await;
            ways[number].heal_cut();
        }
        FaultKind::Mute(number) => {
            ways[number].set_mute(true);
            over.await;
            ways[number].set_mute(false);
        }
        FaultKind::Deaf(number) => {
            ways[number].set_deaf(true);
            over.await;
            ways[number].set_deaf(false);
        }
        FaultKind::Slow(number, delay) => {
            ways[number].slow_by(delay);
            over.await;
            ways[number].no_longer_slow_by(delay);
        }
        FaultKind::ServerRestarts => {
            let running = parts.service.now();
            ways.iter().for_each(Way::cut);
            running.stop();
            over.await;
            running.go_on();
            running.server.restart().await;
            ways.iter().for_each(Way::heal_cut);
        }
        FaultKind::ServerLosesData => {
            let tokens_from = parts.service.lose_data().await;
            parts.history.record(What::DataLost { tokens_from });
            ways.iter().for_each(Way::reset);
        }
    }
}

fn keeper(machine: usize) -> u32 {
    u32::try_from(machine).expect("there are few machines")
}
