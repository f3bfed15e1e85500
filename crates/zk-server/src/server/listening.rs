//! Where a server listens, and how connections come in: so many of one address that one peer cannot take them all. When
//! the system has no connection to give, accepting pauses, and tells when that begins and ends.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::measures::ServerMeasures;
use crate::server::error::ServerError;

/// Where a server is to listen.
#[derive(Debug, Default)]
pub(super) enum ListenPlan {
    /// On any free port of the loopback address.
    #[default]
    AnyFreePort,
    /// On no socket.
    Nowhere,
    /// On each of the addresses of each host that the machine has.
    On(Vec<Vec<SocketAddr>>),
}

pub(super) type BoundListener = (TcpListener, SocketAddr);

impl ListenPlan {
    /// Adds the addresses of one host; the first call replaces the default.
    pub(super) fn add(&mut self, addresses: Vec<SocketAddr>) {
        match self {
            Self::On(hosts) => hosts.push(addresses),
            Self::AnyFreePort | Self::Nowhere => *self = Self::On(vec![addresses]),
        }
    }

    /// Makes the sockets, in the order in which they were asked for.
    /// Fails if an address cannot be listened on, but for those that the machine does not have while it has another one
    /// of the same host.
    pub(super) async fn bind(self) -> Result<Vec<BoundListener>, ServerError> {
        let hosts = match self {
            Self::Nowhere => Vec::new(),
            Self::AnyFreePort => vec![vec![SocketAddr::from(([127, 0, 0, 1], 0))]],
            Self::On(hosts) => hosts,
        };
        let mut listeners = Vec::new();
        for addresses in hosts {
            listeners.extend(bind_host(addresses).await?);
        }
        Ok(listeners)
    }
}

async fn bind_host(addresses: Vec<SocketAddr>) -> Result<Vec<BoundListener>, ServerError> {
    let mut listeners = Vec::new();
    let mut missing = None;
    for address in addresses {
        let failed = |error: io::Error| ServerError::Listen { address, source: Arc::new(error) };
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let address = listener.local_addr().map_err(failed)?;
                listeners.push((listener, address));
            }
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => missing = Some(failed(error)),
            Err(error) => return Err(failed(error)),
        }
    }
    match (listeners.is_empty(), missing) {
        (true, Some(error)) => Err(error),
        _ => Ok(listeners),
    }
}

/// How long accepting pauses when a connection could not be accepted: descriptors that are used up stay so for a while.
const PAUSE: Duration = Duration::from_millis(50);
/// How long accepting must go well before its trouble counts as over.
const TROUBLE_OVER_AFTER: Duration = Duration::from_secs(1);

/// Accepts connections until it is aborted.
pub(super) async fn accept_all(
    listener: TcpListener,
    peers: Arc<Peers>,
    measures: Arc<ServerMeasures>,
    serve: impl Fn(TcpStream, SocketAddr, PeerSeat),
) {
    let mut trouble = Trouble::default();
    loop {
        match timeout(trouble.look_again_after(), listener.accept()).await {
            Ok(Ok((stream, peer))) => match peers.admit(peer.ip(), Instant::now()) {
                Admission::Admitted(seat) => {
                    // Without it small answers would wait for more to come.
                    let _ = stream.set_nodelay(true);
                    serve(stream, peer, seat);
                }
                Admission::Refused { is_told } => {
                    measures.refused("address_full");
                    if is_told {
                        tracing::warn!(
                            "{} has as many connections as one address may have, and is refused more: close some, or \
                             raise --max-connections-per-ip",
                            peer.ip().to_canonical()
                        );
                    }
                    // Reset, so that nothing of it is left in the system.
                    let _ = stream.set_zero_linger();
                }
            },
            Ok(Err(error)) => {
                if trouble.begins(Instant::now()) {
                    tracing::warn!("no connection can be accepted: {error}; new clients wait: {}", cure(&error));
                }
                sleep(PAUSE).await;
            }
            Err(_) => (),
        }
        if trouble.ends(Instant::now()) {
            tracing::warn!("connections are accepted again");
        }
    }
}

/// What can be done about an error of `accept`.
fn cure(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::MFILE) => "raise the limit of open files (ulimit -n, LimitNOFILE=)",
        Some(rustix::io::Errno::NFILE) => "raise the system's limit of open files (fs.file-max)",
        Some(rustix::io::Errno::NOBUFS | rustix::io::Errno::NOMEM) => "free memory of the system",
        _ => "look to the network of the system",
    }
}

/// Whether accepting fails at present, so that it is told once and not with each try.
#[derive(Debug, Default)]
struct Trouble {
    last_error_at: Option<Instant>,
}

impl Trouble {
    /// Notes an error; whether it is the first of a row.
    fn begins(&mut self, now: Instant) -> bool {
        self.last_error_at.replace(now).is_none()
    }

    /// Whether it is over now; tells it once.
    fn ends(&mut self, now: Instant) -> bool {
        let is_over = self.last_error_at.is_some_and(|last| now.duration_since(last) >= TROUBLE_OVER_AFTER);
        if is_over {
            self.last_error_at = None;
        }
        is_over
    }

    /// How long to wait for a connection before looking whether the trouble is over.
    const fn look_again_after(&self) -> Duration {
        match self.last_error_at {
            Some(_) => TROUBLE_OVER_AFTER,
            None => Duration::MAX,
        }
    }
}

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
        let mut counts = self.counts.lock();
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
        let mut counts = self.peers.counts.lock();
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

    #[test]
    fn trouble_is_told_when_it_begins_and_when_it_has_been_over_for_a_second() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut trouble = Trouble::default();
        assert!(!trouble.ends(at(0)), "there was none");
        assert_eq!(trouble.look_again_after(), Duration::MAX);
        assert!(trouble.begins(at(0)));
        assert!(!trouble.begins(at(50)), "it goes on");
        assert!(!trouble.ends(at(1_000)), "the last error was 950 ms ago");
        assert!(trouble.ends(at(1_050)));
        assert!(!trouble.ends(at(1_100)), "it is told once");
        assert!(trouble.begins(at(1_200)), "it begins again");
    }

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
        assert_eq!(peers.counts.lock().by_address.len(), 1, "an address without connections is forgotten");
    }

    #[test]
    fn without_a_limit_all_are_admitted() {
        let peers = Arc::new(Peers::new(None));
        let address = "10.0.0.1".parse().unwrap();
        let seats: Vec<_> = (0..100).map(|_| seat(peers.admit(address, Instant::now()))).collect();
        assert_eq!(seats.len(), 100);
    }
}
