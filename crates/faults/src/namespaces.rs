//! A separate network for each server of an ensemble, so that one can be cut off from its peers alone.
//!
//! ```text
//!   this namespace ── link 0 ── server 0 ──┐
//!                  ── link 1 ── server 1 ──┼── bridge, in its own namespace
//!                  ── link 2 ── server 2 ──┘
//! ```
//! Clients stay in the namespace of the test process and have a link to each server; servers talk to each other over
//! the bridge only. Cutting takes a server's port off the bridge: packets vanish, no connection is reset, and the
//! clients' links are untouched. Needs root and Linux. Starting servers in it is left to [`Ensemble::start_in`]
//! and [`Cluster::start_in`].
//!
//! [`Ensemble::start_in`]: crate::zookeeper::Ensemble::start_in
//! [`Cluster::start_in`]: crate::etcd::Cluster::start_in

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Once;

use crate::scratch::Claim;
use crate::{Availability, Error, Result, process};

/// How many networks there can be at once; the number is the third byte of their addresses.
const NETWORKS_MAX: u8 = 250;

/// How many servers fit in one network: their links share 256 addresses by four.
const SERVERS_MAX: usize = 60;

const KIND: &str = "network";

/// Namespaces, links and a bridge for one ensemble; all gone when it is dropped, or at the next run if that is missed.
///
/// The namespaces are `lockkeeper-<number>-…`, the links here `lkf<number>s<server>`. Numbers are claimed across
/// processes. The links' addresses are 10.203.`number`.0/24; those of the servers among themselves, 10.202.0.0/24,
/// exist inside the namespaces only.
#[derive(Debug)]
pub struct Network {
    number: u8,
    servers: usize,
    _claim: Claim,
}

/// Whether such networks can be made here; tries one.
pub fn availability() -> Availability {
    if !rustix::process::geteuid().is_root() {
        return Availability::Missing("network namespaces need root".to_owned());
    }
    Availability::of_programs(&["ip"], "iproute2").and(|| match Network::new(1) {
        Ok(_) => Availability::Present,
        Err(error) => Availability::Missing(format!("no network namespaces here: {error}")),
    })
}

impl Network {
    /// Makes namespaces and links for `servers` servers. The first call of a process sweeps what killed runs left.
    pub fn new(servers: usize) -> Result<Self> {
        static SWEPT: Once = Once::new();
        if servers > SERVERS_MAX {
            return Err(Error::new(format!("at most {SERVERS_MAX} servers fit in a network")));
        }
        SWEPT.call_once(sweep);
        // An address range that this machine routes elsewhere is not ours to take.
        let unused = |number: u32| {
            remove_namespaces(number);
            let range = format!("10.203.{number}.0/24");
            ip(&["-4", "route", "show", "root", &range]).is_ok_and(|routes| routes.trim().is_empty())
        };
        let claim = Claim::first_free(KIND, 0..u32::from(NETWORKS_MAX), 0, unused)?;
        let network =
            Self { number: u8::try_from(claim.number()).expect("the range ends below 256"), servers, _claim: claim };
        network.build()?;
        Ok(network)
    }

    fn build(&self) -> Result<()> {
        let bridge = self.bridge();
        ip(&["netns", "add", &bridge])?;
        ip(&["-n", &bridge, "link", "add", "bridge0", "type", "bridge"])?;
        ip(&["-n", &bridge, "link", "set", "bridge0", "up"])?;
        for index in 0..self.servers {
            self.build_server(index)?;
        }
        Ok(())
    }

    fn build_server(&self, index: usize) -> Result<()> {
        let (bridge, server) = (self.bridge(), self.namespace(index));
        let (link, port) = (format!("lkf{}s{index}", self.number), port(index));
        let near = format!("{}/30", self.link_address(index, 1));
        let far = format!("{}/30", self.client_address(index));
        let peer = format!("{}/24", self.peer_address(index));
        ip(&["netns", "add", &server])?;
        ip(&["-n", &server, "link", "set", "lo", "up"])?;
        ip(&["link", "add", &link, "type", "veth", "peer", "name", "client0", "netns", &server])?;
        ip(&["addr", "add", &near, "dev", &link])?;
        ip(&["link", "set", &link, "up"])?;
        ip(&["-n", &server, "addr", "add", &far, "dev", "client0"])?;
        ip(&["-n", &server, "link", "set", "client0", "up"])?;
        ip(&["-n", &bridge, "link", "add", &port, "type", "veth", "peer", "name", "peers0", "netns", &server])?;
        ip(&["-n", &server, "addr", "add", &peer, "dev", "peers0"])?;
        ip(&["-n", &server, "link", "set", "peers0", "up"])?;
        ip(&["-n", &bridge, "link", "set", &port, "up"])?;
        self.heal(index)
    }

    /// How many servers it has room for.
    #[expect(clippy::len_without_is_empty, reason = "a network is made with its servers")]
    pub fn len(&self) -> usize {
        self.servers
    }

    /// Cuts a server off from its peers: packets between them vanish. Clients still reach it.
    pub fn isolate(&self, index: usize) -> Result<()> {
        ip(&["-n", &self.bridge(), "link", "set", &port(index), "nomaster"]).map(drop)
    }

    /// Lets a server reach its peers again; what they sent meanwhile is sent again by TCP, unless they gave up.
    pub fn heal(&self, index: usize) -> Result<()> {
        ip(&["-n", &self.bridge(), "link", "set", &port(index), "master", "bridge0"]).map(drop)
    }

    /// A command for [`Process::start`](process::Process::start) that runs a program in a namespace, which reaches what
    /// listens in the others, and dies with this process.
    pub fn command(&self, index: usize, program: impl AsRef<OsStr>) -> Command {
        process::command_in_namespace(&self.namespace(index), program)
    }

    /// The name of a server's namespace.
    pub(crate) fn namespace(&self, index: usize) -> String {
        format!("{}s{index}", prefix(u32::from(self.number)))
    }

    /// Where clients reach a server.
    pub(crate) fn client_address(&self, index: usize) -> Ipv4Addr {
        self.link_address(index, 2)
    }

    /// Where its peers reach a server.
    pub(crate) fn peer_address(&self, index: usize) -> Ipv4Addr {
        let host = u8::try_from(index + 1).expect("the count of servers was checked");
        Ipv4Addr::new(10, 202, 0, host)
    }

    fn link_address(&self, index: usize, end: u8) -> Ipv4Addr {
        let first = u8::try_from(index * 4).expect("the count of servers was checked");
        Ipv4Addr::new(10, 203, self.number, first + end)
    }

    fn bridge(&self) -> String {
        format!("{}bridge", prefix(u32::from(self.number)))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove_namespaces(u32::from(self.number));
    }
}

/// A server's port at the bridge.
fn port(index: usize) -> String {
    format!("port{index}")
}

fn prefix(number: u32) -> String {
    format!("lockkeeper-{number}-")
}

/// Removes the networks whose numbers are no longer claimed.
fn sweep() {
    let names = namespaces();
    for number in 0..u32::from(NETWORKS_MAX) {
        if names.iter().any(|name| name.starts_with(&prefix(number)))
            && let Some(_claim) = Claim::take(KIND, number)
        {
            remove_namespaces(number);
        }
    }
}

/// Removes what has this number; the links go with the namespaces, since each has an end in one.
fn remove_namespaces(number: u32) {
    for name in namespaces().iter().filter(|name| name.starts_with(&prefix(number))) {
        // The links here first: the kernel takes its time with a namespace after its name is gone.
        if let Some(server) = name.strip_prefix(&format!("{}s", prefix(number))) {
            let _ = ip(&["link", "del", &format!("lkf{number}s{server}")]);
        }
        let _ = ip(&["netns", "del", name]);
    }
}

/// The names of all namespaces on this machine.
fn namespaces() -> Vec<String> {
    let list = ip(&["netns", "list"]).unwrap_or_default();
    list.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Runs `ip` and answers what it printed.
fn ip(arguments: &[&str]) -> Result<String> {
    let doing = format!("ip {}", arguments.join(" "));
    let output = Command::new("ip").args(arguments).output().map_err(Error::io(&doing))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
        return Err(Error::new(format!("{doing}: {said}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_swept_and_what_is_in_use_is_not() {
        if !availability().or_skip_here() {
            return;
        }
        let in_use = Network::new(1).expect("a network");
        let left = format!("{}s0", prefix(u32::from(NETWORKS_MAX) - 1));
        ip(&["netns", "add", &left]).expect("root");
        sweep();
        let names = namespaces();
        assert!(!names.contains(&left));
        assert!(names.contains(&in_use.namespace(0)));
        drop(in_use);
    }

    #[test]
    fn two_networks_at_once_share_nothing_that_this_namespace_sees() {
        if !availability().or_skip_here() {
            return;
        }
        let networks = [2, 2].map(|servers| Network::new(servers).expect("a network"));
        let [first, second] = &networks;
        assert_ne!(first.namespace(1), second.namespace(1));
        assert_ne!(first.client_address(1), second.client_address(1));
    }
}
