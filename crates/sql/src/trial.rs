//! The trial of a server that is none of those that locks were tested on: whether it has what they need, as far as two
//! connections can show it in a moment.
//!
//! It asks what sessions and queues ask, and undoes all of it. What it cannot show is what a crash or a failover does:
//! so a server that passes is promised to be no more than the best effort.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, Extent, Mode, QueueName, Ticket};
use lockkeeper_session::{Effect, Failure, Server, until};

use crate::answer::mode_number;
use crate::engine::{Intent, Wire};
use crate::schema::unsupported;
use crate::site::SqlSite;
use crate::statement::{AnswerRow, Argument, RowKind, SessionNumber, Statement, looking, named, status, tickets, word};

/// How many places each of two sessions takes in one queue at once: where rows are not locked until a commit, some of
/// so many appear ahead of others.
const JOINS: usize = 16;

/// How often both write one value at once.
const WRITES: usize = 8;

/// The timeout of its sessions, in milliseconds: it ends them, unless it is given up.
const TIMEOUT_MS: i64 = 2_000;

/// Tries a server once for all sessions of a backend, if the URL says that it is not verified.
pub(crate) async fn pass(site: &SqlSite, server: &Server, deadline: BootInstant) -> Result<(), Failure> {
    if !site.config.is_unverified || site.is_tried.get().is_some() {
        return Ok(());
    }
    until(&*site.clock, deadline, Effect::None, try_out(site, server, deadline)).await?;
    // Another session may have tried it meanwhile.
    let _ = site.is_tried.set(());
    Ok(())
}

async fn try_out(site: &SqlSite, server: &Server, deadline: BootInstant) -> Result<(), Failure> {
    let queue = QueueName::new(&format!("lockkeeper/trial/{}", mint()?)).map_err(|_| Failure::unexpected())?;
    let one = TrialSession::open(site, server, deadline).await?;
    let other = TrialSession::open(site, server, deadline).await?;
    let trial = Trial { sides: [one, other], queue };
    let outcome = trial.run().await;
    for side in &trial.sides {
        // What is not ended runs out.
        let _ = side.ask("close", vec![side.session.into()]).await;
        side.wire.shut();
    }
    outcome
}

fn mint() -> Result<Ticket, Failure> {
    Ticket::mint().map_err(|error| Failure::unreachable("no ticket can be minted", error))
}

fn lacks(what: &str) -> Failure {
    unsupported(format!("the server is used unverified, and lacks what locks need: {what}"))
}

/// A session over one connection.
struct TrialSession {
    wire: Arc<dyn Wire>,
    session: SessionNumber,
    state: Option<String>,
}

/// Two of them, and the queue that they meet in.
struct Trial {
    sides: [TrialSession; 2],
    queue: QueueName,
}

type Answer = BoxFuture<Result<Vec<AnswerRow>, Failure>>;

impl TrialSession {
    async fn open(site: &SqlSite, server: &Server, deadline: BootInstant) -> Result<Self, Failure> {
        let connected = site.engine.connect(server, deadline, Intent::Serve).await?;
        let (wire, session) = (connected.wire, SessionNumber(mint()?.bits()));
        let instance = Argument::OptionalText(Some(connected.greeting.instance));
        let greeted = wire.ask(Statement::new("greet", vec![instance])).await?;
        let owner = Argument::Text("a trial of the server".to_owned());
        let arguments = vec![session.into(), Argument::Int(TIMEOUT_MS), owner, Argument::Flag(false)];
        wire.ask(Statement::new("open", arguments)).await?;
        Ok(Self { wire, session, state: status(&greeted)?.ask.clone() })
    }

    fn ask(&self, function: &'static str, arguments: Vec<Argument>) -> Answer {
        self.wire.ask(Statement::new(function, arguments))
    }

    fn join(&self, queue: &QueueName, epoch: i64, ticket: Ticket) -> Answer {
        let [name, part] = named(queue);
        self.ask(
            "join",
            vec![
                self.session.into(),
                Argument::Int(epoch),
                name,
                part,
                Argument::Ids(vec![ticket.bits()]),
                Argument::Bytes(vec![mode_number(Mode::Mutex)]),
                Argument::Flag(false),
                Argument::OptionalId(None),
                Argument::Text("{}".to_owned()),
                Argument::Flag(false),
            ],
        )
    }

    fn write(&self, queue: &QueueName, is_absent: bool, value: Option<Vec<u8>>) -> Answer {
        let [name, part] = named(queue);
        let (expected, value) = (Argument::Int(i64::from(is_absent)), Argument::OptionalBytes(value));
        let arguments = vec![self.session.into(), Argument::Int(1), name, part, expected, Argument::Int(0), value];
        self.ask("set_value", arguments)
    }

    /// The contenders of the queue, each with its token.
    async fn look(&self, queue: &QueueName) -> Result<Vec<(i64, Ticket)>, Failure> {
        contenders(&self.wire.ask(looking(queue, Extent::Whole)).await?)
    }
}

fn contenders(rows: &[AnswerRow]) -> Result<Vec<(i64, Ticket)>, Failure> {
    let shown = rows.iter().filter(|row| row.says(RowKind::Contender));
    let contender = |row: &AnswerRow| Some((row.number?, Ticket::from_bits(row.ticket?)));
    shown.map(|row| contender(row).ok_or_else(Failure::unexpected)).collect()
}

impl Trial {
    async fn run(&self) -> Result<(), Failure> {
        let [one, other] = &self.sides;
        if one.state.is_none() || one.state != other.state {
            return Err(lacks("two connections do not come to one state of the data"));
        }
        let places = self.order().await?;
        self.departure(&places).await?;
        self.beat().await?;
        for _ in 0..WRITES {
            self.value().await?;
        }
        self.takeover().await
    }

    /// Both take places at once, and each looks behind each of its own.
    async fn order(&self) -> Result<Vec<Ticket>, Failure> {
        let mut asked = Vec::new();
        for _ in 0..JOINS {
            for side in &self.sides {
                let ticket = mint()?;
                let joining = side.join(&self.queue, 1, ticket);
                asked.push((ticket, joining, side.wire.ask(looking(&self.queue, Extent::Whole))));
            }
        }
        let (mut places, mut looks) = (Vec::new(), Vec::new());
        for (ticket, joining, looking) in asked {
            if word(&joining.await?)? != "ok" {
                return Err(Failure::unexpected());
            }
            let shown = contenders(&looking.await?)?;
            if !shown.iter().any(|(_, seen)| *seen == ticket) {
                return Err(lacks("a connection does not see what it has committed"));
            }
            let tokens: BTreeSet<_> = shown.iter().map(|(token, _)| *token).collect();
            if tokens.len() != shown.len() {
                return Err(lacks("two places have one token"));
            }
            places.push(ticket);
            looks.push(tokens);
        }
        // What a side sees later stands behind all that it saw before.
        let is_late = |(before, after): (&BTreeSet<i64>, &BTreeSet<i64>)| {
            after.difference(before).next().is_some_and(|new| Some(new) < before.last())
        };
        if looks.iter().zip(looks.iter().skip(2)).any(is_late) {
            return Err(lacks("a place appears ahead of one that was seen before: rows are not locked until a commit"));
        }
        Ok(places)
    }

    /// What one gives up, the other misses at once.
    async fn departure(&self, places: &[Ticket]) -> Result<(), Failure> {
        let [one, other] = &self.sides;
        let [name, part] = named(&self.queue);
        let gone = places[0];
        one.ask("leave", vec![one.session.into(), name, part, gone.into()]).await?;
        let rows = other.ask("missing", vec![places.into()]).await?;
        match tickets(&rows, RowKind::Missing).collect::<Vec<_>>() == [gone] {
            true => Ok(()),
            false => Err(lacks("what one connection has committed, another does not see at once")),
        }
    }

    /// The beat of one is seen by the other.
    async fn beat(&self) -> Result<(), Failure> {
        let [one, other] = &self.sides;
        let none = || Argument::Ids(Vec::new());
        let beat = |side: &TrialSession, ring| {
            let counted =
                [side.session.into(), Argument::Int(1), Argument::Int(2), none(), none(), Argument::Int(ring)];
            side.ask("beat", counted.into())
        };
        beat(one, 0).await?;
        // All others are few: those of this trial, and the sessions of programs.
        let rows = beat(other, i64::from(u16::MAX)).await?;
        let of_one = |row: &AnswerRow| row.says(RowKind::Beat) && row.session == Some(one.session.0);
        match rows.iter().find(|row| of_one(row)).and_then(|row| row.number) {
            Some(2) => Ok(()),
            _ => Err(lacks("the beat of a session is not seen by another")),
        }
    }

    /// Of two that write a value at once that is not there, one is the first.
    async fn value(&self) -> Result<(), Failure> {
        let [one, other] = &self.sides;
        let write = |side: &TrialSession| side.write(&self.queue, true, Some(vec![1]));
        let (first, second) = (write(one), write(other));
        let (first, second) = (first.await?, second.await?);
        let won = [word(&first)?, word(&second)?].iter().filter(|word| **word == "ok").count();
        one.write(&self.queue, false, None).await?;
        if won == 1 { Ok(()) } else { Err(lacks("of two that write a value at once, not one is the first")) }
    }

    /// What comes over a connection behind which the session was taken over has no effect.
    async fn takeover(&self) -> Result<(), Failure> {
        let [one, other] = &self.sides;
        let resume = vec![one.session.into(), Argument::Int(2), Argument::Int(3), Argument::Ids(Vec::new())];
        other.ask("resume", resume).await?;
        let late = mint()?;
        let joined = one.join(&self.queue, 1, late).await?;
        let stands = other.look(&self.queue).await?;
        match word(&joined)? == "stale" && stands.len() == JOINS {
            true => Ok(()),
            false => Err(lacks("what comes over a former connection still takes effect")),
        }
    }
}
