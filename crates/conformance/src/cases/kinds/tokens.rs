//! Fencing tokens: each grant's is greater than all before it.

use lockkeeper_core::FencingToken;

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{Party, release};
use crate::waiting::soon;

const ROUNDS: usize = 20;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("tokens grow over grants and over keepers", over_grants_and_keepers),
        Case::new("tokens grow over sessions and over an empty queue", over_sessions),
        Case::new("a look at the queue shows the token of its guard", shown),
        Case::new("each lock's tokens grow while others are locked", several_locks).given_back(),
    ]
}

struct Growing(Option<FencingToken>);

impl Growing {
    fn take(&mut self, token: FencingToken) {
        assert!(Some(token) > self.0, "{token} after {:?}", self.0);
        assert_eq!(token.turn(), 0, "nothing was handed on inside the process");
        self.0 = Some(token);
    }
}

async fn over_grants_and_keepers(fixture: &dyn Fixture) {
    let parties = [Party::enter(fixture).await, Party::enter(fixture).await];
    let mut growing = Growing(None);
    for party in parties.iter().cycle().take(ROUNDS) {
        let guard = party.lock("door").await;
        growing.take(guard.fencing_token());
        release(guard).await;
    }
}

async fn over_sessions(fixture: &dyn Fixture) {
    let mut growing = Growing(None);
    for _ in 0..ROUNDS {
        let party = Party::enter(fixture).await;
        let guard = party.lock("door").await;
        growing.take(guard.fencing_token());
        soon("the close", party.keeper.close()).await.expect("the service is told");
        drop(guard);
    }
}

async fn shown(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    let contenders = ann.shown("door").await;
    let [holder] = contenders.as_slice() else {
        panic!("one contender, not {}", contenders.len());
    };
    assert_eq!(holder.id, *guard.hold().contender());
    // A service need not show tokens; if it does, they are the true ones.
    if let Some(token) = holder.token {
        assert_eq!(token, guard.fencing_token());
    }
    release(guard).await;
}

async fn several_locks(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let (mut doors, mut windows) = (Growing(None), Growing(None));
    for _ in 0..ROUNDS {
        let (door, window) = (ann.lock("door").await, ann.lock("window").await);
        doors.take(door.fencing_token());
        windows.take(window.fencing_token());
        release(door).await;
        release(window).await;
    }
}
