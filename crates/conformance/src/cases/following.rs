//! Following all queues: whatever changes and whatever fails, a follower ends up with what a look shows.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{
    Backend, ErrorKind, Extent, FollowEvent, Follower, Following, Freshness, LockSnapshot, Mode, Part, Picture,
    QueueName, Request, Result, Revocation, Scope, Ticket,
};

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::random::Random;
use crate::speaker::{Speaker, entry, line, part_of, speakers};
use crate::waiting::{soon, until};

/// How many random changes are made while nothing fails.
const CHANGES: usize = 1_000;

/// How often the follower is cut off, or the service started again, with changes before, meanwhile and after.
const FAILURES: usize = 5;

/// How many changes are made in each part of these.
const CHANGES_AROUND_A_FAILURE: usize = 40;

/// After how many changes, at most, the follower is compared with a look.
const CHANGES_BETWEEN_LOOKS: u64 = 60;

/// The same where the follower looks again and again, and pauses a hundred times as long as a look takes.
const CHANGES_BETWEEN_SLOW_LOOKS: u64 = 240;

/// How many locks there are: few, so that there are queues; more than one, so that locks come and go.
const LOCKS: u64 = 12;

/// How many places are taken at a time; from then on one is left for each that is taken.
const PLACES_MAX: usize = 60;

/// What the names of the locks begin with that are followed.
const FOLLOWED: &str = "followed/";

/// How long a follower that looks again and again pauses at least, and the case itself after a look that failed: not so
/// long that a case waits more than it works.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(20);

/// How long a follower has to hear what a look has shown before another look is made: a session may have ended since.
const LOOK_STANDS: Duration = Duration::from_secs(2);

/// How many looks a follower may need: two minutes, as for all that comes soon.
const LOOKS_MAX: u32 = 60;

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new("a follower equals a look after each of many random changes", equals_a_look),
        Case::new("a follower is told of what stood there before, and of its scope alone", tells_its_scope),
        Case::new("a follower that was cut off equals a look", equals_a_look_after_cuts).needs(&[FaultKind::Cut]),
        Case::new("a follower of a service that was started again equals a look", equals_a_look_after_restarts)
            .needs(&[FaultKind::Restart])
            .outlives_sessions(),
        Case::new("a follower hears of sessions that end", hears_of_sessions).needs(&[FaultKind::ExpireSession]),
    ];
    cases.into_iter().map(|case| case.promised(|promised| promised.following != Following::None)).collect()
}

/// The kinds of lock, each with the places of its contenders: no lock is of two kinds.
const KINDS: [&[(Part, Mode)]; 5] = [
    &[(Part::Line, Mode::Mutex)],
    &[(Part::Line, Mode::Write), (Part::Line, Mode::Read)],
    &[(Part::Permits, Mode::Permit), (Part::Waiters, Mode::Acquire)],
    &[(Part::Line, Mode::Candidate)],
    &[(Part::Line, Mode::Member)],
];

/// What follows, and what it knows.
struct Watch {
    backend: Arc<dyn Backend>,
    follower: Follower,
    picture: Picture,
}

impl Watch {
    /// Follows with the backend of a client that does nothing else.
    async fn begin(onlooker: &Speaker) -> Self {
        let scope = Scope::below_base(FOLLOWED).looking_each(LOOK_PAUSE_MIN);
        let follower = onlooker.backend.admin().follow(&scope).expect("the service can be followed");
        let mut watch = Self { backend: onlooker.backend.clone(), follower, picture: Picture::default() };
        while !watch.picture.is_whole() {
            watch.hear().await;
        }
        watch
    }

    async fn hear(&mut self) -> Vec<QueueName> {
        let told = soon("a telling", self.follower.next()).await.expect("the follower goes on");
        if let FollowEvent::Lost(error) = &told {
            assert!(error.is_transient(), "{error:?}");
        }
        self.picture.take(told)
    }

    /// Waits until the follower has heard what a look shows, while nothing changes but that sessions end.
    async fn until_equal(&mut self, random: &Random) {
        let mut seen = Vec::new();
        for _ in 0..LOOKS_MAX {
            seen = looks(&*self.backend).await;
            let seen: Vec<_> = seen.iter().map(|lock| format!("{lock:?}")).collect();
            let equal = async {
                while self.picture.lost().is_some() || shown(&self.picture) != seen {
                    self.hear().await;
                }
            };
            if tokio::time::timeout(LOOK_STANDS, equal).await.is_ok() {
                return;
            }
        }
        let heard = shown(&self.picture);
        panic!("{random:?}: after {LOOKS_MAX} looks the follower has\n{heard:#?}\nand a look shows\n{seen:#?}");
    }
}

/// What looks show of all locks that are followed. Where a fault, or a service that starts, ends a look, another one is
/// made.
async fn looks(backend: &dyn Backend) -> Vec<LockSnapshot> {
    let looked = async {
        loop {
            match look(backend).await {
                Ok(locks) => return locks,
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
            tokio::time::sleep(LOOK_PAUSE_MIN).await;
        }
    };
    soon("the looks", looked).await
}

async fn look(backend: &dyn Backend) -> Result<Vec<LockSnapshot>> {
    let mut all = Vec::new();
    for name in backend.admin().queues(FOLLOWED).await? {
        let contenders = backend.admin().inspect(&name).await?;
        all.push(LockSnapshot::new(name, contenders.into_iter().map(Arc::new).collect()));
    }
    Ok(all)
}

fn shown(picture: &Picture) -> Vec<String> {
    let lock = |(lock, contenders): (&QueueName, &Vec<_>)| {
        format!("{:?}", LockSnapshot::new(lock.clone(), contenders.clone()))
    };
    picture.locks().iter().map(lock).collect()
}

/// Speakers that take and leave places at random.
struct Crowd {
    speakers: [Speaker; 3],
    taken: Vec<(usize, QueueName, Ticket)>,
    random: Random,
}

impl Crowd {
    async fn enter(fixture: &dyn Fixture, case: &str) -> Self {
        let speakers: [Speaker; 3] = speakers(fixture).await;
        Self { speakers, taken: Vec::new(), random: Random::announced(case) }
    }

    async fn change(&mut self) -> Result<()> {
        let below = |random: &mut Random, bound: usize| random.below(bound as u64) as usize;
        match self.random.below(8) {
            0..4 if self.taken.len() < PLACES_MAX => self.take().await?,
            4 if !self.taken.is_empty() => {
                let at = below(&mut self.random, self.taken.len());
                self.ask_for(at).await?;
            }
            _ if !self.taken.is_empty() => {
                let at = below(&mut self.random, self.taken.len());
                let (who, queue, ticket) = self.taken.swap_remove(at);
                soon("the withdrawal", self.speakers[who].session.withdraw(&queue, ticket)).await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn take(&mut self) -> Result<()> {
        let who = self.random.below(self.speakers.len() as u64) as usize;
        let number = self.random.below(LOCKS);
        let carried: Vec<_> = self.speakers[who].places().collect();
        let kinds: Vec<_> = KINDS.iter().map(|kind| kind.iter().filter(|place| carried.contains(place))).collect();
        let kinds: Vec<Vec<_>> =
            kinds.into_iter().map(Iterator::collect).filter(|kind: &Vec<_>| !kind.is_empty()).collect();
        let kind = &kinds[number as usize % kinds.len()];
        let &&(part, mode) = &kind[self.random.below(kind.len() as u64) as usize];
        let queue = part_of(&format!("{FOLLOWED}{number}"), part);
        let entry = entry(mode);
        let ticket = entry.ticket;
        // Where the answer was lost, it may have been taken.
        self.taken.push((who, queue.clone(), ticket));
        soon("the place", self.speakers[who].session.enqueue_one(&queue, entry)).await.map(drop)
    }

    /// Asks a contender to give up: a change of the contender, and not of its queue.
    async fn ask_for(&self, at: usize) -> Result<()> {
        let (who, queue, ticket) = self.taken[at].clone();
        let speaker = &self.speakers[who];
        let seen = speaker.inspect(&queue).await;
        let Some(info) = seen.iter().find(|info| info.ticket == Some(ticket)) else {
            return Ok(());
        };
        let request = Request::Yield(Revocation::default());
        soon("the request", speaker.session.request(&queue, &info.id, request)).await.map(drop)
    }

    /// Makes changes, by other sessions where some have ended: a service that starts, or a machine that has other work
    /// to do, may be too slow to keep them. Whether sessions are kept is not what these cases ask.
    async fn changes(&mut self, count: usize, fixture: &dyn Fixture) {
        self.settle(fixture).await;
        for _ in 0..count {
            if let Err(error) = self.change().await {
                assert!(error.is_transient(), "{error:?}");
                self.settle(fixture).await;
            }
        }
        self.settle(fixture).await;
    }

    /// Waits until each session answers again, and opens another one where it has ended.
    async fn settle(&mut self, fixture: &dyn Fixture) {
        for who in 0..self.speakers.len() {
            let view = async |speaker: &Speaker| {
                let view = speaker.session.view(&line("any"), Freshness::Latest, Extent::Whole);
                soon("the view", view).await
            };
            until("an answer", async || match view(&self.speakers[who]).await {
                Ok(_) => true,
                Err(error) => !error.is_transient() || matches!(error.kind(), ErrorKind::Lost(_)),
            })
            .await;
            if view(&self.speakers[who]).await.is_err() {
                self.speakers[who] = Speaker::enter(fixture).await;
                self.taken.retain(|&(whose, ..)| whose != who);
            }
        }
    }

    /// Waits until looks show no places but those that the crowd has.
    ///
    /// A session whose client gave it up may stand in the service for a while: until its timeout after the service was
    /// started again. Places that go by themselves after a look make that look differ from what a follower hears later.
    async fn until_alone(&self, backend: &dyn Backend) {
        let has = |ticket| self.taken.iter().any(|&(.., taken)| Some(taken) == ticket);
        let is_alone = async || {
            let locks = looks(backend).await;
            locks.iter().flat_map(|lock| &lock.contenders).all(|contender| has(contender.ticket))
        };
        until("the end of the places of sessions that have ended", is_alone).await;
    }

    async fn leave(mut self) {
        for (who, queue, ticket) in std::mem::take(&mut self.taken) {
            let left = soon("the withdrawal", self.speakers[who].session.withdraw(&queue, ticket)).await;
            assert!(left.as_ref().err().is_none_or(|error| matches!(error.kind(), ErrorKind::Lost(_))), "{left:?}");
        }
    }
}

async fn equals_a_look(fixture: &dyn Fixture) {
    let onlooker = Speaker::enter(fixture).await;
    let mut crowd = Crowd::enter(fixture, "a follower equals a look after each of many random changes").await;
    let mut watch = Watch::begin(&onlooker).await;
    let between = match onlooker.backend.capabilities().following {
        Following::Looks => CHANGES_BETWEEN_SLOW_LOOKS,
        _ => CHANGES_BETWEEN_LOOKS,
    };
    let mut made = 0;
    while made < CHANGES {
        let count = 1 + crowd.random.below(between) as usize;
        crowd.changes(count, fixture).await;
        watch.until_equal(&crowd.random).await;
        made += count;
    }
    crowd.leave().await;
}

async fn tells_its_scope(fixture: &dyn Fixture) {
    let [ann, onlooker] = speakers(fixture).await;
    let (part, mode) = ann.places().last().expect("the service carries a kind of lock");
    let queues = ["followed/old", "else/old", "followed/new", "else/new"].map(|name| part_of(name, part));
    let [old, other_old, new, other_new] = &queues;
    let mut places = vec![(old, ann.take(old, mode).await), (other_old, ann.take(other_old, mode).await)];
    let mut watch = Watch::begin(&onlooker).await;
    let names = |watch: &Watch| watch.picture.locks().keys().map(|name| name.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&watch), ["followed/old"]);
    for queue in [other_new, new] {
        places.push((queue, ann.take(queue, mode).await));
    }
    while names(&watch).len() < 2 {
        watch.hear().await;
    }
    assert_eq!(names(&watch), ["followed/new", "followed/old"]);
    for (queue, place) in places {
        ann.withdraw(queue, place.ticket).await;
    }
    while !names(&watch).is_empty() {
        watch.hear().await;
    }
}

async fn equals_a_look_after_cuts(fixture: &dyn Fixture) {
    let onlooker = Speaker::enter(fixture).await;
    let mut crowd = Crowd::enter(fixture, "a follower that was cut off equals a look").await;
    let mut watch = Watch::begin(&onlooker).await;
    for _ in 0..FAILURES {
        crowd.changes(CHANGES_AROUND_A_FAILURE, fixture).await;
        onlooker.inflict(Fault::Cut).await;
        crowd.changes(CHANGES_AROUND_A_FAILURE, fixture).await;
        onlooker.inflict(Fault::Heal).await;
        watch.until_equal(&crowd.random).await;
    }
    crowd.leave().await;
}

async fn equals_a_look_after_restarts(fixture: &dyn Fixture) {
    let onlooker = Speaker::enter(fixture).await;
    let mut crowd = Crowd::enter(fixture, "a follower of a service that was started again equals a look").await;
    let mut watch = Watch::begin(&onlooker).await;
    for _ in 0..2 {
        crowd.changes(CHANGES_AROUND_A_FAILURE, fixture).await;
        onlooker.inflict(Fault::Restart).await;
        crowd.changes(CHANGES_AROUND_A_FAILURE, fixture).await;
        crowd.until_alone(&*onlooker.backend).await;
        watch.until_equal(&crowd.random).await;
    }
    crowd.leave().await;
}

async fn hears_of_sessions(fixture: &dyn Fixture) {
    let onlooker = Speaker::enter(fixture).await;
    let mut crowd = Crowd::enter(fixture, "a follower hears of sessions that end").await;
    let mut watch = Watch::begin(&onlooker).await;
    for who in 0..crowd.speakers.len() {
        crowd.changes(CHANGES_AROUND_A_FAILURE, fixture).await;
        crowd.speakers[who].inflict(Fault::ExpireSession).await;
        crowd.speakers[who] = Speaker::enter(fixture).await;
        crowd.taken.retain(|&(whose, ..)| whose != who);
        crowd.until_alone(&*onlooker.backend).await;
        watch.until_equal(&crowd.random).await;
    }
    crowd.leave().await;
}
