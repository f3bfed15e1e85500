//! The hosts of a URL, and names of services in the URLs of other clients, where they mean the same.

use crate::error::Result;
use crate::url::{decode, encode, invalid};

/// The most hosts of one URL: more than any ensemble has.
pub const HOSTS_MAX: usize = 64;

/// One host of a service.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Host {
    /// Its name or address, without the brackets of an IPv6 address; or the path of a Unix socket of this machine,
    /// which begins with `/`.
    pub name: String,
    /// Its port, if one was given.
    pub port: Option<u16>,
}

impl Host {
    /// Whether it is a Unix socket of this machine.
    pub fn is_socket(&self) -> bool {
        self.name.starts_with('/')
    }

    /// Writes it as it is read.
    pub(super) fn encoded(&self) -> String {
        let name = match !self.is_socket() && self.name.contains(':') {
            true => format!("[{}]", self.name.replace('%', "%25")),
            false => encode_name(&self.name),
        };
        self.port.map_or_else(|| name.clone(), |port| format!("{name}:{port}"))
    }
}

pub(super) fn parse_hosts(hosts: &str) -> Result<Vec<Host>> {
    if hosts.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(mark) = hosts.chars().find(|mark| mark.is_whitespace() || *mark == ';') {
        let mark = if mark == ';' { "`;`" } else { "blank" };
        return Err(invalid(format!("the service URL has a {mark} among its hosts; a `,` alone separates them")));
    }
    let hosts: Vec<_> = hosts.split(',').map(parse_host).collect::<Result<_>>()?;
    if hosts.len() > HOSTS_MAX {
        return Err(invalid(format!("the service URL has {} hosts; the limit is {HOSTS_MAX}", hosts.len())));
    }
    Ok(hosts)
}

fn parse_host(host: &str) -> Result<Host> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']').ok_or_else(|| invalid(format!("`{host}` lacks a `]`")))?;
            let port = match rest {
                "" => None,
                _ => Some(rest.strip_prefix(':').ok_or_else(|| invalid(format!("`{host}` is not a host")))?),
            };
            (unescaped_zone(name), port)
        }
        None => match host.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(invalid(format!("`{host}` is not a host; an IPv6 address stands in brackets")));
            }
            Some((name, port)) => (decode(name)?, Some(port)),
            None => (decode(host)?, None),
        },
    };
    if name.is_empty() {
        return Err(invalid("the service URL has an empty host"));
    }
    // A `/` is that of a socket's path, which it begins with.
    if name.contains(char::is_control) || name.find('/').is_some_and(|at| at > 0) {
        return Err(invalid(format!("`{host}` is not a host")));
    }
    let port = port
        .map(|port| port.parse().ok().filter(|&port: &u16| port != 0))
        .map(|port| port.ok_or_else(|| invalid(format!("`{host}` has no usable port"))))
        .transpose()?;
    Ok(Host { name, port })
}

/// Reads the zone of an IPv6 address, whose `%` is escaped in URLs (RFC 6874): `fe80::1%25lo`. Many leave the escape
/// out; then a zone that is the number 25 is told by its end.
fn unescaped_zone(address: &str) -> String {
    match address.split_once("%25") {
        Some((address, zone)) if !zone.is_empty() => format!("{address}%{zone}"),
        _ => address.to_owned(),
    }
}

/// Escapes what would end the name of a host, or a user's.
pub(super) fn encode_name(text: &str) -> String {
    let mut encoded = encode(text);
    for (mark, escaped) in [('/', "%2F"), (':', "%3A"), ('@', "%40"), (',', "%2C"), ('[', "%5B"), (';', "%3B")] {
        encoded = encoded.replace(mark, escaped);
    }
    encoded.replace(' ', "%20")
}

/// Another client's name of a service, and ours.
const SAME: [(&str, &str); 5] = [
    ("postgresql", "postgres"),
    ("rediss", "redis+tls"),
    ("valkey", "redis"),
    ("valkeys", "redis+tls"),
    ("zookeeper", "zk"),
];

/// Returns what a scheme is called here.
pub(super) fn our_scheme(scheme: &str) -> String {
    let (service, way) = scheme.split_at(scheme.find('+').unwrap_or(scheme.len()));
    let service = SAME.iter().find(|(other, _)| *other == service).map_or(service, |(_, ours)| ours);
    format!("{service}{way}")
}
