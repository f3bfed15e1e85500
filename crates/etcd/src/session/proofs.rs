//! Proofs that sessions share: of the renewals of a process that one member has just answered, one read proves all.
//!
//! Most renewals can be proven a moment later. The first session whose moment has come asks, and the others take
//! in its answer. What an answer proves, `belief` says; a session to which nothing useful was told asks itself.

use std::collections::BTreeMap;
use std::process;
use std::sync::{Arc, Weak};

use lockkeeper_session::Server;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::proto::ResponseHeader;

/// A member as it is reached, and a process that uses it: a fork begins anew.
type UsedMember = (Server, u32);

/// What the sessions of this process share at each member that they use.
static SHARED: Mutex<BTreeMap<UsedMember, Weak<SharedProofs>>> = Mutex::new(BTreeMap::new());

/// The proofs at one member.
#[derive(Debug, Default)]
pub(crate) struct SharedProofs {
    next: Mutex<NextProof>,
}

/// The proof that is asked for next.
#[derive(Debug, Default)]
struct NextProof {
    number: u64,
    /// `None` while no session waits for it.
    teller: Option<ProofTeller>,
}

/// The part of one session in a proof.
#[derive(Debug)]
pub(crate) enum ProofPart {
    /// This was answered to a request that another session has sent since.
    Told(ResponseHeader),
    /// This session has to ask, and to tell.
    Asks(ProofTeller),
}

/// Tells an answer to all sessions that wait for it, if there are any. Dropping it tells them to ask themselves.
#[derive(Debug, Default)]
pub(crate) struct ProofTeller(watch::Sender<Option<ResponseHeader>>);

impl ProofTeller {
    pub(crate) fn tell(&self, header: ResponseHeader) {
        self.0.send_replace(Some(header));
    }
}

impl SharedProofs {
    /// Returns what the sessions of this process share at the member behind this address.
    pub(crate) fn at(server: &Server) -> Arc<Self> {
        let mut shared = SHARED.lock();
        shared.retain(|_, proofs| proofs.strong_count() > 0);
        let place = shared.entry((server.clone(), process::id())).or_default();
        place.upgrade().unwrap_or_else(|| {
            let proofs = Arc::default();
            *place = Arc::downgrade(&proofs);
            proofs
        })
    }

    /// Whether only one connection uses the member.
    pub(crate) fn is_of_one(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
    }

    /// Waits for the answer to a request that is sent after this call: that of another session, or ours once it is due.
    /// An answer that another has asked for is waited for until it is late.
    pub(crate) async fn next(&self, due: impl Future<Output = ()>, late: impl Future<Output = ()>) -> ProofPart {
        let (number, mut told) = self.join();
        let mut heard = std::pin::pin!(async move {
            let heard = told.wait_for(Option::is_some).await;
            heard
                .ok()
                .and_then(|header| *header)
                .map_or_else(|| ProofPart::Asks(ProofTeller::default()), ProofPart::Told)
        });
        tokio::select! {
            biased;
            part = &mut heard => return part,
            () = due => {}
        }
        if let Some(teller) = self.take(number) {
            return ProofPart::Asks(teller);
        }
        tokio::select! {
            biased;
            part = heard => part,
            () = late => ProofPart::Asks(ProofTeller::default()),
        }
    }

    fn join(&self) -> (u64, watch::Receiver<Option<ResponseHeader>>) {
        let mut next = self.next.lock();
        (next.number, next.teller.get_or_insert_default().0.subscribe())
    }

    /// Takes on the asking for a proof, which nothing joins from then on; `None` if another session has.
    fn take(&self, number: u64) -> Option<ProofTeller> {
        let mut next = self.next.lock();
        if next.number != number {
            return None;
        }
        next.number += 1;
        next.teller.take()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use lockkeeper_conformance::soon;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;

    fn answer(revision: i64) -> ResponseHeader {
        ResponseHeader { revision, ..ResponseHeader::default() }
    }

    /// Waits for others, as a session does whose renewal can be proven later.
    fn waits(proofs: &Arc<SharedProofs>) -> tokio::task::JoinHandle<ProofPart> {
        let proofs = proofs.clone();
        tokio::spawn(async move { proofs.next(pending(), pending()).await })
    }

    async fn asks(proofs: &SharedProofs) -> ProofTeller {
        match proofs.next(ready(()), pending()).await {
            ProofPart::Asks(teller) => teller,
            told @ ProofPart::Told(_) => panic!("nothing was asked: {told:?}"),
        }
    }

    #[tokio::test]
    async fn one_session_asks_for_all_that_wait_and_for_none_that_came_after_it_asked() {
        let proofs = Arc::default();
        let early = [waits(&proofs), waits(&proofs)];
        yield_now().await;
        let first = asks(&proofs).await;
        let late = waits(&proofs);
        yield_now().await;
        first.tell(answer(1));
        for told in early {
            assert!(matches!(told.await, Ok(ProofPart::Told(header)) if header == answer(1)));
        }
        assert!(!late.is_finished(), "what was asked before proves nothing of it");
        asks(&proofs).await.tell(answer(2));
        assert!(matches!(late.await, Ok(ProofPart::Told(header)) if header == answer(2)));
    }

    #[tokio::test]
    async fn those_whose_asker_fails_or_is_late_ask_themselves() {
        let proofs = Arc::default();
        let waiting = waits(&proofs);
        yield_now().await;
        drop(asks(&proofs).await);
        assert!(matches!(waiting.await, Ok(ProofPart::Asks(_))));
        let (due, is_due) = oneshot::channel();
        let impatient = tokio::spawn({
            let proofs = proofs.clone();
            async move { proofs.next(async { drop(is_due.await) }, ready(())).await }
        });
        let patient = waits(&proofs);
        yield_now().await;
        let silent = asks(&proofs).await;
        due.send(()).expect("it waits");
        assert!(matches!(soon("its part", impatient).await, Ok(ProofPart::Asks(_))));
        silent.tell(answer(3));
        assert!(matches!(patient.await, Ok(ProofPart::Told(_))));
    }

    #[tokio::test]
    async fn what_is_shared_goes_with_its_last_session() {
        let server = Server::new("shared", 1);
        let one = SharedProofs::at(&server);
        assert!(one.is_of_one());
        let same = SharedProofs::at(&server);
        assert!(!one.is_of_one() && Arc::ptr_eq(&one, &same));
        assert!(SharedProofs::at(&Server::new("shared", 2)).is_of_one());
        let known = Arc::downgrade(&one);
        drop((one, same));
        assert!(known.upgrade().is_none() && SharedProofs::at(&server).is_of_one());
    }
}
