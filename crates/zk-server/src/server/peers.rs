//! The connections of one address: so many that one peer cannot take them all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often it is told that connections are refused: often enough for a reader of a log, and no help to fill it.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// The connections of each address.
#[derive(Debug)]
pub(super) struct Peers {
    /// How many one address may have; as many as it likes without.
    connections_max: Option<NonZeroUsize>,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    by_address: HashMap<IpAddr, usize>,
    told_at: Option<Instant>,
}

/// Whether a connection is admitted.
#[derive(Debug)]
pub(super) enum Admission {
    /// It is, and keeps this until it ends.
    Admitted(PeerSeat),
    /// Its address has too many; `is_told` if the operator should know.
    Refused { is_told: bool },
}

/// A connection's part of its address's count. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct PeerSeat {
    peers: Arc<Peers>,
    address: IpAddr,
}

impl Peers {
    pub(super) fn new(connections_max: Option<NonZeroUsize>) -> Self {
        Self { connections_max, counts: Mutex::default() }
    }

    /// Counts a connection, unless there are too many of its address.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr, now: Instant) -> Admission {
        let address = address.to_canonical();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.by_address.entry(address).or_default();
        if self.connections_max.is_some_and(|most| *count >= most.get()) {
            let is_told = counts.told_at.is_none_or(|told_at| now.duration_since(told_at) >= TOLD_EVERY);
            if is_told {
                counts.told_at = Some(now);
            }
            return Admission::Refused { is_told };
        }
        *count += 1;
        Admission::Admitted(PeerSeat { peers: Arc::clone(self), address })
    }
}

impl Drop for PeerSeat {
    fn drop(&mut self) {
        let mut counts = self.peers.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(admission: Admission) -> PeerSeat {
        match admission {
            Admission::Admitted(seat) => seat,
            refused @ Admission::Refused { .. } => panic!("{refused:?}"),
        }
    }

    #[test]
    fn an_address_is_refused_what_it_has_too_many_of_and_others_are_not() {
        let peers = Arc::new(Peers::new(NonZeroUsize::new(2)));
        let now = Instant::now();
        let (one, mapped, other): (IpAddr, IpAddr, IpAddr) =
            ("10.0.0.1".parse().unwrap(), "::ffff:10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let first = seat(peers.admit(one, now));
        let _second = seat(peers.admit(mapped, now));
        assert!(matches!(peers.admit(one, now), Admission::Refused { is_told: true }));
        assert!(matches!(peers.admit(one, now), Admission::Refused { is_told: false }), "it is told once");
        assert!(matches!(peers.admit(mapped, now + TOLD_EVERY), Admission::Refused { is_told: true }));
        drop(seat(peers.admit(other, now)));
        drop(first);
        drop(seat(peers.admit(one, now)));
        assert_eq!(peers.counts.lock().unwrap().by_address.len(), 1, "an address without connections is forgotten");
    }

    #[test]
    fn without_a_limit_all_are_admitted() {
        let peers = Arc::new(Peers::new(None));
        let address = "10.0.0.1".parse().unwrap();
        let seats: Vec<_> = (0..100).map(|_| seat(peers.admit(address, Instant::now()))).collect();
        assert_eq!(seats.len(), 100);
    }
}
