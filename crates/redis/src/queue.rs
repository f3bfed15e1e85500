//! Queues in Redis: the calls of one session, each one script, and the notifications about its contenders.
//!
//! It decides nothing: which contender may go, the recipes know. How a session lives, `session` knows.
//!
//! - `state`: what the calls share. `calls`: joins and values. `view`: what is shown of queues.
//! - `watch`: waits. `guard`: watches our own contenders.

mod calls;
mod guard;
mod state;
pub(crate) mod view;
mod watch;

use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, ContenderId, Departure, Entry, ErrorKind, Expected, Extent, Freshness, LossReason, Operation, QueueName,
    QueueView, Request, Ticket, Value, ValueVersion,
};
use lockkeeper_session::{
    Ask, Departing, Failure, Joined, Left, Life, Link as _, Make, Refusal, Service, Stage, Watch,
};

use crate::connection::{Batch, answer, number, only, text};
use crate::layout::{QueueMember, part_letter};
use crate::queue::guard::note_turn;
use crate::queue::state::{Queues, Redis, RedisOwn, Young};
use crate::queue::view::is_foreign;
use crate::script::Script;
use crate::session::{Core, RedisLink};

pub(crate) type RedisSession = lockkeeper_session::QueueSession<Redis>;

pub(crate) fn begin(core: Arc<Core>) -> RedisSession {
    RedisSession::new(Redis { core, young: Young::default() }, guard::run_guard)
}

impl Redis {
    fn run<T: Send + 'static>(
        &self,
        script: Script,
        arguments: Vec<Vec<u8>>,
        operation: Operation,
        read: impl Fn(&RedisLink, redis::Value) -> Result<T, Failure> + Clone + Send + Sync + 'static,
    ) -> Make<RedisLink, T> {
        let core = self.core.clone();
        Arc::new(move |link: &Arc<RedisLink>| {
            let script = core.layout.script(script);
            let batch = Batch::new().script(script, &[core.layout.base()], &arguments[..]);
            let (asking, link, read) = (core.send(link, batch, operation), link.clone(), read.clone());
            Box::pin(async move { read(&link, answer(only(asking.await?)?, script.name)?) })
        })
    }
}

impl Service for Redis {
    type Link = RedisLink;
    type Own = RedisOwn;

    fn life(&self) -> &Arc<Life<RedisLink>> {
        &self.core.life
    }

    fn refusal(&self, queue: &QueueName, _entries: &[Entry]) -> Option<Refusal> {
        self.core.layout.refusal(queue).map(|why| (ErrorKind::InvalidName, why))
    }

    fn join(
        queues: &Arc<Queues>,
        queue: &QueueName,
        entries: &[Entry],
        shows_whole: bool,
    ) -> Make<RedisLink, Joined<RedisOwn>> {
        calls::join(&queues.service.core, queue, entries, shows_whole)
    }

    /// By one of two scripts: the one that does not ask for the session is cheaper.
    fn leave(&self, queue: &QueueName, ticket: Ticket, id: Option<&ContenderId>, why: bool) -> Make<RedisLink, Left> {
        let script = if why { Script::LeaveJudged } else { Script::LeaveBelieved };
        let member = id.map(ContenderId::as_str).unwrap_or_default();
        let (session, part, name) = (self.core.id.to_string(), part_letter(queue.part()), queue.encoded());
        let arguments = arguments([&session, part, &name, &ticket.to_string(), member]);
        self.run(script, arguments, Operation::Leave, move |_, answer| {
            Ok(match text(answer)?.as_str() {
                "left" if why => Left::Removed,
                "left" => Left::RemovedUnproven,
                "absent" => Left::Absent,
                "broken" => Left::Gone(LossReason::Broken),
                "gone" => Left::Gone(LossReason::Expired),
                // A contender that is there in part was deleted by hand.
                _ => Left::Gone(LossReason::Removed),
            })
        })
    }

    fn look(&self, queue: &QueueName, _freshness: Freshness, extent: Extent<'_>) -> Make<RedisLink, QueueView> {
        let (place, extent) = match extent {
            Extent::Whole => ("", "whole"),
            // Only contenders of ours have places in the order.
            Extent::Around(Some(place)) if QueueMember::of(place).is_some() => (place.as_str(), "around"),
            Extent::Around(_) => ("", "around"),
        };
        let arguments = arguments([part_letter(queue.part()), &queue.encoded(), place, extent]);
        let read = |link: &RedisLink, answer| view::read(link.connection_number(), answer);
        self.run(Script::Look, arguments, Operation::View, read)
    }

    fn request(
        &self,
        queue: &QueueName,
        contender: &ContenderId,
        request: &Request,
    ) -> Result<Option<Make<RedisLink, bool>>, Refusal> {
        let refuse = |message: &str| Err((ErrorKind::Unsupported, message.to_owned()));
        if is_foreign(contender) {
            return refuse("the lock is another client's plain key, which hears no request");
        }
        let Some(member) = QueueMember::of(contender) else { return Ok(None) };
        let (what, text) = match request {
            Request::Yield(revocation) => ("yield", Ask::of(revocation).to_text()),
            Request::Break { token } if Some(*token) == member.token() => ("break", String::new()),
            Request::Break { .. } => return Ok(None),
            _ => return refuse("there is no such request on Redis"),
        };
        let arguments = arguments([part_letter(queue.part()), &queue.encoded(), contender.as_str(), what, &text]);
        let read = |_: &RedisLink, answer| Ok(number(&answer)? == 1);
        Ok(Some(self.run(Script::Request, arguments, Operation::Request, read)))
    }

    fn value(&self, queue: &QueueName) -> Make<RedisLink, Option<Value>> {
        calls::read_value(&self.core, queue)
    }

    fn set_value(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> Make<RedisLink, Option<ValueVersion>> {
        calls::write_value(&self.core, queue, expected, value)
    }

    fn watch_queue(queues: &Arc<Queues>, queue: &QueueName) -> Watch<RedisLink, QueueView> {
        watch::of_queue(&queues.service.core, queue)
    }

    fn watch_value(queues: &Arc<Queues>, queue: &QueueName) -> Watch<RedisLink, Option<Value>> {
        watch::of_value(&queues.service.core, queue)
    }

    fn depart(queues: &Arc<Queues>, departing: Departing<Self>) -> BoxFuture<Result<Departure, Failure>> {
        watch::depart(queues, departing)
    }

    fn note(queues: &Arc<Queues>, stage: Stage<'_, RedisOwn>) {
        let Self { core, young } = &queues.service;
        match stage {
            Stage::Joining(_) => {}
            Stage::Placed(place) => {
                let queue = &place.queue;
                let at = [part_letter(queue.part()).to_owned(), queue.encoded(), place.id.to_string()];
                core.contenders.add(place.ticket, at);
                young.add(place);
            }
            Stage::Shown(place, view) => note_turn(queues, place, view),
            Stage::Gone(ticket) | Stage::Kept(ticket) => core.contenders.remove(ticket),
        }
    }
}

fn arguments<const N: usize>(texts: [&str; N]) -> Vec<Vec<u8>> {
    texts.into_iter().map(|text| text.as_bytes().to_vec()).collect()
}
