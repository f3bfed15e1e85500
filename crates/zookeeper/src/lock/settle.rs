//! From nodes to places: our new nodes are entered among our own places, and handed out, with their standing, when they
//! may be believed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lockkeeper_core::{
    BoxFuture, ContenderId, Enqueued, Error, ErrorKind, FencingToken, Liveness, LivenessAt, LossReason, Operation,
    PlaceBond, Result, Revocation, Standing,
};
use lockkeeper_zk_proto::message::OpCode;
use tokio::sync::SetOnce;

use crate::error::ClientError;
use crate::layout::ChildName;
use crate::lock::join::{Made, MadeNode, QueueJoin, WantedNode};
use crate::lock::place::NodePlace;
use crate::lock::prover::{until_believable, watch_own};
use crate::lock::session_core::SessionCore;
use crate::lock::shared_list::ListFreshness;
use crate::lock::withdraw;

/// The first sequence number at which joining is refused: the counter sticks at 2147483647, and orders nothing from
/// there.
const SEQUENCE_REFUSED: i32 = i32::MAX - (1 << 20);

impl QueueJoin {
    /// Turns our nodes into places, and waits until they may be believed.
    pub(super) async fn settle(self, made: Made) -> Result<Vec<Enqueued>> {
        let Made { nodes, listing } = made;
        let mut places = Vec::with_capacity(nodes.len());
        let mut is_withdrawn = false;
        for (wanted, node) in self.wanted.iter().zip(&nodes) {
            let place = Arc::new(self.place(wanted, node)?);
            if !self.inner.places().place(wanted.ticket, place.clone()) {
                withdraw::delete(&self.inner, wanted.ticket, &place);
                is_withdrawn = true;
            }
            places.push(place);
        }
        if is_withdrawn {
            return Err(self.withdrawn());
        }
        self.inner.expect_prover();
        for (place, node) in places.iter().zip(&nodes) {
            self.check(place, node)?;
        }
        let listing = match listing {
            Some(listing) => listing,
            None => {
                let part = self.queue.part();
                let look = self.inner.send_list(&self.path, part, ListFreshness::Synced);
                self.inner.look(&self.path, part, look).await.map_err(|error| self.fail(error))?
            }
        };
        let view = self.inner.view(&self.queue, &self.path, &listing, Operation::Join).await?;
        if let Some(place) = places.first() {
            until_believable(&self.inner, place, Operation::Join).await?;
        }
        let mut enqueued = Vec::with_capacity(places.len());
        for (wanted, place) in self.wanted.iter().zip(places) {
            self.inner.link.depend();
            if !self.inner.places().stand(wanted.ticket) {
                self.inner.link.remove_dependent();
                return Err(self.withdrawn());
            }
            let (id, token) = (place.id.clone(), place.token);
            let standing = Arc::new(NodeStanding::new(self.inner.clone(), place));
            enqueued.push(Enqueued { id, token, view: view.clone(), standing });
        }
        Ok(enqueued)
    }

    fn place(&self, wanted: &WantedNode, node: &MadeNode) -> Result<NodePlace> {
        let unexpected = || self.fail(ClientError::unexpected(OpCode::Create2, self.path.shown()));
        let sequence = match ChildName::read(&node.name) {
            ChildName::Contender { sequence, .. } => Some(sequence),
            ChildName::Foreign { .. } | ChildName::Junk if !wanted.create.mode.is_sequential() => None,
            ChildName::Foreign { .. } | ChildName::Junk => return Err(unexpected()),
        };
        let token = match &wanted.anchor {
            Some(anchor) => Some(anchor.token),
            None => u64::try_from(node.czxid).ok().and_then(|grant| FencingToken::new(grant, wanted.turn)),
        };
        Ok(NodePlace {
            queue: self.queue.clone(),
            path: self.path.clone(),
            id: ContenderId::new(node.name.as_str()),
            sequence: sequence.unwrap_or(0),
            token: token.ok_or_else(unexpected)?,
            placed_at: self.inner.link.clock.now(),
            outlives_session: wanted.outlives_session(),
            bond: PlaceBond::new(self.inner.link.bond.clone()),
            is_watched: AtomicBool::new(false),
            is_guarded: SetOnce::new(),
            end: SetOnce::new(),
        })
    }

    fn check(&self, place: &NodePlace, node: &MadeNode) -> Result<()> {
        let expected = if place.outlives_session { Some(0) } else { self.inner.link.session_id() };
        if node.ephemeral_owner.is_some() && node.ephemeral_owner != expected {
            let message = "the service made our node for another session than ours";
            return Err(Error::permanent(ErrorKind::Backend, Operation::Join, message).at(&self.queue));
        }
        let sequence = place.sequence;
        if !(0..SEQUENCE_REFUSED).contains(&sequence) {
            let message = format!(
                "the queue's node has counted {sequence} children, and order ends near 2147483647; delete the node {} \
                 while no client uses it, and it starts anew",
                self.path.shown()
            );
            return Err(Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(&self.queue));
        }
        Ok(())
    }
}

/// What may be believed of one place: as much as of its session, while its node is there.
#[derive(Debug)]
pub(super) struct NodeStanding {
    inner: Arc<SessionCore>,
    place: Arc<NodePlace>,
}

impl NodeStanding {
    pub(super) fn new(inner: Arc<SessionCore>, place: Arc<NodePlace>) -> Self {
        Self { inner, place }
    }
}

impl Standing for NodeStanding {
    fn liveness(&self, _at: LivenessAt) -> Liveness {
        self.place.bond.liveness()
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        let place = self.place.clone();
        Box::pin(async move { place.bond.lost().await })
    }

    fn revoked(&self) -> BoxFuture<Revocation> {
        let (inner, place) = (self.inner.clone(), self.place.clone());
        Box::pin(async move {
            // Most holders never ask for it, and then nothing is read for them.
            watch_own(&inner, &place);
            place.bond.revoked().await
        })
    }
}
