//! Renewals that etcd answers while their lease ends.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock, TestClock};
use lockkeeper_core::{Liveness, LossReason, SafeUntil, SessionBond};

use super::leaders::TIMEOUT_MS;
use crate::session::belief::{LeaseBelief, MemberTerm, Renewal};

const TIMEOUT: Duration = Duration::from_millis(TIMEOUT_MS);

const MEMBER: MemberTerm = MemberTerm { cluster: 7, member: 1, term: 1 };

fn renewal(sent_at: BootInstant) -> Renewal {
    Renewal { sent_at, by: MEMBER }
}

fn prove(belief: &mut LeaseBelief) -> BootInstant {
    let witness = belief.witness();
    belief.prove(witness, MEMBER).expect("its term goes on")
}

/// etcd-io/etcd#14758, #20590 and #21389: a leader that ends a lease deletes its keys, and forgets the lease a moment
/// later. A keepalive that comes between is answered with the full time. By then belief is over, for good.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_answered_while_its_lease_ends_revives_no_session() {
    let clock = Arc::new(TestClock::new());
    for sent_before in [Duration::ZERO, Duration::from_millis(1), TIMEOUT / 2] {
        let granted_at = clock.now();
        let ends_at = granted_at.saturating_add(TIMEOUT);
        let mut belief = LeaseBelief::new(renewal(granted_at), TIMEOUT);
        let bond = SessionBond::new(clock.clone(), SafeUntil::At(prove(&mut belief)));
        clock.sleep_until(ends_at).await;
        belief.renewed(renewal(ends_at.saturating_sub(sent_before)), TIMEOUT);
        let believed_until = prove(&mut belief);
        assert!(believed_until > ends_at, "the answers alone look good");
        bond.renew(SafeUntil::At(believed_until));
        assert_eq!(bond.liveness(), Liveness::Lost(LossReason::Lapsed), "sent {sent_before:?} before the end");
    }
}
