//! Ports on loopback that stay ours while their server is down.
//!
//! A port from the kernel (port 0) can be given to another process between a server's death and its restart. These
//! ports lie below the range that Linux uses for outgoing connections, and are claimed across test processes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::net::TcpSocket;

use crate::Result;
use crate::scratch::Claim;

/// Below Linux's `ip_local_port_range` (32768–60999), above what daemons commonly use.
const FIRST_PORT: u32 = 20_000;
const END_PORT: u32 = 30_000;

/// How far apart processes start to look, so that they rarely try the same port.
const PORTS_PER_PROCESS: u32 = 97;

/// Whether nothing listens on an address. The socket that finds this out does not listen either: a process that is
/// forked meanwhile keeps it open until it executes its program, and must not keep the port's server away.
fn is_free(address: SocketAddr) -> bool {
    let bound = TcpSocket::new_v4().and_then(|socket| {
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    });
    bound.is_ok()
}

/// A TCP port on 127.0.0.1 that no other test gets while this lives.
#[derive(Debug)]
pub struct ReservedPort(Claim);

impl ReservedPort {
    /// Reserves a port that nothing listens on.
    pub fn take() -> Result<Self> {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let start =
            std::process::id().wrapping_mul(PORTS_PER_PROCESS).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        Claim::first_free("port", FIRST_PORT..END_PORT, start, |port| {
            u16::try_from(port).is_ok_and(|port| is_free((Ipv4Addr::LOCALHOST, port).into()))
        })
        .map(Self)
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        u16::try_from(self.0.number()).expect("the range ends below 65536")
    }

    /// The port on 127.0.0.1.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number()).into()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::wait;

    #[tokio::test]
    async fn a_port_is_not_free_while_a_server_listens_on_it_and_can_be_had_while_another_test_only_looks() {
        let port = ReservedPort::take().expect("one of ten thousand");
        let looking = TcpSocket::new_v4().expect("a socket");
        looking.set_reuseaddr(true).expect("an option");
        looking.bind(port.address()).expect("it is free");
        let server = TcpListener::bind(port.address()).expect("one that only looks keeps no server away");
        assert!(!is_free(port.address()));
        drop(server);
        // A process that another test forks at this moment keeps the socket until it executes its program.
        let freed = wait::until("port is free", wait::PATIENCE, async || is_free(port.address()).then_some(()));
        freed.await.expect("the server is gone");
    }
}
