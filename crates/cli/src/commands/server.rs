//! `server`: a ZooKeeper server for one machine, until a signal ends it.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use lockkeeper_console::tell_manager;
use lockkeeper_zk_server::{EmbeddedServer, ServerBuilder};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;

use super::metrics::Metrics;
use super::service::block_on;
use crate::config::{Global, ServerSettings, TlsFiles, Words};
use crate::exit::CommandFailure;
use crate::log;
use crate::output::say;
use crate::signals::EndingSignals;

/// Where a server listens by default: where ZooKeeper's clients look for one, and for this machine alone.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2181);

/// How many connections one address may have by default, as with Apache ZooKeeper (`maxClientCnxns`).
const CONNECTIONS_PER_IP_DEFAULT: usize = 60;

/// Serves until TERM, INT or HUP, and then stops in order: requests that were accepted are answered and stored.
pub(super) fn server(global: &Global, options: ServerSettings) -> Result<u8, CommandFailure> {
    options.check().map_err(|(option, what)| CommandFailure::ours(format!("--{option}: {what}")))?;
    let settings = options.or(ServerSettings::load(global)?);
    settings
        .check()
        .map_err(|(option, what)| CommandFailure::ours(format!("--{option} and the config file: {what}")))?;
    log::listen_to_server(global.verbose);
    raise_descriptors();
    let builder = set_up(&settings)?;
    let keeping = match &settings.data_dir {
        Some(directory) => format!("keeping its data in {}", directory.display()),
        None => "keeping its data in memory".to_owned(),
    };
    block_on(async move {
        let mut interruption = EndingSignals::listen()?;
        let metrics = Metrics::listen(settings.metrics.as_ref())?;
        let server = builder.start().await.map_err(|error| CommandFailure::ours(chain(&error)))?;
        say(&format!("serving {}, {keeping}", server.urls().join(" and ")));
        tell_manager(NotifyState::Ready);
        if let Some(warning) = exposure(server.addresses()).filter(|_| settings.tls_ca.is_none()) {
            say(&warning);
        }
        if let Some(found) = server.recovered() {
            say(&found.to_string());
        }
        if let Some(url) = metrics.url() {
            say(&format!("metrics at {url}"));
        }
        tokio::select! {
            biased;
            cause = interruption.heard() => {
                say(&format!("stopping, by {}", cause.name));
                tell_manager(NotifyState::Stopping);
                server.shutdown().await;
                Ok(0)
            }
            error = server.stopped() => Err(CommandFailure::ours(chain(&error))),
            never = metrics.serve(&server) => match never {},
        }
    })?
}

/// Takes as many descriptors as the system grants: each client needs one.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Without it the server accepts fewer clients, and tells when they are too many.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Sets a server up as it is told; what is not given keeps the server's own default.
fn set_up(settings: &ServerSettings) -> Result<ServerBuilder, CommandFailure> {
    let mut builder = EmbeddedServer::builder();
    if settings.listen.is_empty() {
        builder = builder.listen(LISTEN_DEFAULT);
    }
    for listen in &settings.listen {
        builder = builder.listen_on_any(listen.addresses()?);
    }
    let given = [
        (settings.tick, ServerBuilder::tick as fn(ServerBuilder, Duration) -> ServerBuilder),
        (settings.session_timeout_min, ServerBuilder::session_timeout_min),
        (settings.session_timeout_max, ServerBuilder::session_timeout_max),
        (settings.container_check, ServerBuilder::container_check),
    ];
    builder = given.into_iter().fold(builder, |builder, (given, set)| match given {
        Some(duration) => set(builder, duration),
        None => builder,
    });
    if let Some(size) = settings.frame_max {
        builder = builder.frame_bytes_max(size.bytes);
    }
    if let Some(size) = settings.memory {
        builder = builder.memory_bytes(size.bytes);
    }
    builder =
        builder.connections_per_address_max(settings.max_connections_per_ip.unwrap_or(CONNECTIONS_PER_IP_DEFAULT));
    builder = match &settings.words {
        Some(Words(words)) => builder.words(words.iter().copied()),
        None => builder.words(Words::DEFAULT),
    };
    if let Some(size) = settings.tree_max {
        builder = builder.tree_bytes_max(size.bytes);
    }
    if let Some(files) = settings.tls()? {
        builder = with_tls(builder, &files)?;
    }
    if let Some(password) = settings.super_password()? {
        builder = builder.super_password(&password);
    }
    Ok(match &settings.data_dir {
        Some(directory) => builder.data_dir(directory),
        None => builder,
    })
}

#[cfg(feature = "tls")]
fn with_tls(builder: ServerBuilder, files: &TlsFiles<'_>) -> Result<ServerBuilder, CommandFailure> {
    let tls = lockkeeper_zk_server::Tls::from_files(files.cert, files.key, files.ca);
    Ok(builder.tls(tls.map_err(|error| CommandFailure::ours(format!("TLS: {}", chain(&error))))?))
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: ServerBuilder, _: &TlsFiles<'_>) -> Result<ServerBuilder, CommandFailure> {
    Err(CommandFailure::without("--tls-cert", "tls"))
}

/// Warns of addresses that other machines may reach: clients need not prove who they are.
fn exposure(addresses: &[SocketAddr]) -> Option<String> {
    let is_exposed = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
    let exposed: Vec<String> = addresses.iter().filter(is_exposed).map(ToString::to_string).collect();
    (!exposed.is_empty()).then(|| {
        format!(
            "warning: other machines may reach {}, and no client has to prove who it is: each can read, change and \
             delete all nodes with open access lists, locks among them; listen on 127.0.0.1, let only hosts that you \
             trust reach the port, or ask for clients' certificates (--tls-ca)",
            exposed.join(" and ")
        )
    })
}

/// An error with its causes, in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_other_machines_may_reach_are_warned_of() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        let private = addresses(&["127.0.0.1:1", "127.9.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"]);
        assert_eq!(exposure(&private), None);
        let exposed = addresses(&["127.0.0.1:1", "0.0.0.0:2", "[::]:3", "10.0.0.5:4", "[::ffff:10.0.0.5]:5"]);
        let warning = exposure(&exposed).unwrap();
        assert!(warning.contains("0.0.0.0:2 and [::]:3 and 10.0.0.5:4 and [::ffff:10.0.0.5]:5,"), "{warning}");
        assert!(!warning.contains("127.0.0.1:1"), "{warning}");
    }
}
