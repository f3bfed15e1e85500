//! A lock as looks and followers show it: which nodes hold its contenders, in which order, and what each says. Pure.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_core::{Answers, Contender, ContenderInfo, FencingToken, Mode, Part};
use lockkeeper_zk_proto::message::{ErrorCode, Stat};

use crate::error::ClientError;
use crate::layout::{ChildName, ForeignPolicy, Layout, bare_ticket, is_curators};
use crate::lock::owner::{self, ContenderData};
use crate::queue::{bare_permits, read_queue};

/// A node that holds contenders of a lock; they are shown in this order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum ChildGroup {
    /// The lock's own node. The permits of kazoo's semaphore stand there too.
    Line,
    /// The permits of Curator's semaphore, below it.
    Permits,
    /// The waiters of Curator's semaphore, below it.
    Waiters,
    /// The waiters of kazoo's semaphore, beside it.
    Beside,
}

impl ChildGroup {
    /// The queue that a group is, and the layout that puts it there, where locks are laid out as `layout`.
    pub(super) const fn queue(self, layout: Layout) -> (Part, Layout) {
        match self {
            Self::Line => (Part::Line, layout),
            Self::Permits => (Part::Permits, Layout::Curator),
            Self::Waiters => (Part::Waiters, Layout::Curator),
            Self::Beside => (Part::Waiters, Layout::Kazoo),
        }
    }

    /// The groups besides the line that a lock has, by the children of its own node.
    pub(super) fn besides_line(in_line: &[String], layout: Layout) -> Vec<Self> {
        let reading = read_queue(in_line, Part::Line, layout, ForeignPolicy::Wait);
        let parts =
            reading.parts.into_iter().map(|part| if part == Part::Permits { Self::Permits } else { Self::Waiters });
        // Of kazoo's semaphore a waiter has to find permits that are taken, so that these tell of it in any layout.
        let is_kazoos = layout == Layout::Kazoo || !bare_permits(in_line).is_empty();
        let mut groups: Vec<_> = parts.chain(is_kazoos.then_some(Self::Beside)).collect();
        groups.sort_unstable();
        groups
    }

    /// The contenders among the children of a group, in their order. All are shown, also the ones that a lock would
    /// refuse to queue with.
    pub(super) fn contenders<Name: AsRef<str>>(self, children: &[Name], layout: Layout) -> Vec<Contender> {
        let (part, its_layout) = self.queue(layout);
        if self != Self::Line {
            return read_queue(children, part, its_layout, ForeignPolicy::Wait).contenders;
        }
        // The last digits of a permit may look like a number: it stands here once, as a permit.
        let others: Vec<&str> = children.iter().map(AsRef::as_ref).filter(|name| bare_ticket(name).is_none()).collect();
        let mut contenders = read_queue(&others, part, its_layout, ForeignPolicy::Wait).contenders;
        contenders.extend(bare_permits(children));
        contenders
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ContenderReading {
    Read(Arc<ContenderInfo>),
    /// This user may not read it. The contender stands there nevertheless.
    Refused,
}

impl ContenderReading {
    /// Reads what the service said to a read; `None` if there is no such node any more.
    pub(super) fn of(contender: &Contender, said: Result<(Bytes, Stat), ClientError>) -> Option<Self> {
        match said {
            Ok((data, stat)) => Some(Self::Read(Arc::new(describe(contender, &data, &stat)))),
            Err(error) => error.is(ErrorCode::NoAuth).then_some(Self::Refused),
        }
    }
}

pub(super) fn show(contenders: Vec<(Contender, ContenderReading)>) -> Vec<Arc<ContenderInfo>> {
    let mut writer = None;
    let shown = contenders.into_iter().map(|(contender, found)| match found {
        ContenderReading::Read(mut info) => {
            share_place(&mut info, &mut writer);
            info
        }
        ContenderReading::Refused => {
            let mut info = ContenderInfo::new(contender.id, contender.mode);
            info.ticket = contender.ticket;
            Arc::new(info)
        }
    });
    shown.collect()
}

/// Gives a reader with a writer's own number the writer's token while the writer stands: it holds within that.
fn share_place(info: &mut Arc<ContenderInfo>, writer: &mut Option<(i32, Option<FencingToken>)>) {
    // Others are not looked at twice.
    if !matches!(info.mode, Mode::Read | Mode::Write | Mode::Exclusive) {
        return;
    }
    let ChildName::Contender { sequence, .. } = ChildName::read(info.id.as_str()) else {
        return;
    };
    match (info.mode, &*writer) {
        (Mode::Read, Some((number, token))) if *number == sequence => Arc::make_mut(info).token = *token,
        (Mode::Write | Mode::Exclusive, _) => *writer = Some((sequence, info.token)),
        _ => {}
    }
}

pub(super) fn describe(contender: &Contender, data: &[u8], stat: &Stat) -> ContenderInfo {
    let ours = ContenderData::read(data);
    let made_at = u64::try_from(stat.ctime).ok().map(Duration::from_millis);
    let mut info = ContenderInfo::new(contender.id.clone(), contender.mode);
    info.token = own_token(ours.as_ref(), stat);
    info.session = (stat.ephemeral_owner != 0).then(|| format!("{:#x}", stat.ephemeral_owner));
    info.ticket = contender.ticket;
    info.owner = ours.as_ref().map(ContenderData::owner);
    info.caller = ours.as_ref().map(ContenderData::caller).unwrap_or_default();
    info.label = if ours.is_none() { owner::label(data) } else { None };
    info.since_unix = ours.as_ref().map(ContenderData::since_unix).or(made_at);
    info.answers = match &ours {
        Some(data) => data.answers(),
        None if is_curators(contender.id.as_str()) => Answers::Unknown,
        None => Answers::No,
    };
    info.frozen = ours.and_then(|data| data.frozen);
    info.revocation = owner::read_request(data);
    info
}

pub(super) fn own_token(data: Option<&ContenderData>, stat: &Stat) -> Option<FencingToken> {
    match data {
        Some(data) => data.token(stat.czxid),
        None => u64::try_from(stat.czxid).ok().and_then(|grant| FencingToken::new(grant, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_of_kazoos_stands_once_in_a_line_even_if_it_ends_like_a_number() {
        let children = ["0123456789abcdef0123456789abcdef", "0123456789abcdef0123451057510164", "x-0000000001"];
        for layout in [Layout::Curator, Layout::Kazoo] {
            let contenders = ChildGroup::Line.contenders(&children, layout);
            let modes: Vec<_> = contenders.iter().map(|contender| contender.mode).collect();
            assert_eq!(modes, [Mode::Exclusive, Mode::Permit, Mode::Permit], "{layout:?}");
            assert_eq!(contenders.iter().filter(|contender| contender.ticket.is_some()).count(), 2);
        }
    }
}
