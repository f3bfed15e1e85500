//! Outgoing frames and their order: credentials, watches to be set again and pings before any request, then those
//! submitted ahead, then deletions, then the others in their turn, as far as there is room for their answers.

use bytes::{Bytes, BytesMut};

use crate::client::config::{SessionConfig, TRANSMIT_BYTES_MAX};
use crate::client::in_flight::{SentAuth, SentRequest};
use crate::client::outbox::{SendRank, Unsent};
use crate::client::session::{ClientSession, Closing, ControlFrame, Online, SessionPhase, encode_auth};
use crate::message::{XID_PING, XID_SET_WATCHES, ZkRequest, encode_request};
use crate::time::Timestamp;

/// Where the xid stands in a frame: behind the length.
const XID_OFFSET: usize = 4;

/// Whether there must be room for the answers of what goes out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ReplyRoom {
    Awaited,
    Unheeded,
}

impl ClientSession {
    /// Takes the bytes to be written next; `None` until there are some.
    ///
    /// All requests that are ready go into one piece, up to [`TRANSMIT_BYTES_MAX`]. They count as sent at `now`, which
    /// must not be later than the writing. To be called when the socket takes bytes, so that what waits stays here,
    /// where it can be taken back.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Bytes> {
        if let SessionPhase::Handshake(handshake) = &mut self.phase {
            let frame = handshake.frame.take()?;
            handshake.sent_at = Some(now);
            return Some(frame.freeze());
        }
        let mut gathered: Option<BytesMut> = None;
        let mut room = TRANSMIT_BYTES_MAX;
        while let Some(frame) = self.next_out(now, gathered.as_ref().map_or(usize::MAX, |_| room), ReplyRoom::Awaited) {
            room = room.saturating_sub(frame.len());
            match &mut gathered {
                // A single frame goes out without being copied.
                None => gathered = Some(frame),
                Some(bytes) => bytes.extend_from_slice(&frame),
            }
        }
        let gathered = gathered?;
        if let SessionPhase::Online(online) = &mut self.phase {
            let stall_min = SessionConfig::stall_min(online.timeout);
            if now.since(online.last_sent_at) > stall_min {
                online.stalled_until = Some(now);
            }
            online.last_sent_at = now;
        }
        Some(gathered.freeze())
    }

    /// Takes the last bytes of a driver that cannot go on: as much of what waits as fits into [`TRANSMIT_BYTES_MAX`],
    /// and the request that ends the session; `None` if no server has taken the session on.
    ///
    /// How many requests are unanswered does not count any more. Nothing is told of them: the machine is to be dropped.
    pub fn farewell(&mut self, now: Timestamp) -> Option<Bytes> {
        if !matches!(self.phase, SessionPhase::Online(_)) {
            return None;
        }
        if let SessionPhase::Online(online) = &mut self.phase {
            online.is_leaving = false;
        }
        let mut farewell = BytesMut::new();
        while let Some(frame) =
            self.next_out(now, TRANSMIT_BYTES_MAX.saturating_sub(farewell.len()), ReplyRoom::Unheeded)
        {
            farewell.extend_from_slice(&frame);
        }
        if self.closing == Closing::No || self.queued() > 0 {
            let frame = encode_request(0, &ZkRequest::CloseSession, self.config.frame_bytes_max);
            farewell.extend_from_slice(&frame.expect("a bare header fits into any frame"));
        }
        self.closing = Closing::Asked;
        Some(farewell.freeze())
    }

    /// Takes the next frame of at most `room` bytes, and notes it as sent.
    fn next_out(&mut self, now: Timestamp, room: usize, answers: ReplyRoom) -> Option<BytesMut> {
        let SessionPhase::Online(online) = &self.phase else {
            return None;
        };
        if online.is_leaving {
            return None;
        }
        match online.control.front() {
            Some(ControlFrame::Restore(frame, _)) if frame.len() > room => None,
            Some(_) => self.next_control(now),
            None => {
                let (rank, next) = self.outbox.next()?;
                let bytes = next.frame.len() + self.lengths.foresee(next.open.lists.as_deref());
                let may_go =
                    rank == SendRank::Ahead || answers == ReplyRoom::Unheeded || self.in_flight.has_room_for(bytes);
                if !may_go || next.frame.len() > room {
                    return None;
                }
                let is_behind_another = next.makes_below().is_some_and(|node| self.in_flight.makes_along(node));
                if rank == SendRank::Deletion
                    && let Some(frame) = self.next_together(now, room)
                {
                    return Some(frame);
                }
                if is_behind_another && answers == ReplyRoom::Awaited {
                    // The one before it may have to be sent again, and nodes stand in the order of their requests.
                    return None;
                }
                let (id, Unsent { mut frame, open, .. }) = self.outbox.pop()?;
                let xid = self.mint_xid();
                frame[XID_OFFSET..XID_OFFSET + size_of::<i32>()].copy_from_slice(&xid.to_be_bytes());
                self.in_flight
                    .push(SentRequest { xid, sent_at: now, opcode: open.opcode, id: Some(id), bytes }, Some(open));
                Some(frame)
            }
        }
    }

    fn next_control(&mut self, now: Timestamp) -> Option<BytesMut> {
        let frame_bytes_max = self.config.frame_bytes_max;
        let SessionPhase::Online(Online { control, ping_waits_since, .. }) = &mut self.phase else {
            return None;
        };
        match control.pop_front()? {
            ControlFrame::Auth(index) => {
                self.in_flight.auths.push_back(SentAuth { sent_at: now, index });
                let auth = &self.auths.get(index)?.auth;
                Some(encode_auth(auth, frame_bytes_max).expect("credentials that do not fit were refused"))
            }
            ControlFrame::Restore(frame, opcode) => {
                self.in_flight
                    .push(SentRequest { xid: XID_SET_WATCHES, sent_at: now, opcode, id: None, bytes: 0 }, None);
                Some(frame)
            }
            ControlFrame::Ping => {
                *ping_waits_since = None;
                self.in_flight.pings.push_back(now);
                let ping = encode_request(XID_PING, &ZkRequest::Ping, frame_bytes_max);
                Some(ping.expect("a bare header fits into any frame"))
            }
        }
    }
}
