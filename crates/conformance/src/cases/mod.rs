//! The cases, one file for each kind of behaviour; a case panics if the backend is wrong.
//!
//! First what services say and do for operators, then the kinds of lock while nothing fails, then faults and losses,
//! and at last the waist's own calls, without a recipe or as an onlooker has them.

mod barriers;
mod calls;
mod cancellation;
mod capabilities;
mod changes;
mod closing;
mod contention;
mod crowd;
mod election;
mod entries;
mod exclusion;
mod following;
mod loss;
mod names;
mod observation;
mod operating;
mod order;
mod outage;
mod owners;
mod regressions;
mod release;
mod rw_lock;
mod semaphore;
mod timeout;
mod unnoticed_loss;
mod values;

use lockkeeper_core::Modes;

use crate::case::{Case, using};

/// Returns all cases, in the order in which they run: what is most basic first.
pub fn cases() -> Vec<Case> {
    let of_mutexes = |cases| using(Modes::MUTEX, cases);
    let services =
        [capabilities::cases(), operating::examinations(), operating::remnants(), capabilities::carried()].concat();
    let kinds = [
        [exclusion::cases(), order::cases(), exclusion::tries(), timeout::cases(), cancellation::cases()].concat(),
        of_mutexes([release::cases(), release::runs(), exclusion::tokens()].concat()),
        [capabilities::one_kind_at_a_time(), rw_lock::cases(), rw_lock::downgrades_of_writers()].concat(),
        [semaphore::cases(), using(Modes::SEMAPHORE, semaphore::bounds())].concat(),
        [owners::cases(), of_mutexes(owners::multi_locks())].concat(),
        [election::cases(), using(Modes::ELECTION, election::campaigns())].concat(),
        [barriers::cases(), values::counters(), operating::cases()].concat(),
        [of_mutexes(observation::events()), contention::cases()].concat(),
    ];
    let faults = [
        [closing::refusals(), loss::cases(), unnoticed_loss::cases(), outage::cases()].concat(),
        of_mutexes([closing::cases(), regressions::cases()].concat()),
    ];
    let waist = [
        of_mutexes([calls::cases(), crowd::cases(), observation::cases(), observation::callers()].concat()),
        of_mutexes([names::cases(), using(Modes::SEMAPHORE, names::parts())].concat()),
        [using(Modes::READ_WRITE, entries::cases()), of_mutexes(entries::persistent_entries())].concat(),
        [using(Modes::SEMAPHORE, calls::entries_together()), changes::cases(), values::cases()].concat(),
        [following::cases(), of_mutexes(entries::requests())].concat(),
    ];
    [services, kinds.concat(), faults.concat(), waist.concat()].concat()
}
