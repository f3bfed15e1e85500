//! Deletions that leave together: one transaction in place of many, so that a server writes once for all.
//!
//! A server writes what it has as soon as it has something, and what comes meanwhile in the write after that. So a
//! hundred deletions cost two writes, and a transaction costs one. If it is refused, none of them took effect: the one
//! that was at fault is told so, and the others go out once more, each alone. Lists that are under way then still show
//! their nodes, so these are asked for again too, behind the deletions.

use bytes::BytesMut;

use crate::client::config::{DELETIONS_BYTES_MAX, DELETIONS_MAX};
use crate::client::event::{Event, Reply, RequestError, RequestId};
use crate::client::in_flight::{Open, Sent};
use crate::client::outbox::{Aside, Rank, Unsent};
use crate::client::session::ClientSession;
use crate::jute::{DecodeError, Reader};
use crate::message::{
    ErrorCode, MultiOperation, MultiResult, OpCode, ReplyHeader, Request, Response, decode_reply_body, encode_request,
};
use crate::time::Timestamp;

/// A deletion that was sent with others.
#[derive(Debug)]
pub(super) struct Deletion {
    pub(super) id: RequestId,
    pub(super) path: Box<str>,
    pub(super) open: Open,
}

/// What becomes of one of several deletions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Done,
    Refused(ErrorCode),
    /// It had no effect, for another's fault.
    Again,
}

impl ClientSession {
    /// Takes those deletions that wait next to be sent, if there are several, as one frame, and notes them as sent.
    /// `None` if there are fewer, or if they do not fit into `room`.
    pub(super) fn next_deletions(&mut self, now: Timestamp, room: usize) -> Option<BytesMut> {
        let paths = self.outbox.deletions(DELETIONS_MAX, DELETIONS_BYTES_MAX.min(room));
        if paths.len() < 2 {
            return None;
        }
        let count = paths.len();
        let delete = |path: &str| MultiOperation::Delete { path: path.to_owned(), version: -1 };
        let request = Request::Multi(paths.into_iter().map(delete).collect());
        let xid = self.mint_xid();
        let frame = encode_request(xid, &request, self.config.frame_bytes_max).ok()?;
        let mut deletions = Vec::with_capacity(count);
        for _ in 0..count {
            let (id, unsent) = self.outbox.pop()?;
            let Unsent { opcode, deadline, aside, lists, deletes, .. } = unsent;
            let open = Open { opcode, deadline, aside, lists, is_outdated: false };
            deletions.push(Deletion { id, path: deletes.unwrap_or_default(), open });
        }
        let bytes = frame.len() + self.lengths.foresee(None);
        let sent = Sent { xid, sent_at: now, opcode: OpCode::Multi, id: None, bytes };
        self.in_flight.push_deletions(sent, deletions);
        Some(frame)
    }

    /// Takes the reply to deletions that were sent together.
    pub(super) fn handle_deletions(
        &mut self,
        header: ReplyHeader,
        deletions: Vec<Deletion>,
        reader: &mut Reader,
    ) -> Result<(), DecodeError> {
        let fates = match decode_reply_body(header, OpCode::Multi, reader) {
            Ok(Ok(Response::Multi(results))) if results.len() == deletions.len() => {
                results.iter().map(fate_of).collect()
            }
            // It cannot be told which of them took effect.
            Ok(Ok(_)) => vec![Fate::Refused(ErrorCode::RuntimeInconsistency); deletions.len()],
            Ok(Err(refusal)) => vec![Fate::Refused(refusal); deletions.len()],
            Err(error) => {
                for Deletion { id, .. } in deletions {
                    self.tell(id, header, Err(RequestError::Malformed(error.clone())));
                }
                return Err(error);
            }
        };
        for (deletion, fate) in deletions.into_iter().zip(fates) {
            match fate {
                Fate::Done => self.tell(deletion.id, header, Ok(Response::Done)),
                Fate::Refused(code) => self.tell(deletion.id, header, Err(RequestError::Refused(code))),
                Fate::Again => self.delete_again(deletion),
            }
        }
        Ok(())
    }

    fn tell(&mut self, id: RequestId, header: ReplyHeader, outcome: Result<Response, RequestError>) {
        let reply = Reply { id, epoch: self.epoch, zxid: header.zxid, watch: None, outcome };
        self.events.push_back(Event::Reply(reply));
    }

    /// Puts a deletion that had no effect back, to be sent alone, and has the lists that were sent behind it sent again.
    fn delete_again(&mut self, Deletion { id, path, open }: Deletion) {
        self.in_flight.outdate_lists(path.rsplit_once('/').map_or("", |(parent, _)| parent));
        let request = Request::Delete { path: path.into(), version: -1 };
        let frame = encode_request(0, &request, self.config.frame_bytes_max).expect("it fitted into a larger frame");
        let Open { opcode, deadline, .. } = open;
        let unsent = Unsent { frame, opcode, deadline, aside: Aside::Nothing, lists: None, deletes: None };
        self.outbox.push(id, unsent, Rank::Deletion);
    }

    /// Asks once more for a list that shows what was to be deleted before it.
    pub(super) fn list_again(&mut self, id: RequestId, node: &str, open: Open) {
        let (path, watch) = (node.to_owned(), false);
        let request = match open.opcode {
            OpCode::GetChildren2 => Request::GetChildren2 { path, watch },
            _ => Request::GetChildren { path, watch },
        };
        let frame = encode_request(0, &request, self.config.frame_bytes_max).expect("it fitted before");
        let Open { opcode, deadline, aside, .. } = open;
        let unsent = Unsent { frame, opcode, deadline, aside, lists: Some(node.into()), deletes: None };
        self.outbox.push(id, unsent, Rank::InTurn);
    }
}

/// A refused transaction marks those before the one at fault as fine and those behind it as inconsistent.
fn fate_of(result: &MultiResult) -> Fate {
    match result {
        MultiResult::Error(ErrorCode::Ok | ErrorCode::RuntimeInconsistency) => Fate::Again,
        MultiResult::Error(code) => Fate::Refused(*code),
        _ => Fate::Done,
    }
}
