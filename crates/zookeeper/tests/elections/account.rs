//! What the campaigners of one election have said: which stand, which leads, and until when each believes it.

use lockkeeper_core::clock::BootInstant;

/// One term of a leader.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    /// Which campaigner, by its place among them.
    pub(crate) leader: usize,
    /// The token of its grant.
    pub(crate) token: u64,
    /// When it began to believe that it leads.
    pub(crate) began_at: BootInstant,
    /// Until when it may believe so, by its last message.
    pub(crate) safe_until: BootInstant,
    /// When it saw that it no longer leads; none if it died before.
    pub(crate) ended_at: Option<BootInstant>,
}

impl Term {
    /// When it believed for the last time that it leads.
    pub(crate) fn believed_until(&self) -> BootInstant {
        self.ended_at.map_or(self.safe_until, |ended_at| ended_at.min(self.safe_until))
    }
}

/// What a campaigner is doing, as far as it has said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    /// It has no place in the line.
    Away,
    /// It has one, and does not lead.
    Stands,
    /// It leads: the term of this number.
    Leads(usize),
}

/// What a campaigner says, a line each.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Saying {
    /// It has a place in the line.
    Joined,
    /// It leads from now on.
    Leads { token: u64, now: BootInstant },
    /// It may believe so until this time.
    Until(BootInstant),
    /// It no longer leads.
    Ended(BootInstant),
}

impl Saying {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Joined => "joined".to_owned(),
            Self::Leads { token, now } => format!("leads {token} {}", now.as_nanos()),
            Self::Until(until) => format!("until {}", until.as_nanos()),
            Self::Ended(now) => format!("ended {}", now.as_nanos()),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let instant = |text: &str| text.parse().ok().map(BootInstant::from_nanos);
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["joined"] => Some(Self::Joined),
            ["leads", token, now] => Some(Self::Leads { token: token.parse().ok()?, now: instant(now)? }),
            ["until", until] => instant(until).map(Self::Until),
            ["ended", now] => instant(now).map(Self::Ended),
            _ => None,
        }
    }
}

/// Everything said in one election.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) states: Vec<State>,
    pub(crate) terms: Vec<Term>,
}

impl Account {
    pub(crate) fn new(campaigners: usize) -> Self {
        Self { states: vec![State::Away; campaigners], terms: Vec::new() }
    }

    pub(crate) fn note(&mut self, who: usize, saying: &Saying) {
        match (saying, self.states[who]) {
            (Saying::Joined, _) => self.states[who] = State::Stands,
            (&Saying::Leads { token, now }, _) => {
                self.states[who] = State::Leads(self.terms.len());
                self.terms.push(Term { leader: who, token, began_at: now, safe_until: now, ended_at: None });
            }
            (&Saying::Until(until), State::Leads(term)) => self.terms[term].safe_until = until,
            (&Saying::Ended(now), State::Leads(term)) => {
                self.terms[term].ended_at = Some(now);
                self.states[who] = State::Away;
            }
            (Saying::Until(_) | Saying::Ended(_), _) => panic!("{who} says {saying:?} and does not lead"),
        }
    }

    /// Notes that a campaigner's process has died.
    pub(crate) fn note_death(&mut self, who: usize) {
        self.states[who] = State::Away;
    }

    /// The term under way, if all campaigners are in the line and one of them leads.
    pub(crate) fn settled(&self) -> Option<usize> {
        let mut leading = self.states.iter().filter_map(|state| match state {
            State::Leads(term) => Some(*term),
            _ => None,
        });
        let is_full = !self.states.contains(&State::Away);
        leading.next().filter(|_| is_full && leading.next().is_none())
    }
}
