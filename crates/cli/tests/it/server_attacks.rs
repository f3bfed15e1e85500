//! One peer that would take the server's connections, and what other clients notice of it.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::clock::{Clock as _, SystemClock};
use lockkeeper_faults::long;
use lockkeeper_zookeeper::Client;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::server::Server;
use crate::support::{PATIENCE, Place, eventually};

/// Where the attack comes from, at any port.
const ATTACKER: ([u8; 4], u16) = ([127, 0, 0, 2], 0);
/// How many connections one address may have by default.
const CONNECTIONS_PER_IP: usize = 60;
/// How many requests are timed.
const TIMED: usize = 4_000;
/// How much worse the 99th percentile may be under an attack than on a quiet server; judged in the long run.
const WORSE_MAX: u32 = 10;
/// How often a measurement is retried before it counts as missed: others use the machine too.
const TRIES: usize = 3;
/// How long an attack rests after each blow: it shares the processors with the server and with those that are timed.
const REST: Duration = Duration::from_micros(500);

/// Connects from the attacker's address; a server that refuses the connection may have reset it already.
fn dial(server: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::from(ATTACKER))?;
    connect(&socket, &server)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Whether one more connection is served.
fn is_served(server: SocketAddr) -> bool {
    let Ok(mut stream) = dial(server) else { return false };
    stream.write_all(b"ruok").is_ok() && matches!(stream.read(&mut [0; 4]), Ok(1..))
}

/// The 99th percentile of what a request takes.
async fn percentile_99(client: &Client) -> Duration {
    let mut took = Vec::new();
    for _ in 0..TIMED {
        let start = SystemClock.now();
        client.exists("/").await.unwrap();
        took.push(SystemClock.now().saturating_duration_since(start));
    }
    took.sort();
    took[TIMED * 99 / 100]
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_take_all_connections_and_others_hardly_notice_that_it_tries() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let address: SocketAddr = server.address().parse().unwrap();
    let kept: Vec<_> = (0..CONNECTIONS_PER_IP).map(|_| dial(address).unwrap()).collect();
    eventually("one more is refused", || (!is_served(address)).then_some(()));
    let told = server.line("lockkeeper: 127.0.0.2 has as many connections");
    assert!(told.contains("--max-connections-per-ip"), "{told}");
    let honest = server.client("").await;
    let mut seen = Vec::new();
    while seen.len() < TRIES {
        let quiet = percentile_99(&honest).await;
        let is_over = Arc::new(AtomicBool::new(false));
        let attack = std::thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    drop(dial(address));
                    std::thread::park_timeout(REST);
                }
            }
        });
        let attacked = percentile_99(&honest).await;
        is_over.store(true, Ordering::Relaxed);
        attack.join().unwrap();
        println!("connections over and over: 99th percentile {attacked:?}, quiet {quiet:?}");
        if !long::is_asked_for() || attacked <= quiet * WORSE_MAX {
            drop(kept);
            eventually("an ended connection gives its place back", || is_served(address).then_some(()));
            assert_eq!(server.stop(), Some(0));
            return;
        }
        seen.push((quiet, attacked));
    }
    panic!("the 99th percentile, quiet and attacked: {seen:?}");
}
