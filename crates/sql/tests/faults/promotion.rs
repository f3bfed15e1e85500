//! A standby that is promoted and has not heard of the last grant. The new primary lets no client be granted anything
//! until the holder has stopped to believe itself: no two hold.
//!
//! In each round another hold had reached the standby before: it goes on, and its rival waits.

use std::time::Duration;

use lockkeeper_conformance::{Random, soon};
use lockkeeper_faults::long;
use lockkeeper_trials::{Contest, Ends, Holder, Outcome, now, rounds};

use crate::harm::Need;
use crate::operator::Kind;

const ROUNDS: u32 = 20;

const SETTINGS: &str = "session_timeout=4s";

const TIMEOUT: Duration = Duration::from_secs(4);

/// How many rounds are played at the same time, each on other servers.
const AT_ONCE: u32 = 2;

/// The lock whose grant is lost.
const LOST: &str = "lost";

pub(crate) fn play(kind: Kind, random: Random) -> Result<(), String> {
    let tally = rounds::play(ROUNDS, AT_ONCE, random, |_, _| play_round(kind));
    let (lost, kept): (Vec<_>, Vec<_>) = tally.outcomes.iter().partition(|outcome| outcome.what.starts_with(LOST));
    let went_on = kept.iter().filter(|outcome| outcome.was_given_back()).count();
    tally.tell(
        &format!("faults: {kind:?}, promotions without a grant"),
        &format!("; {} grants lost, {went_on} of {} others went on", lost.len(), kept.len()),
    );
    tally.check(2 * long::rounds(ROUNDS))
}

async fn play_round(kind: Kind) -> Vec<Outcome> {
    let mut primary = kind.start(Need::Standby).await;
    let service = kind.service();
    // The tables are there before the standby is copied.
    let first = service.keeper(&[primary.address()], SETTINGS);
    soon("the schema", first.admin().set_up()).await.expect("it is made");
    soon("a limit", first.admin().limit_session_timeout(TIMEOUT)).await.expect("no session is open");
    let warm = soon("a first lock", first.mutex("warm").expect("a name").lock()).await.expect("it is free");
    soon("its release", warm.release()).await.expect("the primary serves");
    let mut standby = primary.standby().await;
    let addresses = [primary.address(), standby.address()];
    let kept = Contest::start(service, &addresses, SETTINGS, "kept").await;
    standby.catch_up_and_fall_behind(&primary).await;
    let mut holder = Holder::start(service, &addresses, SETTINGS, LOST).await;
    let struck_at = now();
    primary.kill();
    standby.promote().await;
    let newcomer = service.keeper(&addresses[1..], SETTINGS);
    let mutex = newcomer.mutex(LOST).expect("a name");
    let second = soon("the grant of the new primary", mutex.lock()).await.expect("the new primary serves");
    let granted_at = now();
    let shown = format!("{LOST}: the primary was killed");
    let lost = holder.outcome(shown, struck_at, second.fencing_token(), granted_at).await;
    soon("the release", second.release()).await.expect("the new primary serves");
    for keeper in [newcomer, first] {
        let _ = tokio::time::timeout(Duration::from_secs(2), keeper.close()).await;
    }
    let kept = kept.end("the primary was killed", struck_at, Ends::WhenGivenBack).await;
    vec![lost, kept]
}
