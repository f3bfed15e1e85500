//! Deletions that leave together, and with them the creation that is next: one transaction in place of many, so that a
//! server writes once for all.
//!
//! A server writes what it has as soon as it has something, and what comes meanwhile in the write after that. So a
//! hundred deletions cost two writes, and a transaction costs one. If it is refused, none of it took effect: the one
//! that was at fault is told so, and the others go out once more, each alone. Lists that are under way then still show
//! the queue as it was before, so these are asked for again too, behind the others.
//!
//! There is one creation at most: nodes of one transaction could not be told apart by its number.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};

use crate::client::config::{DELETIONS_BYTES_MAX, DELETIONS_MAX};
use crate::client::event::{Reply, RequestError, RequestId, SessionEvent};
use crate::client::in_flight::{Creation, Deletion, SentRequest, Together};
use crate::client::outbox::{Company, Open, RequestChange, SendRank, Unsent, parent_of};
use crate::client::session::ClientSession;
use crate::jute::{DecodeError, Reader};
use crate::message::{
    Create, ErrorCode, MultiOperation, MultiResult, OpCode, ReplyHeader, ZkRequest, ZkResponse, decode_reply_body,
    encode_request,
};
use crate::time::Timestamp;

/// Where the body stands in a frame: behind the length, the xid and the operation.
const BODY_OFFSET: usize = 3 * size_of::<i32>();

/// What becomes of one of several operations.
#[derive(Clone, Debug, Eq, PartialEq)]
enum OperationFate {
    Done(ZkResponse),
    Refused(ErrorCode),
    /// It had no effect, for another's fault.
    Again,
}

impl ClientSession {
    /// Takes those deletions that wait next to be sent, and the creation behind them if it may go along, as one frame,
    /// and notes them as sent. `None` if that is one request, or if they do not fit into `room`.
    pub(super) fn next_together(&mut self, now: Timestamp, room: usize) -> Option<BytesMut> {
        let bytes_max = DELETIONS_BYTES_MAX.min(room);
        let paths = self.outbox.deletions(DELETIONS_MAX, bytes_max);
        let count = paths.len();
        let bytes: usize = paths.iter().map(|path| path.len()).sum();
        let along = self.outbox.going_along_behind(count).filter(|along| {
            let is_behind_another = along.makes_below().is_some_and(|node| self.in_flight.makes_along(node));
            !is_behind_another && bytes + along.frame.len() <= bytes_max
        });
        let create = along.and_then(|along| creation_in(&along.frame));
        if count + usize::from(create.is_some()) < 2 {
            return None;
        }
        let made_path = create.as_ref().map(|create| create.path.as_str().into());
        let delete = |path: &str| MultiOperation::Delete { path: path.to_owned(), version: -1 };
        let operations = paths.into_iter().map(delete).chain(create.map(MultiOperation::Create2));
        let request = ZkRequest::Multi(operations.collect());
        let xid = self.mint_xid();
        let frame = encode_request(xid, &request, self.config.frame_bytes_max).ok()?;
        let mut deletions = Vec::with_capacity(count);
        for _ in 0..count {
            let (id, Unsent { open, change, .. }) = self.outbox.pop()?;
            let RequestChange::Deletes(path) = change else { unreachable!("the first ones are deletions") };
            deletions.push(Deletion { id, path, open });
        }
        let (creation, open) = made_path.and_then(|path| self.pop_creation(path)).unzip();
        let bytes = frame.len() + self.lengths.foresee(None);
        let id = creation.as_ref().map(|creation| creation.id);
        let sent = SentRequest { xid, sent_at: now, opcode: OpCode::Multi, id, bytes };
        self.in_flight.push(sent, open);
        self.in_flight.together.insert(xid, Together { deletions, creation });
        Some(frame)
    }

    fn pop_creation(&mut self, path: Box<str>) -> Option<(Creation, Open)> {
        let (turn, id, Unsent { frame, open, .. }) = self.outbox.pop_with_turn()?;
        Some((Creation { id, path, frame, turn }, open))
    }

    /// Takes the reply to a transaction; `open` is of the creation, unless that was given up.
    pub(super) fn handle_together(
        &mut self,
        header: ReplyHeader,
        Together { deletions, creation }: Together,
        open: Option<Open>,
        reader: &mut Reader,
    ) -> Result<(), DecodeError> {
        let deleted = deletions.len();
        let mut fates = match decode_reply_body(header, OpCode::Multi, reader) {
            Ok(answer) => fates_of(answer, deleted, creation.is_some()),
            Err(error) => {
                let malformed = || Err(RequestError::Malformed(error.clone()));
                deletions.iter().for_each(|deletion| self.tell(deletion.id, header, malformed()));
                if let Some((creation, open)) = creation.zip(open) {
                    self.forget_deadline(open.deadline, creation.id);
                    self.tell(creation.id, header, malformed());
                }
                return Err(error);
            }
        };
        let created = creation.zip(open).zip(fates.drain(deleted..).next());
        let mut outdated = BTreeSet::new();
        for (deletion, fate) in deletions.into_iter().zip(fates) {
            match fate {
                OperationFate::Done(done) => self.tell(deletion.id, header, Ok(done)),
                OperationFate::Refused(code) => self.tell(deletion.id, header, Err(RequestError::Refused(code))),
                OperationFate::Again => {
                    outdated.insert(Box::from(parent_of(&deletion.path)));
                    self.delete_again(deletion);
                }
            }
        }
        if let Some(((creation, open), fate)) = created {
            self.handle_created(header, creation, open, fate, &mut outdated);
        }
        // Once for all repeated requests: mostly they are of one queue.
        outdated.iter().for_each(|node| self.in_flight.outdate_lists(node));
        Ok(())
    }

    fn handle_created(
        &mut self,
        header: ReplyHeader,
        creation: Creation,
        open: Open,
        fate: OperationFate,
        outdated: &mut BTreeSet<Box<str>>,
    ) {
        let outcome = match fate {
            OperationFate::Done(made) => Ok(made),
            OperationFate::Refused(code) => Err(RequestError::Refused(code)),
            OperationFate::Again => {
                outdated.insert(parent_of(&creation.path).into());
                return self.create_again(creation, open);
            }
        };
        self.forget_deadline(open.deadline, creation.id);
        self.tell(creation.id, header, outcome);
    }

    fn tell(&mut self, id: RequestId, header: ReplyHeader, outcome: Result<ZkResponse, RequestError>) {
        let reply = Reply { id, epoch: self.epoch, zxid: header.zxid, watch: None, outcome };
        self.events.push_back(SessionEvent::Reply(reply));
    }

    /// Puts a deletion that had no effect back, to be sent alone.
    fn delete_again(&mut self, Deletion { id, path, open }: Deletion) {
        let request = ZkRequest::Delete { path: path.into(), version: -1 };
        let frame = encode_request(0, &request, self.config.frame_bytes_max).expect("it fitted into a larger frame");
        self.outbox.push(id, Unsent { frame, open, change: RequestChange::Other }, SendRank::Deletion);
    }

    /// Puts a creation that had no effect back to where it stood, to be sent alone.
    fn create_again(&mut self, Creation { id, path, frame, turn }: Creation, open: Open) {
        let change = RequestChange::Makes { below: parent_of(&path).into(), company: Company::Alone };
        self.outbox.put_back(id, Unsent { frame, open, change }, turn);
    }

    /// Asks once more for a list that shows the deletions before it.
    pub(super) fn list_again(&mut self, id: RequestId, node: &str, open: Open) {
        let (path, watch) = (node.to_owned(), false);
        let request = match open.opcode {
            OpCode::GetChildren2 => ZkRequest::GetChildren2 { path, watch },
            _ => ZkRequest::GetChildren { path, watch },
        };
        let frame = encode_request(0, &request, self.config.frame_bytes_max).expect("it fitted before");
        let open = Open { is_outdated: false, ..open };
        self.outbox.push(id, Unsent { frame, open, change: RequestChange::Other }, SendRank::InTurn);
    }
}

/// Reads the results of so many deletions, and of the creation behind them if there was one.
fn fates_of(answer: Result<ZkResponse, ErrorCode>, deleted: usize, is_created: bool) -> Vec<OperationFate> {
    let sent = deleted + usize::from(is_created);
    match answer {
        Ok(ZkResponse::Multi(results)) if results.len() == sent => results.into_iter().map(fate_of).collect(),
        // It cannot be told which of them took effect.
        Ok(_) => vec![OperationFate::Refused(ErrorCode::RuntimeInconsistency); sent],
        // It is not said which of them was refused: alone, each is told so itself.
        Err(refusal) if is_created => {
            let mut fates = vec![OperationFate::Again; deleted];
            fates.push(OperationFate::Refused(refusal));
            fates
        }
        Err(refusal) => vec![OperationFate::Refused(refusal); deleted],
    }
}

/// A refused transaction marks those before the one at fault as fine and those behind it as inconsistent.
fn fate_of(result: MultiResult) -> OperationFate {
    match result {
        MultiResult::Error(ErrorCode::Ok | ErrorCode::RuntimeInconsistency) => OperationFate::Again,
        MultiResult::Error(code) => OperationFate::Refused(code),
        MultiResult::Delete => OperationFate::Done(ZkResponse::Done),
        MultiResult::Create2 { path, stat } => OperationFate::Done(ZkResponse::Create2 { path, stat }),
        // Without a Stat it is no answer to a creation alone.
        other => OperationFate::Done(ZkResponse::Multi(vec![other])),
    }
}

/// Reads what a frame of ours asks to make.
fn creation_in(frame: &[u8]) -> Option<Create> {
    let body = Bytes::copy_from_slice(frame.get(BODY_OFFSET..)?);
    match ZkRequest::decode(OpCode::Create2.code(), &mut Reader::new(body)) {
        Ok(ZkRequest::Create2(create)) => Some(create),
        _ => None,
    }
}
