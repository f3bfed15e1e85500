//! One election, round after round: the leader is struck, another leads, and the one that was struck stands again.

use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_faults::zookeeper::Ensemble;
use lockkeeper_faults::{Error, Result};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::account::Account;
use crate::campaigner::Campaigner;
use crate::plan::{CAMPAIGNERS, Fault, HAND_OVER_MAX};

/// How long to wait for what need not be quick: beyond it something is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// The longest time that a leader is left alone before it is struck: two of its proof writes fall into it.
const LEFT_ALONE_MAX: Duration = Duration::from_millis(1_000);

/// One round: whose term was ended, and whose came next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) struck_at: BootInstant,
    /// The struck leader's term, and the next leader's, in the election's account.
    pub(crate) terms: [usize; 2],
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
        for number in 0..rounds {
            let left_alone = LEFT_ALONE_MAX * (number * 7 % 10) / 10;
            played.push(self.play_round(left_alone).await?);
            println!("{}: round {} of {rounds}", self.name, number + 1);
        }
        // The campaigner that is struck last shall have said what it believed after it went on.
        self.reached("all standing", |account| account.settled()).await?;
        let account = self.account.borrow().clone();
        Ok(Played { fault: self.fault, rounds: played, account })
    }

    async fn play_round(&mut self, left_alone: Duration) -> Result<Round> {
        self.reached("all standing", |account| account.settled()).await?;
        sleep(left_alone).await;
        let old = self.reached("all standing", |account| account.settled()).await?;
        let victim = self.account.borrow().terms[old].leader;
        let struck_at = self.campaigners[victim].strike(self.fault)?;
        let terms = |account: &Account| (account.terms.len() > old + 1).then_some([old, old + 1]);
        let terms = self.reached("another leader", terms).await?;
        if self.account.borrow().terms[terms[1]].leader == victim {
            return Err(Error::new(format!("{:?} {victim} lost its lead before it was struck", self.fault)));
        }
        self.campaigners[victim].heal(self.fault)?;
        Ok(Round { struck_at, terms })
    }

    async fn reached<T>(&self, what: &str, look: impl Fn(&Account) -> Option<T> + Send + Sync) -> Result<T> {
        let mut account = self.account.subscribe();
        let found = timeout(STUCK_AFTER, account.wait_for(|account| look(account).is_some())).await;
        match found {
            Ok(Ok(account)) => Ok(look(&account).expect("it was waited for")),
            _ => Err(Error::new(format!("no {what}: {:?}", self.account.borrow().states))),
        }
    }
}

impl Played {
    /// How long after each stroke another led.
    pub(crate) fn hand_overs(&self) -> impl Iterator<Item = Duration> {
        let began_at = |round: &Round| self.account.terms[round.terms[1]].began_at;
        self.rounds.iter().map(move |round| began_at(round).saturating_duration_since(round.struck_at))
    }

    /// The rounds without a leader within the promised time.
    pub(crate) fn late(&self) -> impl Iterator<Item = Duration> {
        self.hand_overs().filter(|hand_over| *hand_over > HAND_OVER_MAX)
    }
}
