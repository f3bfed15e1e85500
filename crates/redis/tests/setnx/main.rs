//! Plain locks with `layout=setnx`: ours beside clients that take `SET key random NX PX` and give it back by comparing
//! and deleting. It is a separate binary, since it has long rounds.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `counting` | ours and others count together, and lose none: a client of this file's kind, and Python's |
//! | `turns` | who goes when, and how the end of another client is told |
//! | `losses` | holders that die, and keys that are taken from ours |
//! | `operating` | what an operator sees, names and services that are refused, freezing, full memory |
//! | `peer` | the other client |

mod counting;
mod losses;
mod operating;
mod peer;
#[path = "../support/service.rs"]
mod service;
mod turns;

use std::net::SocketAddr;

use lockkeeper_conformance::SOON;
use lockkeeper_faults::wait;
use lockkeeper_recipes::Keeper;

/// The timeout of most sessions: longer than anything that is to be told at once, and than a busy machine keeps any of
/// them waiting.
const SETTINGS: &str = "layout=setnx&session_timeout=30s";

/// A keeper whose locks are also plain ones.
fn keeper(address: SocketAddr) -> Keeper {
    keeper_with(address, SETTINGS)
}

fn keeper_with(address: SocketAddr, settings: &str) -> Keeper {
    service::REDIS.keeper(&[address], settings)
}

/// Waits until so many contenders are shown, theirs and ours.
async fn until_contenders(keeper: &Keeper, lock: &str, count: usize) {
    let look = async || (keeper.contenders(lock).await.expect("a look").len() == count).then_some(());
    wait::until(&format!("{count} contenders of {lock}"), SOON, look).await.expect("they come");
}
