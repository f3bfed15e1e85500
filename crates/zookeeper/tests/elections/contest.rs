//! One election, round after round: the leader is struck, another leads, and the one that was struck stands again.

use std::time::Duration;

use lockkeeper_conformance::SOON;
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_faults::zookeeper::Ensemble;
use lockkeeper_faults::{Error, Result};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::account::Account;
use crate::campaigner::Campaigner;
use crate::plan::{CAMPAIGNERS, Fault, HAND_OVER_MAX};

/// How many leaders of an election may lose their lead before they are struck: a busy machine ends the short sessions
/// now and then.
const LOST_MAX: u32 = 20;

/// The longest time that a leader is left alone before it is struck: two of its proof writes fall into it.
const LEFT_ALONE_MAX: Duration = Duration::from_millis(1_000);

/// One round, in which a leader was struck.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// How long after the stroke another led, as a thread counted it that only slept.
    pub(crate) hand_over: Duration,
}

/// An election and the fault that its leaders suffer.
pub(crate) struct Contest {
    name: String,
    fault: Fault,
    campaigners: Vec<Campaigner>,
    account: watch::Sender<Account>,
}

/// What came of an election.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) fault: Fault,
    pub(crate) rounds: Vec<Round>,
    pub(crate) account: Account,
}

impl Contest {
    pub(crate) async fn start(fault: Fault, number: u32, ensemble: &Ensemble) -> Result<Self> {
        let account = watch::Sender::new(Account::new(CAMPAIGNERS));
        let name = format!("{fault:?}-{number}");
        let mut campaigners = Vec::new();
        for (place, server) in ensemble.servers().iter().enumerate() {
            campaigners.push(Campaigner::start(place, &name, server.address(), &account).await?);
        }
        Ok(Self { name, fault, campaigners, account })
    }

    pub(crate) async fn play(mut self, rounds: u32) -> Result<Played> {
        let mut played = Vec::new();
        let mut lost = 0;
        while played.len() < rounds as usize {
            let number = played.len() as u32;
            let left_alone = LEFT_ALONE_MAX * (number * 7 % 10) / 10;
            match self.play_round(left_alone).await? {
                Some(round) => played.push(round),
                None => lost += 1,
            }
            if lost > LOST_MAX {
                return Err(Error::new(format!("{}: {lost} lost their lead before they were struck", self.name)));
            }
            println!("{}: {} rounds of {rounds}", self.name, played.len());
        }
        // The campaigner that is struck last shall have said what it believed after it went on.
        self.reached("all standing", |account| account.settled()).await?;
        let account = self.account.borrow().clone();
        Ok(Played { fault: self.fault, rounds: played, account })
    }

    /// Strikes the leader; none if it had lost its lead already.
    async fn play_round(&mut self, left_alone: Duration) -> Result<Option<Round>> {
        self.reached("all standing", |account| account.settled()).await?;
        sleep(left_alone).await;
        let old = self.reached("all standing", |account| account.settled()).await?;
        let victim = self.account.borrow().terms[old].leader;
        let since_stroke = Sleeper::start();
        self.campaigners[victim].strike(self.fault)?;
        let next = |account: &Account| (account.terms.len() > old + 1).then_some(old + 1);
        let next = self.reached("another leader", next).await?;
        let hand_over = since_stroke.slept();
        self.campaigners[victim].heal(self.fault)?;
        let is_lost = self.account.borrow().terms[next].leader == victim;
        Ok((!is_lost).then_some(Round { hand_over }))
    }

    async fn reached<T>(&self, what: &str, look: impl Fn(&Account) -> Option<T> + Send + Sync) -> Result<T> {
        let mut account = self.account.subscribe();
        let found = timeout(SOON, account.wait_for(|account| look(account).is_some())).await;
        match found {
            Ok(Ok(account)) => Ok(look(&account).expect("it was waited for")),
            _ => Err(Error::new(format!("no {what}: {:?}", self.account.borrow().states))),
        }
    }
}

impl Played {
    /// How long after each stroke another led, as a thread counted it that only slept.
    pub(crate) fn hand_overs(&self) -> impl Iterator<Item = Duration> {
        self.rounds.iter().map(|round| round.hand_over)
    }

    /// The rounds without a leader within the promised time.
    pub(crate) fn late(&self) -> impl Iterator<Item = Duration> {
        self.hand_overs().filter(|hand_over| *hand_over > HAND_OVER_MAX)
    }
}
