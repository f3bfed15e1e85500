//! The wait-for picture, as boxes and arrows: which there are, and what each stands for.
//!
//! Where they stand is `layout`'s matter; how they look is the page's.

use lockkeeper::{ContenderInfo, QueueName};

use crate::deadlock::{AheadRole, Deadlock};
use crate::known::{KnownContender, KnownLock};

/// How many boxes a picture has at most: more cannot be taken in, and the chain in words says it too.
pub const BOXES_MAX: usize = 60;

/// How many holders and how many waiters of one lock have a box each; the rest is counted in one.
const NAMED_MAX: usize = 4;

/// Boxes and arrows.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WaitPicture {
    /// What the boxes stand for.
    pub boxes: Vec<Depicted>,
    /// Which of them is joined with which, by their numbers.
    pub arrows: Vec<Arrow>,
}

/// What a box stands for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Depicted {
    /// A flow of control, named by one of its contenders.
    Flow(Box<ContenderInfo>),
    /// A lock.
    Lock(QueueName),
    /// This many more waiters or holders of a lock.
    More(usize, Side),
}

/// On which side of a lock contenders are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Side {
    /// They hold it.
    Holders,
    /// They wait for it.
    Waiters,
}

/// An arrow from one box to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Arrow {
    /// The number of the box at which it begins.
    pub from: usize,
    /// The number of the box to which it leads.
    pub to: usize,
    /// What it says.
    pub says: Says,
    /// Whether it is part of what blocks itself.
    pub is_core: bool,
}

/// What an arrow says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Says {
    /// A flow waits for a lock.
    WaitsFor,
    /// A lock is held by a flow.
    HeldBy,
    /// A flow waits for a lock too, and is ahead of those who lead to it.
    Ahead,
}

impl WaitPicture {
    /// Depicts the chain of a deadlock, and how many others wait for its locks; `None` if it has too many boxes.
    pub fn of_deadlock(deadlock: &Deadlock, waiters: impl Fn(&QueueName) -> usize) -> Option<Self> {
        let mut picture = Self::default();
        let flows: Vec<_> = deadlock.chain.iter().map(|link| picture.add(flow(&link.waiter))).collect();
        let mut locks: Vec<(&QueueName, usize, usize)> = Vec::new();
        for (at, link) in deadlock.chain.iter().enumerate() {
            let known = locks.iter().position(|(lock, ..)| **lock == link.lock);
            let known = known.unwrap_or_else(|| {
                locks.push((&link.lock, picture.add(Depicted::Lock(link.lock.clone())), 0));
                locks.len() - 1
            });
            let lock = locks[known].1;
            locks[known].2 += 1;
            picture.join(flows[at], lock, Says::WaitsFor, true);
            let says = if link.state == AheadRole::Waits { Says::Ahead } else { Says::HeldBy };
            picture.join(lock, flows[(at + 1) % flows.len()], says, true);
        }
        for (name, lock, depicted) in locks {
            picture.add_more(lock, waiters(name).saturating_sub(depicted), Side::Waiters);
        }
        (picture.boxes.len() <= BOXES_MAX).then_some(picture)
    }

    /// Depicts one lock, its first holders, and its first waiters.
    pub fn of_lock(name: &QueueName, lock: &KnownLock) -> Self {
        let mut picture = Self::default();
        let middle = picture.add(Depicted::Lock(name.clone()));
        let (holders, waiters): (Vec<_>, Vec<_>) = (lock.holders().collect(), lock.waiters().collect());
        for holder in holders.iter().take(NAMED_MAX) {
            let holder = picture.add(known_flow(holder));
            picture.join(middle, holder, Says::HeldBy, false);
        }
        picture.add_more(middle, holders.len().saturating_sub(NAMED_MAX), Side::Holders);
        for waiter in waiters.iter().take(NAMED_MAX) {
            let waiter = picture.add(known_flow(waiter));
            picture.join(waiter, middle, Says::WaitsFor, false);
        }
        picture.add_more(middle, waiters.len().saturating_sub(NAMED_MAX), Side::Waiters);
        picture
    }

    fn add(&mut self, depicted: Depicted) -> usize {
        self.boxes.push(depicted);
        self.boxes.len() - 1
    }

    fn add_more(&mut self, lock: usize, count: usize, side: Side) {
        if count > 0 {
            let more = self.add(Depicted::More(count, side));
            match side {
                Side::Holders => self.join(lock, more, Says::HeldBy, false),
                Side::Waiters => self.join(more, lock, Says::WaitsFor, false),
            }
        }
    }

    fn join(&mut self, from: usize, to: usize, says: Says, is_core: bool) {
        self.arrows.push(Arrow { from, to, says, is_core });
    }

    /// Tells whether a box is part of what blocks itself.
    pub fn is_core(&self, number: usize) -> bool {
        self.arrows.iter().any(|arrow| arrow.is_core && (arrow.from == number || arrow.to == number))
    }
}

fn flow(info: &ContenderInfo) -> Depicted {
    Depicted::Flow(Box::new(info.clone()))
}

fn known_flow(contender: &KnownContender) -> Depicted {
    flow(&contender.info)
}
