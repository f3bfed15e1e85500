//! A model of what the scripts keep, against which they are tested: sessions, one lock's line, and which contenders
//! were broken. It has no clock; the test tells it the service's.

use std::collections::BTreeMap;

/// A contender: its grant, its number beside others, its mode's letter, its ticket and its session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Stored {
    pub(super) place: (u64, u32),
    pub(super) mode: char,
    pub(super) ticket: u128,
    /// `None` if it outlives its session.
    pub(super) session: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) epoch: u64,
    pub(super) ends_ms: u64,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) sessions: BTreeMap<usize, Session>,
    pub(super) line: Vec<Stored>,
    /// The sessions of those that were broken.
    broken: BTreeMap<u128, usize>,
    last_grant: u64,
}

impl Model {
    /// Lets the service's clock reach this.
    pub(super) fn pass(&mut self, now_ms: u64) {
        self.sessions.retain(|_, session| session.ends_ms > now_ms);
        let sessions = &self.sessions;
        self.line.retain(|stored| stored.session.is_none_or(|session| sessions.contains_key(&session)));
        self.broken.retain(|_, session| sessions.contains_key(session));
    }

    pub(super) fn open(&mut self, session: usize, ends_ms: u64) {
        self.sessions.insert(session, Session { epoch: 1, ends_ms });
    }

    pub(super) fn attach(&mut self, session: usize, epoch: u64, ends_ms: u64) -> &'static str {
        match self.sessions.get_mut(&session) {
            None => "gone",
            Some(session) if session.epoch > epoch => "stale",
            Some(session) => {
                *session = Session { epoch, ends_ms };
                "ok"
            }
        }
    }

    pub(super) fn renew(&mut self, session: usize, ends_ms: u64) -> &'static str {
        self.sessions.get_mut(&session).map_or("gone", |session| {
            session.ends_ms = ends_ms;
            "ok"
        })
    }

    /// What a join of this one answers: `ok` if it stands then.
    pub(super) fn join(
        &mut self,
        entry: Stored,
        epoch: u64,
        anchor: Option<u128>,
        by: usize,
        ends_ms: u64,
    ) -> &'static str {
        let Some(session) = self.sessions.get_mut(&by) else { return "gone" };
        if session.epoch != epoch {
            return "stale";
        }
        if let Some(anchor) = anchor {
            let found = self.line.iter().find(|stored| stored.ticket == anchor && stored.session == Some(by));
            if found.is_none() {
                return "anchor";
            }
        }
        session.ends_ms = ends_ms;
        self.line.push(entry);
        self.line.sort_by_key(|stored| stored.place);
        "ok"
    }

    /// Whether a grant at the tail is greater than all before.
    pub(super) fn grows(&mut self, grant: u64) -> bool {
        let grows = grant > self.last_grant;
        self.last_grant = grant;
        grows
    }

    pub(super) fn find(&self, ticket: u128) -> Option<&Stored> {
        self.line.iter().find(|stored| stored.ticket == ticket)
    }

    pub(super) fn leave(&mut self, ticket: u128, by: usize, outlives: bool) -> &'static str {
        let was_there = self.find(ticket).is_some();
        self.line.retain(|stored| stored.ticket != ticket);
        let was_broken = self.broken.remove(&ticket).is_some();
        match (was_there, was_broken) {
            _ if !outlives && !self.sessions.contains_key(&by) => "gone",
            (true, _) => "left",
            (false, true) => "broken",
            (false, false) => "removed",
        }
    }

    pub(super) fn break_it(&mut self, ticket: u128) -> bool {
        let Some(found) = self.find(ticket).cloned() else { return false };
        self.line.retain(|stored| stored.ticket != ticket);
        if let Some(session) = found.session {
            self.broken.insert(ticket, session);
        }
        true
    }

    pub(super) fn close(&mut self, session: usize) {
        self.sessions.remove(&session);
        self.line.retain(|stored| stored.session != Some(session));
        self.broken.retain(|_, by| *by != session);
    }
}
