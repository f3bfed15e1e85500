//! Accepts connections, and goes on when the system has none to give: it pauses, and tells when that begins and ends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::measures::ServerMeasures;
use crate::server::peers::{Admission, PeerSeat, Peers};

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
}
