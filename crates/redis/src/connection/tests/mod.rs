//! Tests with real servers and with strangers. The messages for refusals are tested in `answer`.

mod batches;
mod loading;
mod servers;
#[cfg(feature = "tls")]
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_session::{Failure, Server};
use redis::{Cmd, Value, cmd};

use crate::connection::{Batch, Connection, answer};
use crate::url::{Address, Config, RedisAccess};

/// What a script takes that takes nothing but its keys.
const NOTHING: [&str; 0] = [];

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// A deadline that only what hangs can meet.
fn deadline() -> BootInstant {
    SystemClock.now().saturating_add(SOON)
}

fn config(url: &str) -> Config {
    Config::from_url(&url.parse().expect("a URL")).expect("a good URL")
}

fn server_at(address: SocketAddr) -> Server {
    Server::new(address.ip().to_string(), address.port())
}

async fn open(address: SocketAddr) -> Connection {
    Connection::open(&server_at(address), &RedisAccess::default(), &clock(), deadline()).await.expect("a connection")
}

async fn open_url(url: &str) -> Result<Connection, Failure> {
    let config = config(url);
    let (Address::Servers(servers) | Address::Sentinels { sentinels: servers, .. }) = &config.address;
    let deadline = clock().now().saturating_add(config.connect_timeout);
    Connection::open(&servers[0], &config.access, &clock(), deadline).await
}

fn words(text: &str) -> Cmd {
    let mut words = text.split(' ');
    let mut command = cmd(words.next().expect("a name"));
    words.for_each(|word| {
        command.arg(word);
    });
    command
}

async fn ask(connection: &Connection, command: &str) -> Value {
    let mut answers = soon(command, connection.send(Batch::new().command(words(command)))).await.expect(command);
    answer(answers.pop().expect("one answer"), command).expect(command)
}
