//! Many sessions with watches, all at once.

use std::io;

use lockkeeper_zk_proto::message::Request;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::client::{Client, encoded};
use super::process::Server;
use crate::load::{Effort, Stopwatch};

const SESSIONS: u32 = 10_000;
const SESSIONS_AT_A_TIME: usize = 50;
const WATCHES_PER_SESSION: usize = 10;
/// How many sessions watch one and the same path.
const SESSIONS_PER_PATH: usize = 10;

/// What they have cost a server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crowd {
    pub(super) opened_s: f64,
    pub(super) watching_s: f64,
    pub(super) resident_mib: f64,
}

/// Lets this process, and the servers that it starts from now on, have as many descriptors as it may: each session
/// takes one in either.
pub(super) fn raise_descriptors() -> io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

pub(super) fn measure(server: &Server, effort: Effort) -> io::Result<Crowd> {
    let sessions = effort.calls(SESSIONS) as usize;
    let watch = Stopwatch::start();
    let mut clients = Vec::new();
    while clients.len() < sessions {
        // Some at a time: a server's queue of connections that it has not accepted yet is short.
        let mut some: Vec<_> =
            (0..SESSIONS_AT_A_TIME).map(|_| Client::start(server.address)).collect::<Result<_, _>>()?;
        some.iter_mut().try_for_each(Client::connected)?;
        clients.append(&mut some);
    }
    let opened_s = watch.elapsed().as_secs_f64();
    let watch = Stopwatch::start();
    for (number, client) in clients.iter_mut().enumerate() {
        let path = |part| format!("/locks/lock-{}/contender-{part}", number / SESSIONS_PER_PATH);
        let exists = |part| Request::Exists { path: path(part), watch: true };
        let requests: Vec<_> = (0..WATCHES_PER_SESSION).map(exists).collect();
        client.round(&encoded(&requests)?, WATCHES_PER_SESSION)?;
    }
    let watching_s = watch.elapsed().as_secs_f64();
    Ok(Crowd { opened_s, watching_s, resident_mib: server.resident_mib()? })
}
