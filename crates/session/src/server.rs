//! One server of a service: as a URL names it, and behind one of the addresses of its name.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use lockkeeper_core::Result;
use lockkeeper_core::url::{Host, ServiceUrl, invalid};

/// The longest path of a Unix socket, in bytes: the system takes no more.
const SOCKET_BYTES_MAX: usize = if cfg!(target_vendor = "apple") { 103 } else { 107 };

/// One server's name and port, and one of the addresses behind the name once it was resolved: then it is a way to the
/// server. The name of a Unix socket is its path, which is the only way to it. On Windows there are no such servers.
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

    /// Returns the path of a Unix socket.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.name.starts_with('/').then(|| Path::new(&self.name))
    }

    /// Reads the servers of a URL, which names at least one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`](lockkeeper_core::ErrorKind::InvalidUrl), permanent, if it names none, or a Unix
    /// socket.
    pub fn of_url(url: &ServiceUrl, port_default: u16) -> Result<Vec<Self>> {
        if let Some(host) = url.hosts().iter().find(|host| host.is_socket()) {
            let message = format!("`{}` is a Unix socket, and `{}:` is reached by TCP alone", host.name, url.scheme());
            return Err(invalid(message));
        }
        Self::of_hosts(url, port_default, |_| String::new())
    }

    /// Reads the servers of a URL, each of which may be a Unix socket. `socket` says where the file is that a host and
    /// a port name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`](lockkeeper_core::ErrorKind::InvalidUrl), permanent, if it names none, or a socket
    /// whose path is too long; on Windows any socket, since it is reached by TCP alone from there.
    pub fn or_sockets_of_url(
        url: &ServiceUrl,
        port_default: u16,
        socket: impl Fn(&str, u16) -> String,
    ) -> Result<Vec<Self>> {
        if cfg!(windows) {
            return Self::of_url(url, port_default);
        }
        let servers = Self::of_hosts(url, port_default, |host| socket(&host.name, host.port.unwrap_or(port_default)))?;
        match servers.iter().find(|server| server.socket().is_some() && server.name.len() > SOCKET_BYTES_MAX) {
            Some(server) => Err(invalid(format!("the path of a socket is too long: {server}"))),
            None => Ok(servers),
        }
    }

    fn of_hosts(url: &ServiceUrl, port_default: u16, socket: impl Fn(&Host) -> String) -> Result<Vec<Self>> {
        if url.hosts().is_empty() {
            let scheme = url.scheme();
            let message = format!("a URL of `{scheme}:` names at least one server, as in {scheme}://h1:{port_default}");
            return Err(invalid(message));
        }
        let server = |host: &Host| {
            let name = if host.is_socket() { socket(host) } else { host.name.clone() };
            Self::new(name, host.port.unwrap_or(port_default))
        };
        Ok(url.hosts().iter().map(server).collect())
    }
}

/// `h1:2181`, or `h1:2181 at 10.0.0.1` where the address says more than the name; the path of a Unix socket.
impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.socket().is_some() {
            return formatter.write_str(&self.name);
        }
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
    use lockkeeper_core::ErrorKind;

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
    fn a_unix_socket_is_taken_where_the_service_has_them_and_else_refused() {
        let url: ServiceUrl = "postgres://%2Frun%2Fpg:1,h2/app".parse().unwrap();
        let servers = Server::or_sockets_of_url(&url, 5_432, |folder, port| format!("{folder}/.s.{port}")).unwrap();
        let shown: Vec<_> = servers.iter().map(ToString::to_string).collect();
        assert_eq!(
            (shown, servers[0].socket()),
            (vec!["/run/pg/.s.1".into(), "h2:5432".into()], Some("/run/pg/.s.1".as_ref()))
        );
        let told = Server::of_url(&url, 5_432).unwrap_err().to_string();
        assert!(told.contains("`/run/pg` is a Unix socket, and `postgres:` is reached by TCP alone"), "{told}");
        let long = Server::or_sockets_of_url(&url, 5_432, |folder, _| folder.repeat(50)).unwrap_err();
        assert!(long.kind() == ErrorKind::InvalidUrl && long.to_string().contains("too long"), "{long}");
    }

    #[test]
    fn a_url_without_a_server_is_refused() {
        let error = servers("postgres:/app").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUrl);
        assert!(error.to_string().contains("postgres://h1:5432"), "{error}");
    }
}
