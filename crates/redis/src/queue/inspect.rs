//! Looks at queues without a session: who stands in them, and which locks have contenders.

use std::collections::BTreeSet;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ConnectionNumber, Contender, ContenderInfo, Part, QueueName};
use redis::{Value, cmd};

use crate::answers::{only, texts};
use crate::connection::{Connection, Failure, Flight, answer};
use crate::layout::{Layout, Member, part_letter, read_listed};
use crate::queue::plain::{describe, is_foreign};
use crate::queue::record::Stored;
use crate::queue::view;
use crate::script::Script;

/// How many records or names are read at once: others wait for the server meanwhile.
const PAGE: usize = 200;

/// How many pages of names are read: a service of a million locks is a mistake.
const PAGES_MAX: usize = 5_000;

/// The parts of a lock, as they are shown: of a semaphore the permits come first.
const PARTS: [Part; 3] = [Part::Line, Part::Permits, Part::Waiters];

/// What a look is made over.
pub(crate) struct Onlooking<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) layout: &'a Layout,
    pub(crate) deadline: BootInstant,
}

/// Shows the contenders in all queues of a lock.
pub(crate) async fn inspect(looking: &Onlooking<'_>, lock: &QueueName) -> Result<Vec<ContenderInfo>, Failure> {
    let Onlooking { connection, layout, deadline } = looking;
    let name = lock.encoded();
    let flight = PARTS.into_iter().fold(Flight::new(), |flight, part| {
        flight.script(layout.script(Script::Look), &[layout.base()], &[part_letter(part), &name, "", "whole"][..])
    });
    let mut shown = Vec::new();
    for looked in connection.flight_until(flight, *deadline).await? {
        let view = view::read(ConnectionNumber(0), answer(looked, "look")?)?;
        shown.extend(view.contenders.iter().cloned());
    }
    let mut infos = Vec::with_capacity(shown.len());
    if let Some(plain) = layout.plain(lock)
        && let Some(foreign) = shown.first().filter(|first| is_foreign(&first.id)).cloned()
    {
        shown.remove(0);
        let mut get = cmd("GET");
        get.arg(plain);
        let value = connection.flight_until(Flight::new().command(get), *deadline).await?;
        infos.push(describe(&foreign, only(value)?));
    }
    for page in shown.chunks(PAGE) {
        let flight = page.iter().filter_map(|contender| contender.ticket).fold(Flight::new(), |flight, ticket| {
            let mut get = cmd("GET");
            get.arg(layout.contender(ticket));
            flight.command(get)
        });
        let records = connection.flight_until(flight, *deadline).await?;
        for (contender, record) in page.iter().zip(records) {
            infos.extend(info(contender, answer(record, "GET")?));
        }
    }
    Ok(infos)
}

/// Describes a contender; `None` if it has left meanwhile.
fn info(contender: &Contender, record: Value) -> Option<ContenderInfo> {
    let Value::BulkString(bytes) = record else {
        return None;
    };
    let member = Member::of(&contender.id)?;
    let mut info = ContenderInfo::new(contender.id.clone(), contender.mode);
    info.ticket = contender.ticket;
    info.token = member.token();
    info.session = member.session.map(|session| session.to_string());
    if let Some(stored) = Stored::read(&bytes) {
        stored.describe(&mut info);
    }
    Some(info)
}

/// Names the locks that have contenders and whose names begin with `prefix`, in the order of their names.
pub(crate) async fn names(looking: &Onlooking<'_>, prefix: &str) -> Result<Vec<QueueName>, Failure> {
    let Onlooking { connection, layout, deadline } = looking;
    let (mut names, mut last) = (BTreeSet::new(), String::new());
    for _ in 0..PAGES_MAX {
        let page = PAGE.to_string();
        let flight = Flight::new().script(layout.script(Script::Names), &[layout.base()], &[last.as_str(), &page][..]);
        let answers = connection.flight_until(flight, *deadline).await?;
        let mut read = texts(answer(only(answers)?, "names")?)?.into_iter();
        last = read.next().ok_or_else(Failure::unexpected)?;
        let named = read.filter_map(|listed| read_listed(&listed));
        names.extend(named.filter(|name| name.as_str().starts_with(prefix)));
        if last.is_empty() {
            break;
        }
    }
    Ok(names.into_iter().collect())
}
