//! Data that are put back while a holder lives that they do not know, nor its timeout, which is the longest. No client
//! is granted anything until that holder has stopped to believe itself: no two hold.
//!
//! A round puts a cold copy or a snapshot back, or promotes a standby that fell behind; its next client is one that
//! was connected all the time, or a new one. The holder is cut off but where the server seems to have lost nothing.
//! Each is played through a pooler too, PgBouncer or the harness's own: its clients' connections outlive the change of
//! the server.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_conformance::{Random, soon};
use lockkeeper_faults::long;
use lockkeeper_trials::{Holder, Outcome, now, rounds};

use crate::database::Server;
use crate::harm::{Copied, Need, Pooler};
use crate::operator::Kind;

const ROUNDS: u32 = 20;

/// How many rounds are played at the same time, each on other servers.
const AT_ONCE: u32 = 2;

/// What most clients ask for …
const SETTINGS: &str = "session_timeout=4s&operation_timeout=60s";

/// … and the one whose session is lost: as long as the schema allows.
const LONGEST: Duration = Duration::from_secs(9);

const LOST: &str = "lost";

/// How a server comes to serve older data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Older {
    PutBack,
    Promoted,
}

/// How clients reach the servers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    Direct,
    Pooled,
}

pub(crate) fn play(kind: Kind, older: Older, way: Way, random: Random) -> Result<(), String> {
    let tally = rounds::play(ROUNDS, AT_ONCE, random, async |round, _| vec![play_round(kind, older, way, round).await]);
    tally.tell(&format!("faults: {kind:?}, {older:?}, {way:?}, the longest timeout is lost"), "");
    tally.check(long::rounds(ROUNDS))
}

struct Site {
    server: Server,
    pooler: Option<Pooler>,
    addresses: Vec<SocketAddr>,
}

impl Site {
    async fn new(kind: Kind, older: Older, way: Way) -> Self {
        let need = if older == Older::Promoted { Need::Standby } else { Need::Durability };
        let server = kind.start(need).await;
        let pooler = match way {
            Way::Direct => None,
            Way::Pooled => Some(Pooler::start(&server).await),
        };
        let address = pooler.as_ref().map_or_else(|| server.address(), Pooler::address);
        Self { server, pooler, addresses: vec![address] }
    }

    /// Has a standby take the primary's place.
    async fn promote(&mut self, mut standby: Server) {
        self.server.kill();
        standby.promote().await;
        if let Some(pooler) = &self.pooler {
            pooler.point_to(&standby);
        }
        self.server = standby;
    }
}

async fn play_round(kind: Kind, older: Older, way: Way, round: u32) -> Outcome {
    let mut site = Site::new(kind, older, way).await;
    let service = kind.service();
    let first = service.keeper(&site.addresses, SETTINGS);
    soon("the schema", first.admin().set_up()).await.expect("it is made");
    soon("a limit", first.admin().limit_session_timeout(LONGEST)).await.expect("no session is open");
    let warm = soon("a first lock", first.mutex("warm").expect("a name").lock()).await.expect("it is free");
    soon("its release", warm.release()).await.expect("the server serves");
    let copied = if round.is_multiple_of(2) { Copied::Cold } else { Copied::Running };
    let standby = match older {
        Older::PutBack => {
            site.server.copy(copied).await;
            None
        }
        Older::Promoted => {
            let standby = site.server.standby().await;
            standby.catch_up_and_fall_behind(&site.server).await;
            if site.pooler.is_none() {
                site.addresses.push(standby.address());
            }
            Some(standby)
        }
    };
    let longest = format!("session_timeout={}s&operation_timeout=60s", LONGEST.as_secs());
    let mut holder = Holder::start(service, &site.addresses, &longest, LOST).await;
    let struck_at = now();
    // Where nothing of the server shows that data may be lost, only the holder itself can.
    let is_cut_off = older == Older::Promoted || kind == Kind::Postgres && copied == Copied::Running;
    if is_cut_off {
        holder.cut_off();
    }
    match standby {
        Some(standby) => site.promote(standby).await,
        None => site.server.put_back().await,
    }
    let is_new = (round + round / 2).is_multiple_of(2) || older == Older::Promoted && site.pooler.is_none();
    let next =
        if is_new { service.keeper(&site.addresses[site.addresses.len() - 1..], SETTINGS) } else { first.clone() };
    let mutex = next.mutex(LOST).expect("a name");
    let second = soon("the next grant", mutex.lock()).await.expect("the server serves");
    let granted_at = now();
    let shown = format!("{LOST}: {older:?} ({copied:?}), {way:?}, the next client is new: {is_new}");
    let outcome = holder.outcome(shown, struck_at, second.fencing_token(), granted_at).await;
    soon("the release", second.release()).await.expect("the server serves");
    for keeper in [next, first] {
        let _ = tokio::time::timeout(Duration::from_secs(2), keeper.close()).await;
    }
    outcome
}
