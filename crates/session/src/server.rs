//! One server of a service, as a URL names it.

use std::fmt;

use lockkeeper_core::url::ServiceUrl;
use lockkeeper_core::{Error, ErrorKind, Operation, Result};

/// One server: its name or address, and its port.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Server {
    /// Its name, or its address without brackets.
    pub name: String,
    /// Its port.
    pub port: u16,
}

impl Server {
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
        let server = |host: &lockkeeper_core::url::Host| Self {
            name: host.name.clone(),
            port: host.port.unwrap_or(port_default),
        };
        Ok(url.hosts().iter().map(server).collect())
    }
}

/// `h1:6379`, `[::1]:6379`
impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.name.contains(':') { ("[", "]") } else { ("", "") };
        write!(formatter, "{open}{}{close}:{}", self.name, self.port)
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
    fn a_url_without_a_server_is_refused() {
        let error = servers("postgres:/app").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUrl);
        assert!(error.to_string().contains("postgres://h1:5432"), "{error}");
    }
}
