//! One server of a service: as a URL names it, and behind one of the addresses of its name.

use std::fmt;
use std::net::SocketAddr;

use lockkeeper_core::url::ServiceUrl;
use lockkeeper_core::{Error, ErrorKind, Operation, Result};

/// One server's name and port, and one of the addresses behind the name once it was resolved: then it is a way to the
/// server.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub struct Server {
    /// Its name, or its address without brackets.
    pub name: String,
    /// Its port.
    pub port: u16,
    /// The address to be dialled, with the same port; `None` before the name was resolved, and where no names are.
    pub address: Option<SocketAddr>,
}

impl Server {
    /// Names a server that was not resolved.
    pub fn new(name: impl Into<String>, port: u16) -> Self {
        Self { name: name.into(), port, address: None }
    }

    /// Returns the same server behind this address, whose port becomes the server's.
    #[must_use]
    pub fn at(&self, mut address: SocketAddr) -> Self {
        address.set_port(self.port);
        Self { address: Some(address), ..self.clone() }
    }

    /// Whether `way` is this server, behind any address.
    #[must_use]
    pub fn is_reached_by(&self, way: &Self) -> bool {
        (&self.name, self.port) == (&way.name, way.port)
    }

    /// Reads the servers of a URL, which names at least one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`], permanent, if it names none.
    pub fn of_url(url: &ServiceUrl, port_default: u16) -> Result<Vec<Self>> {
        if url.hosts().is_empty() {
            let scheme = url.scheme();
            let message = format!("a URL of `{scheme}:` names at least one server, as in {scheme}://h1:{port_default}");
            return Err(Error::permanent(ErrorKind::InvalidUrl, Operation::Configure, message));
        }
        Ok(url.hosts().iter().map(|host| Self::new(&host.name, host.port.unwrap_or(port_default))).collect())
    }
}

/// `h1:2181`, or `h1:2181 at 10.0.0.1` where the address says more than the name.
impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.name.contains(':') { ("[", "]") } else { ("", "") };
        write!(formatter, "{open}{}{close}:{}", self.name, self.port)?;
        let Some(address) = self.address.filter(|address| self.name.parse() != Ok(address.ip())) else {
            return Ok(());
        };
        write!(formatter, " at {}", address.ip())?;
        match address {
            SocketAddr::V6(address) if address.scope_id() != 0 => write!(formatter, "%{}", address.scope_id()),
            SocketAddr::V4(_) | SocketAddr::V6(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(url: &str) -> Result<Vec<Server>> {
        Server::of_url(&url.parse()?, 5_432)
    }

    #[test]
    fn servers_have_the_default_port_unless_the_url_says_otherwise() {
        let shown: Vec<_> = servers("postgres://h1,[::1]:1/app").unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["h1:5432", "[::1]:1"]);
    }

    #[test]
    fn a_server_is_dialled_at_the_port_that_it_is_shown_with() {
        for (name, address, shown) in [
            ("h1", "10.0.0.1:999", "h1:2182 at 10.0.0.1"),
            ("10.0.0.1", "10.0.0.1:999", "10.0.0.1:2182"),
            ("::1", "[::1]:999", "[::1]:2182"),
            ("h1", "[fe80::1%3]:999", "h1:2182 at fe80::1%3"),
        ] {
            let server = Server::new(name, 2182).at(address.parse().unwrap());
            assert_eq!((server.to_string().as_str(), server.address.unwrap().port()), (shown, 2182));
        }
    }

    #[test]
    fn a_url_without_a_server_is_refused() {
        let error = servers("postgres:/app").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUrl);
        assert!(error.to_string().contains("postgres://h1:5432"), "{error}");
    }
}
