//! What the locks of a service show that its users should know, whichever service it is: what blocks them for long, and
//! what dead users have left.

use std::time::Duration;

use lockkeeper_core::{Advice, Backend, Finding, Remnant, RemnantKind, Result, Severity, UNUSED_FOR};

/// How long a lock may be frozen before that is told: the work that it was frozen for is mostly done within a day.
const FROZEN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How many frozen locks are named one by one; an operator who has more has forgotten all of them.
const NAMED_MAX: usize = 20;

/// Looks at all locks. What this user may not see is not told.
pub(crate) async fn examine_locks(backend: &dyn Backend, now_unix: Duration) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for outcome in [frozen_for_long(backend, now_unix).await, left(backend).await] {
        match outcome {
            Ok(found) => findings.extend(found),
            // Why it is refused, the backend's own examination says.
            Err(error) if error.advice() == Advice::Permanent => {}
            Err(error) => return Err(error),
        }
    }
    Ok(findings)
}

async fn frozen_for_long(backend: &dyn Backend, now_unix: Duration) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for lock in backend.queues("").await? {
        for contender in backend.inspect(&lock).await? {
            let stood = contender.since_unix.map(|since| now_unix.saturating_sub(since));
            if let (Some(reason), Some(stood)) = (contender.frozen, stood.filter(|&stood| stood > FROZEN_MAX)) {
                let hours = stood.as_secs() / 3_600;
                let what = format!("{lock} has been frozen for {hours} hours: {reason}");
                let cure = "if that is over, let contenders in again with `lockkeeper thaw`";
                found.push(Finding::new(Severity::Warning, what, cure));
            }
        }
        if found.len() == NAMED_MAX {
            break;
        }
    }
    Ok(found)
}

async fn left(backend: &dyn Backend) -> Result<Vec<Finding>> {
    let remnants = backend.remnants(UNUSED_FOR).await?;
    let of_kind = |kind| {
        let mut all = remnants.iter().filter(move |remnant| remnant.kind == kind);
        let first = all.next();
        first.map(|first| (first, 1 + all.count()))
    };
    let as_of = |first: &Remnant, count: usize| match count {
        1 => first.place.clone(),
        count => format!("{} and {} more", first.place, count - 1),
    };
    let unbound = of_kind(RemnantKind::Unbound).map(|(first, count)| {
        let what = format!(
            "a contender depends on no session and says no reason, so it blocks its lock for ever: {}",
            as_of(first, count)
        );
        let cure = "if it is no client's, remove it with `lockkeeper gc --yes --force`";
        Finding::new(Severity::Error, what, cure)
    });
    let note = |kind, what: &str| {
        of_kind(kind).map(|(first, count)| {
            let what = format!("{what}: {}", as_of(first, count));
            Finding::new(Severity::Note, what, "`lockkeeper gc` lists all of it, and removes it with --yes")
        })
    };
    let dead = note(RemnantKind::Dead, "a dead contender was left");
    let empty = note(RemnantKind::Empty, "a queue is empty, and no client has used it for ten minutes");
    Ok(unbound.into_iter().chain(dead).chain(empty).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use lockkeeper_core::{
        BoxFuture, Capabilities, ContenderId, ContenderInfo, Error, ErrorKind, Exclusion, Fencing, Mode, Operation,
        QueueName, Removal, Session, StoppedHolder,
    };

    use super::*;

    const CAPABILITIES: Capabilities =
        Capabilities::new("shown", Exclusion::Timed, Fencing::Service, StoppedHolder::Expires, Removal::Told);
    const NOW: Duration = Duration::from_secs(1_000 * 3_600);

    /// A service that shows one lock, and what was left.
    #[derive(Debug, Default)]
    struct Shown {
        contenders: Vec<ContenderInfo>,
        left: Mutex<Vec<Remnant>>,
        refuses: Option<fn() -> Error>,
    }

    impl Backend for Shown {
        fn service(&self) -> String {
            "shown:".to_owned()
        }

        fn capabilities(&self) -> &Capabilities {
            &CAPABILITIES
        }

        fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
            panic!("a look needs none")
        }

        fn inspect(&self, _queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
            Box::pin(std::future::ready(Ok(self.contenders.clone())))
        }

        fn queues(&self, _prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
            let lock = QueueName::new("door").expect("a name");
            Box::pin(std::future::ready(self.refuses.map_or(Ok(vec![lock]), |refuse| Err(refuse()))))
        }

        fn remnants(&self, unused_for: Duration) -> BoxFuture<Result<Vec<Remnant>>> {
            assert_eq!(unused_for, UNUSED_FOR);
            Box::pin(std::future::ready(Ok(self.left.lock().expect("no task panics").clone())))
        }
    }

    fn frozen(hours: u64) -> ContenderInfo {
        let mut info = ContenderInfo::new(ContenderId::new("a"), Mode::Mutex);
        info.frozen = Some("new disks".to_owned());
        info.since_unix = NOW.checked_sub(Duration::from_secs(hours * 3_600));
        info
    }

    async fn told(shown: Shown) -> Vec<String> {
        let found = examine_locks(&shown, NOW).await.expect("it can be looked at");
        found.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn a_lock_that_is_frozen_for_more_than_a_day_is_told_with_its_reason() {
        let mut held = frozen(100);
        held.frozen = None;
        let told = told(Shown { contenders: vec![frozen(24), frozen(25), held], ..Shown::default() }).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("warning: door has been frozen for 25 hours: new disks: "), "{told:?}");
    }

    #[tokio::test]
    async fn what_was_left_is_told_once_for_each_kind() {
        let remnants = [RemnantKind::Empty, RemnantKind::Empty, RemnantKind::Dead, RemnantKind::Unbound];
        let left = remnants.iter().zip(1..).map(|(&kind, at)| Remnant::new(kind, format!("/x/{at}"), ())).collect();
        let told = told(Shown { left: Mutex::new(left), ..Shown::default() }).await;
        for (told, words) in told.iter().zip([
            ["error: ", ": /x/4: ", "gc --yes --force"],
            ["note: ", ": /x/3: ", "`lockkeeper gc`"],
            ["note: ", ": /x/1 and 1 more: ", "`lockkeeper gc`"],
        ]) {
            assert!(words.iter().all(|word| told.contains(word)), "{told}");
        }
        assert_eq!(told.len(), 3, "{told:?}");
    }

    #[tokio::test]
    async fn what_this_user_may_not_see_is_not_told_and_what_cannot_be_seen_now_is_an_error() {
        let refused = || Error::permanent(ErrorKind::Refused, Operation::Inspect, "no");
        assert_eq!(told(Shown { refuses: Some(refused), ..Shown::default() }).await, [""; 0]);
        let unreachable = || Error::transient(ErrorKind::Backend, Operation::Inspect, "not now");
        let shown = Shown { refuses: Some(unreachable), ..Shown::default() };
        examine_locks(&shown, NOW).await.expect_err("it is not known");
    }
}
