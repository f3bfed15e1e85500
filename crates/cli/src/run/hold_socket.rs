//! Questions of a command to its runner: whether the lock is still held, and for how long at least.
//!
//! A socket in the kernel's abstract name space, not in a directory: nothing has to be made before the command starts,
//! and nothing is left when the runner is killed. Each connection is answered with one line of JSON. Both sides look at
//! the other's user: the name alone protects nothing. A command in another network name space does not reach it.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use tokio::net::{UnixListener, UnixStream};

/// The variable that tells the command where to ask.
pub(crate) const VARIABLE: &str = "LOCKKEEPER_HOLD";

/// How long the runner may take to answer, in milliseconds; one that is stopped does not answer at all.
const PATIENCE_MS: u64 = 2_000;

/// How long no connection is answered after an attempt failed, in milliseconds.
const ACCEPT_PAUSE_MS: u64 = 100;

/// The longest answer in bytes: several times what the fields can need.
const ANSWER_BYTES_MAX: u64 = 1_024;

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct HoldAnswer {
    pub(crate) held: bool,
    /// For how long at least, in milliseconds; `None` if it has no deadline.
    pub(crate) safe_for_ms: Option<u64>,
    pub(crate) token: String,
}

pub(crate) struct HoldSocket {
    listener: UnixListener,
    name: String,
}

impl HoldSocket {
    /// Binds a socket under a name that no other socket has.
    pub(crate) fn bind() -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = format!("lockkeeper-{}-{:016x}", std::process::id(), u64::from_ne_bytes(random));
        let listener = StdUnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, name })
    }

    pub(crate) fn address(&self) -> OsString {
        format!("@{}", self.name).into()
    }

    /// Answers each connection, without end. One connection at a time is open, and only for the time of an answer.
    pub(crate) async fn serve(self, answer: impl Fn() -> HoldAnswer) -> Infallible {
        loop {
            match self.listener.accept().await {
                // A connection that we cannot answer is no reason to stop.
                Ok((stream, _)) => drop(reply(&stream, &answer())),
                // Too many files open, or the other side went away meanwhile: it asks again, and we do not spin.
                Err(_) => tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await,
            }
        }
    }
}

/// Never waits: a fresh socket has room for one line.
fn reply(stream: &UnixStream, answer: &HoldAnswer) -> io::Result<()> {
    if is_trusted(stream)? {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        stream.try_write(&line)?;
    }
    Ok(())
}

/// Asks the runner whose socket is at `address`.
/// `ConnectionRefused`: that runner is gone, and with it its hold. Any other error: it is not known.
pub(crate) fn ask(address: &str) -> io::Result<HoldAnswer> {
    let name = address.strip_prefix('@').ok_or(io::ErrorKind::InvalidInput)?;
    let stream = StdUnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    if !is_trusted(&stream)? {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user answers there"));
    }
    stream.set_read_timeout(Some(Duration::from_millis(PATIENCE_MS)))?;
    let mut line = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

/// Tells whether the other side is this user or root.
fn is_trusted(stream: impl AsFd) -> io::Result<bool> {
    let user = socket_peercred(stream)?.uid;
    Ok(user.is_root() || user == geteuid())
}
