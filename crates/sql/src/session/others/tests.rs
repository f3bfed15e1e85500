//! The rules of belief and of observation together: no session is removed while it believes itself.

use std::fmt;
use std::ops::RangeInclusive;

use lockkeeper_session::Belief;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::*;

const TIMEOUT_MS: u64 = 6_000;
const TIMING: Timing = Timing { timeout: Duration::from_millis(TIMEOUT_MS) };
const OWNER: SessionNumber = SessionNumber(7);
const OBSERVER: SessionNumber = SessionNumber(3);

fn at(milliseconds: u64) -> BootInstant {
    BootInstant::from_nanos(milliseconds * 1_000_000)
}

fn shown(session: u128, beat: i64) -> SessionBeat {
    SessionBeat { session: SessionNumber(session), epoch: 1, beat, timing: TIMING }
}

fn observation() -> Observation {
    Observation::new(OBSERVER)
}

#[test]
fn a_session_is_due_after_its_own_timeout_and_the_margin_from_the_first_answer_that_showed_its_beat() {
    let mut seen = observation();
    seen.shown([shown(7, 1)], at(1_000));
    seen.shown([shown(7, 1)], at(4_000));
    let doubt_ms = 6_000 + 100 + 120;
    assert_eq!(seen.next_due(), Some(at(1_000 + doubt_ms)));
    assert_eq!(seen.take_due(at(999 + doubt_ms)), None);
    assert_eq!(seen.take_due(at(1_000 + doubt_ms)), Some(shown(7, 1)));
    assert_eq!(seen.take_due(at(1_000 + doubt_ms)), None, "not before a pause");
    seen.shown([shown(7, 1)], at(7_300));
    assert_eq!(seen.take_due(at(1_250 + doubt_ms)), Some(shown(7, 1)), "it could not be removed before");
    seen.shown([shown(7, 2)], at(8_000));
    assert_eq!(seen.next_due(), Some(at(8_000 + doubt_ms)), "a new beat is observed anew");
    seen.forget(OWNER);
    assert_eq!(seen.next_due(), None);
}

#[test]
fn an_epoch_counts_as_a_beat_and_ones_own_session_is_not_observed() {
    let mut seen = observation();
    seen.shown([shown(7, 1), shown(3, 1)], at(0));
    seen.shown([SessionBeat { epoch: 2, ..shown(7, 1) }], at(500));
    assert_eq!(seen.next_due(), Some(at(6_720)));
}

#[test]
fn one_that_is_shown_no_more_is_forgotten() {
    let mut seen = observation();
    seen.shown([shown(7, 1)], at(0));
    seen.shown([shown(8, 1)], at(13_000));
    assert_eq!(seen.take_due(at(13_000)), None);
}

#[test]
fn the_ring_is_wide_only_while_its_next_sixteen_stand_still() {
    let mut seen = observation();
    // The next by their numbers are 4 … 15, and behind the greatest 0 … 2 and 15: all but 40, which is waited for.
    let ring = (4..=18).chain([u128::MAX]);
    let show = |seen: &mut Observation, beat: i64, at_ms: u64| {
        seen.shown(ring.clone().map(|id| shown(id, 1)).chain([shown(u128::MAX - 1, 1), shown(2, beat)]), at(at_ms));
    };
    show(&mut seen, 1, 0);
    assert_eq!(seen.ring(at(2_999)), RING);
    assert_eq!(seen.ring(at(3_000)), RING_WIDE);
    show(&mut seen, 2, 3_500);
    assert_eq!(seen.ring(at(3_500)), RING_WIDE, "one that is not of the next sixteen has no say");
    seen.shown([shown(4, 2)], at(4_000));
    assert_eq!(seen.ring(at(4_000)), RING);
    let mut few = observation();
    few.shown((4..=18).map(|id| shown(id, 1)), at(0));
    assert_eq!(few.ring(at(5_000)), RING, "all that there are, are observed");
}

#[test]
fn a_row_that_makes_no_sense_shows_no_session() {
    let row = AnswerRow {
        what: RowKind::Beat as i16,
        session: Some(7),
        number: Some(4),
        epoch: Some(1),
        timeout_ms: Some(6_000),
        ..AnswerRow::default()
    };
    assert_eq!(SessionBeat::read(&row), Some(shown(7, 4)));
    assert_eq!(SessionBeat::read(&AnswerRow { timeout_ms: Some(-1), ..row.clone() }), None);
    assert_eq!(SessionBeat::read(&AnswerRow { session: None, ..row.clone() }), None);
    assert_eq!(SessionBeat::read(&AnswerRow { what: RowKind::Owner as i16, ..row }), None);
}

/// What may be wrong with the rules, for the model to find.
#[derive(Clone, Copy, Debug, Default)]
struct Bugs {
    doubts_early: bool,
    counts_from_replies: bool,
    joins_prove: bool,
    keeps_observation: bool,
}

/// Something that happens; what cannot happen now does nothing.
#[derive(Clone, Copy, Debug)]
enum Event {
    OwnerBeats,
    ObserverLooks,
    OwnerSends,
    OwnerJoins,
    /// The owner's oldest message reaches the server, which answers.
    Arrives,
    /// The oldest answer reaches the owner.
    OwnerHears,
    /// The owner's oldest message, or its answer, is lost.
    IsLost,
    ObserverAsks,
    /// The server answers the observer; the answer is on its way.
    ServerShows,
    ObserverHears,
    ObserverReconnects,
    OwnerReconnects,
    ObserverReaps,
    /// The other server copies what it lacks.
    Copies,
    /// The other server takes over; it has what it copied.
    FailsOver,
}

struct Message {
    sent_ms: u64,
    /// `None` of a join.
    beat: Option<i64>,
    has_arrived: bool,
}

/// One owner, one observer and a server with a copy. All times are the owner's; the observer's clock runs at another
/// speed.
struct World {
    bugs: Bugs,
    speed_percent: u64,
    now_ms: u64,
    row: (i64, i64),
    copy: (i64, i64),
    epoch: i64,
    last_beat: i64,
    belief: Belief,
    messages: Vec<Message>,
    observation: Observation,
    /// What the server has shown, and the observer has not received; `None` while it has not been shown.
    showing: Option<Option<(i64, i64)>>,
    removed_at: Option<BootInstant>,
}

impl fmt::Debug for World {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at {} ms, row {:?}, believed until {:?}", self.now_ms, self.row, self.belief.safe_until())
    }
}

impl World {
    fn new(bugs: Bugs, speed_percent: u64) -> Self {
        Self {
            bugs,
            speed_percent,
            now_ms: 0,
            row: (1, 1),
            copy: (1, 1),
            epoch: 1,
            last_beat: 1,
            belief: Belief::until(at(0).saturating_add(TIMING.belief())),
            messages: Vec::new(),
            observation: observation(),
            showing: None,
            removed_at: None,
        }
    }

    /// The observer's clock, which began elsewhere.
    fn observer_now(&self) -> BootInstant {
        at(1_000_000 + self.now_ms * self.speed_percent / 100)
    }

    fn send(&mut self, beat: Option<i64>) {
        self.messages.push(Message { sent_ms: self.now_ms, beat, has_arrived: false });
    }

    fn beat(&mut self) -> Option<i64> {
        self.last_beat += 1;
        Some(self.last_beat)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::OwnerBeats => {
                [Event::OwnerSends, Event::Arrives, Event::OwnerHears].into_iter().for_each(|event| self.happen(event));
            }
            Event::ObserverLooks => {
                [Event::ObserverAsks, Event::ServerShows, Event::ObserverHears]
                    .into_iter()
                    .for_each(|event| self.happen(event));
            }
            Event::OwnerSends => {
                let beat = self.beat();
                self.send(beat);
            }
            Event::OwnerJoins => self.send(None),
            Event::Arrives => self.arrive(),
            Event::OwnerHears => self.hear(),
            Event::IsLost if !self.messages.is_empty() => drop(self.messages.remove(0)),
            Event::ObserverAsks => self.showing = Some(None),
            Event::ServerShows => {
                let row = self.row;
                if let Some(showing) = &mut self.showing {
                    showing.get_or_insert(row);
                }
            }
            Event::ObserverHears => {
                if let Some((epoch, beat)) = self.showing.take_if(|showing| showing.is_some()).flatten() {
                    let shown = SessionBeat { session: OWNER, epoch, beat, timing: TIMING };
                    let shown = if self.bugs.doubts_early { early(shown) } else { shown };
                    self.observation.shown([shown], self.observer_now());
                }
            }
            Event::ObserverReconnects => self.reconnect_observer(),
            Event::OwnerReconnects => self.reconnect_owner(),
            Event::ObserverReaps => {
                if let Some(shown) = self.observation.take_due(self.observer_now())
                    && (shown.epoch, shown.beat) == self.row
                    && self.removed_at.is_none()
                {
                    self.removed_at = Some(at(self.now_ms));
                    // What arrives from now on finds no session.
                    self.messages.retain(|message| message.has_arrived);
                }
            }
            Event::Copies => self.copy = self.row,
            // After a removal, the other server has not copied that; its session is another one.
            Event::FailsOver if self.removed_at.is_none() => {
                self.row = self.copy;
                self.messages.clear();
                self.reconnect_observer();
                self.reconnect_owner();
            }
            Event::IsLost | Event::FailsOver => {}
        }
    }

    /// What was sent over the old connection may still arrive; no answer does.
    fn reconnect_owner(&mut self) {
        self.messages.retain(|message| !message.has_arrived);
        self.epoch += 1;
        let beat = self.beat();
        self.send(beat);
    }

    fn reconnect_observer(&mut self) {
        self.showing = None;
        if !self.bugs.keeps_observation {
            self.observation = observation();
        }
    }

    fn arrive(&mut self) {
        if self.removed_at.is_some() {
            return;
        }
        let epoch = self.epoch;
        if let Some(message) = self.messages.iter_mut().find(|message| !message.has_arrived) {
            message.has_arrived = true;
            if let Some(beat) = message.beat.filter(|beat| *beat > self.row.1) {
                self.row = (epoch, beat);
            }
        }
    }

    fn hear(&mut self) {
        if let Some(answered) = self.messages.iter().position(|message| message.has_arrived) {
            let message = self.messages.remove(answered);
            if message.beat.is_some() || self.bugs.joins_prove {
                let from_ms = if self.bugs.counts_from_replies { self.now_ms } else { message.sent_ms };
                self.belief.prove(at(from_ms), TIMING.belief());
            }
        }
    }

    fn is_wrong(&self) -> bool {
        self.removed_at.is_some_and(|removed_at| self.belief.safe_until() > removed_at)
    }
}

fn events() -> impl Strategy<Value = Vec<(Event, u64)>> {
    use Event::*;
    let event = prop_oneof![
        3 => Just(OwnerBeats),
        3 => Just(ObserverLooks),
        2 => Just(OwnerSends),
        1 => Just(OwnerJoins),
        2 => Just(Arrives),
        2 => Just(OwnerHears),
        1 => Just(IsLost),
        1 => Just(ObserverAsks),
        1 => Just(ServerShows),
        1 => Just(ObserverHears),
        1 => Just(ObserverReconnects),
        1 => Just(OwnerReconnects),
        3 => Just(ObserverReaps),
        1 => Just(Copies),
        1 => Just(FailsOver),
    ];
    // Most things take no time; a process that was stopped comes late.
    let later_ms = prop_oneof![5 => 0..100_u64, 2 => 100..1_500_u64, 1 => 1_500..8_000_u64];
    proptest::collection::vec((event, later_ms), 0..80)
}

/// How fast the observer's clock may run, in percent of the owner's.
const SPEEDS_PERCENT: RangeInclusive<u64> = 98..=102;

/// Runs the model; fails with what it found wrong.
fn run_model(bugs: Bugs, speeds_percent: RangeInclusive<u64>, cases: u32) -> Result<(), String> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[13; 32]);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 100, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let found = runner.run(&(events(), speeds_percent), |(events, speed_percent)| {
        let mut world = World::new(bugs, speed_percent);
        for (event, later_ms) in events {
            world.now_ms += later_ms;
            world.happen(event);
            prop_assert!(!world.is_wrong(), "removed while it believes itself: {world:?}");
        }
        Ok(())
    });
    match found {
        Ok(()) => Ok(()),
        Err(TestError::Fail(why, (events, speed))) => Err(format!("{why}\nspeed {speed} %, events: {events:?}")),
        Err(TestError::Abort(why)) => panic!("the model did not run: {why}"),
    }
}

#[test]
fn no_session_is_removed_while_it_believes_itself() {
    if let Err(found) = run_model(Bugs::default(), SPEEDS_PERCENT, 4_000) {
        panic!("{found}");
    }
}

#[test]
fn the_model_finds_each_planted_bug() {
    for bugs in [
        Bugs { doubts_early: true, ..Bugs::default() },
        Bugs { counts_from_replies: true, ..Bugs::default() },
        Bugs { joins_prove: true, ..Bugs::default() },
        Bugs { keeps_observation: true, ..Bugs::default() },
    ] {
        assert!(run_model(bugs, SPEEDS_PERCENT, 20_000).is_err(), "not found: {bugs:?}");
    }
}

#[test]
fn clocks_that_run_at_one_speed_within_two_percent_remove_no_believer_and_others_do() {
    for speed_percent in [*SPEEDS_PERCENT.start(), *SPEEDS_PERCENT.end()] {
        let found = run_model(Bugs::default(), speed_percent..=speed_percent, 1_000);
        assert!(found.is_ok(), "at {speed_percent} %: {found:?}");
    }
    assert!(run_model(Bugs::default(), 115..=115, 20_000).is_err(), "no clock is too fast for the model");
}
