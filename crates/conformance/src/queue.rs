//! Contenders behind a holder, who must be served in the order in which they joined.

use std::collections::VecDeque;

use lockkeeper_recipes::Handoff;

use crate::asking::{Ask, Held, LOCK};
use crate::fixture::Fixture;
use crate::party::{Party, Waiting, enter_all, give_back, granted};

/// A holder, and those that wait behind it.
pub(crate) struct Queue {
    pub(crate) parties: Vec<Party>,
    holder: Held,
    waiting: VecDeque<(Ask, Waiting<Held>)>,
    /// Whether each that was asked for is a contender, and goes with its release.
    is_counted: bool,
}

impl Queue {
    /// Has the first of these granted, and the others wait for theirs, of so many clients in turn.
    pub(crate) async fn form(fixture: &dyn Fixture, clients: usize, asks: &[Ask]) -> Self {
        let parties = enter_all(fixture, clients).await;
        let holder = parties[0].take(asks[0]).await;
        let mut waiting = VecDeque::with_capacity(asks.len());
        for (party, &ask) in parties.iter().cycle().zip(asks).skip(1) {
            waiting.push_back((ask, party.queue_up_as(ask).await));
        }
        assert!(waiting.iter().all(|(_, waiting)| !waiting.is_finished()), "what is asked for is held by the first");
        // Who is granted permits leaves its place among the waiters in the background.
        let is_counted = fixture.handoff() == Handoff::Strict && !matches!(asks[0], Ask::Permits(..));
        Self { parties, holder, waiting, is_counted }
    }

    /// Has the waiters at these positions give up.
    pub(crate) async fn leave(&mut self, leaves: impl Fn(usize) -> bool) {
        let mut at = 0..;
        self.waiting.retain(|(_, waiting)| {
            let leaves = at.next().is_some_and(&leaves);
            if leaves {
                waiting.abort();
            }
            !leaves
        });
        self.parties[0].until_contenders(LOCK, 1 + self.waiting.len()).await;
    }

    /// Has all served, one after the other, or those together that do not exclude one another.
    pub(crate) async fn serve(self) {
        self.serve_and_check(|_| ()).await;
    }

    /// As [`serve`](Self::serve), where each may be woken once, by the release of the one ahead.
    pub(crate) async fn serve_waking_each_once(self) {
        let taps: Vec<_> = self.parties.iter().map(|party| party.tap.clone()).collect();
        let woken = || taps.iter().map(|tap| tap.departures()).sum::<u64>();
        assert_eq!(woken(), 0, "no waiter is woken while no contender leaves");
        self.serve_and_check(|served| assert_eq!(woken(), served, "wake-ups for {served} grants")).await;
    }

    async fn serve_and_check(mut self, check: impl Fn(u64)) {
        let (mut last_token, mut served) = (self.holder.token(), 0);
        give_back(self.holder).await;
        while let Some((ask, next)) = self.waiting.pop_front() {
            let mut together = vec![granted(next).await];
            while self.waiting.front().is_some_and(|(other, _)| !ask.excludes(*other)) {
                let (_, next) = self.waiting.pop_front().expect("there is one");
                together.push(granted(next).await);
            }
            served += together.len() as u64;
            check(served);
            assert!(self.waiting.iter().all(|(_, other)| !other.is_finished()), "one further behind was served too");
            assert!(together.iter().all(Held::is_held));
            if self.is_counted {
                assert_eq!(self.parties[0].contenders(LOCK).await, self.waiting.len() + together.len());
            }
            for held in together {
                assert!(held.token() > last_token, "{} after {last_token}", held.token());
                last_token = held.token();
                give_back(held).await;
            }
        }
    }
}
