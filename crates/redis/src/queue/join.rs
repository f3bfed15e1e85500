//! Joining: the entries of one call are stored by one script, which also shows the queue.
//!
//! The script stores them only if none of them is there yet and the epoch is that of the session's present connection.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Entry, Lifetime, Operation, QueueName, QueueView, Rank};
use lockkeeper_session::{Failure, Joined, Link as _, Record, Stood, Stored};
use redis::Value;

use crate::answers::{list, number, text, texts};
use crate::connection::{Batch, answer};
use crate::layout::{Member, listed, mode_letter, part_letter};
use crate::queue::place::Own;
use crate::queue::view;
use crate::script::Script;
use crate::session::{Core, Link, Make, check_copies, copied};

/// Makes the call that stores these entries.
pub(super) fn make(core: &Arc<Core>, queue: &QueueName, entries: &[Entry], shows_whole: bool) -> Make<Joined<Own>> {
    let (core, fixed) = (core.clone(), arguments(core, queue, entries, shows_whole));
    Arc::new(move |link: &Arc<Link>| {
        let (session, epoch) = (core.id.to_string(), core.epoch(link.number));
        let arguments: Vec<_> = [&session, &epoch].into_iter().chain(&fixed).collect();
        let batch = Batch::new().script(core.layout.script(Script::Join), &[core.layout.base()], arguments);
        let asked_at = core.life.clock.now();
        let asking = core.send(link, copied(batch, &core.config), Operation::Join);
        let (core, link) = (core.clone(), link.clone());
        Box::pin(async move { read(&core, &link, asking.await?, asked_at) })
    })
}

/// The arguments of the script, but for those that a connection determines: the first two.
fn arguments(core: &Core, queue: &QueueName, entries: &[Entry], shows_whole: bool) -> Vec<String> {
    let since_unix = core.life.clock.unix_time();
    let extent = if shows_whole { "whole" } else { "around" };
    let timeout_ms = core.timing.timeout.as_millis().to_string();
    let mut arguments =
        vec![timeout_ms, part_letter(queue.part()).to_owned(), queue.encoded(), listed(queue), extent.to_owned()];
    for entry in entries {
        let anchor = match &entry.rank {
            Rank::Tail => String::new(),
            Rank::With(anchor) => anchor.as_str().to_owned(),
        };
        let lifetime = match entry.lifetime {
            Lifetime::Session => "s",
            Lifetime::Persistent { .. } => "p",
        };
        let record = Record::of(entry, since_unix).to_text();
        let mode = mode_letter(entry.mode).to_owned();
        arguments.extend([mode, entry.ticket.to_string(), anchor, lifetime.to_owned(), record]);
    }
    arguments
}

/// Reads the answers: of the script, and of the replicas that are waited for.
fn read(core: &Core, link: &Link, answers: Vec<Value>, asked_at: BootInstant) -> Result<Joined<Own>, Failure> {
    let mut answers = answers.into_iter();
    let answer = answer(answers.next().ok_or_else(Failure::unexpected)?, "join")?;
    let (members, view, guard_ms) = if let Value::BulkString(bytes) = &answer {
        let (member, guard_ms) = read_alone(bytes).ok_or_else(Failure::unexpected)?;
        (vec![Some(member)], QueueView::new(link.connection_number(), vec![member.contender()]), guard_ms)
    } else {
        let mut answer = list(answer)?.into_iter();
        let mut next = || answer.next().ok_or_else(Failure::unexpected);
        match text(next()?)?.as_str() {
            "ok" => {}
            "anchor" => return Ok(Joined::AnchorGone),
            "full" => return Ok(Joined::Full("too many contenders stand beside one")),
            word => return Err(Failure::refused(word, link)),
        }
        let members = texts(next()?)?.iter().map(|member| Member::parse(member)).collect();
        (members, view::read(link.connection_number(), next()?)?, number(&next()?)?)
    };
    if let Err(failure) = check_copies(&core.config, &mut answers) {
        return Ok(Joined::Unsafe(failure));
    }
    core.renewed(asked_at);
    core.heard_of_guard(guard_ms);
    let stood = |member: Member| Stood { id: member.id(), token: member.token(), own: Own::default() };
    let stood = members.into_iter().map(|member| member.map(stood)).collect();
    Ok(Joined::Stored(Stored { stood, view, asked_at }))
}

/// Reads the answer to the only contender of a lock: its member, and the least guard, in milliseconds.
fn read_alone(answer: &[u8]) -> Option<(Member, u64)> {
    let (member, guard_ms) = str::from_utf8(answer).ok()?.strip_prefix("ok ")?.split_once(' ')?;
    Some((Member::parse(member)?, guard_ms.parse().ok()?))
}
