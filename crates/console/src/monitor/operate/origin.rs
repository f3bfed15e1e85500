//! Where a request comes from, and which ways may carry orders.
//!
//! An order comes over TLS, by the proxy whose address is the public URL and which says so, or over the loopback of
//! this machine, by no proxy. A browser's order comes from our own page: its `Origin` says so, which no page can
//! choose.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST, HeaderName, ORIGIN};

use super::request::Refused;

/// How much of a header of others is logged, in characters.
const LOGGED_MAX: usize = 60;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What proxies write: a request with one of these does not come straight from its client.
const BY_PROXIES: [HeaderName; 4] =
    [FORWARDED_FOR, FORWARDED_PROTO, HeaderName::from_static("x-forwarded-host"), HeaderName::from_static("forwarded")];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The URL under which others reach the monitor, by a proxy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PublicUrl {
    is_tls: bool,
    /// Its host, in lower case; an IPv6 address has its brackets.
    host: String,
    /// Its port, unless it is the one of its scheme.
    port: Option<u16>,
    /// Where its pages are, with a `/` at both ends.
    path: String,
}

impl PublicUrl {
    /// Reads `https://locks.example.org/prefix`.
    /// Fails with what to write instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let refuse = |what: &str| Err(format!("`{text}` {what}; write it as https://locks.example.org"));
        let (is_tls, own_port, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, 443, rest),
            (_, Some(rest)) => (false, 80, rest),
            (None, None) => return refuse("is no URL of HTTP"),
        };
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => match port.parse() {
                Ok(port) => (host, Some(port)),
                Err(_) => return refuse("has no port behind its `:`"),
            },
            _ => (authority, None),
        };
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte)) {
            return refuse("has no host");
        }
        // A cookie's path ends at a `;`, and a query is of no page in particular.
        if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%/+@".contains(&byte)) {
            return refuse("has more than a path behind its host");
        }
        let path = path.trim_matches('/');
        let path = if path.is_empty() { "/".to_owned() } else { format!("/{path}/") };
        Ok(Self { is_tls, host: host.to_ascii_lowercase(), port: port.filter(|port| *port != own_port), path })
    }

    pub(crate) const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Tells whether the `Host` of a request has its name, at any port: enough to be shown something.
    pub(crate) fn is_host(&self, host: &str) -> bool {
        host_name(host).eq_ignore_ascii_case(host_name(&self.host))
    }

    /// Tells whether the `Host` of a request can be that of a request to it: another port is another way.
    fn is_asked_for(&self, host: &str) -> bool {
        let port = self.port.unwrap_or(if self.is_tls { 443 } else { 80 });
        self.is_host(host) && port_of(host).is_none_or(|asked| asked.parse() == Ok(port))
    }

    /// Returns it as browsers name the origin of its pages.
    fn origin(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{}{port}", self.host)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

/// Returns the name or address in a `Host`, without port and brackets.
pub(in crate::monitor) fn host_name(host: &str) -> &str {
    let name = match port_of(host) {
        Some(port) => &host[..host.len() - port.len() - 1],
        None => host,
    };
    name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
}

/// Returns the port in a `Host`, if it has one, with no digits where it ends at its `:`.
fn port_of(host: &str) -> Option<&str> {
    let (_, port) = host.rsplit_once(':')?;
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(port)
}

/// Returns what the proxy that is nearest wrote of a header that is a list: it writes behind what others have written.
fn last(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let list = headers.get_all(name).iter().next_back()?.to_str().unwrap_or_default();
    list.rsplit(',').next().map(str::trim)
}

/// Who asks, as far as a request tells.
#[derive(Clone, Debug)]
pub(super) struct RequestOrigin {
    peer: IpAddr,
    /// For whom the peer asks, if it is a proxy that says so.
    forwarded: Option<String>,
    /// Whether it comes by a proxy, as far as that can be seen.
    is_forwarded: bool,
    /// Whether that proxy was asked over TLS.
    is_tls: bool,
    host: String,
    origin: Option<String>,
    cookies: Vec<String>,
}

impl RequestOrigin {
    pub(super) fn new(peer: Peer, headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default().to_owned());
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        Self {
            peer: peer.0.to_canonical(),
            forwarded: last(headers, FORWARDED_FOR).map(|one| one.chars().take(LOGGED_MAX).collect()),
            is_forwarded: BY_PROXIES.iter().any(|name| headers.contains_key(name)),
            is_tls: last(headers, FORWARDED_PROTO).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
            host: text(HOST).unwrap_or_default(),
            origin: text(ORIGIN),
            cookies: cookies.flat_map(|value| value.split(';')).map(|one| one.trim().to_owned()).collect(),
        }
    }

    pub(super) fn name(&self) -> String {
        let forwarded = self.forwarded.as_ref().map(|one| format!(", which asks for {one}")).unwrap_or_default();
        format!("{}{forwarded}", self.peer)
    }

    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.iter().find_map(|cookie| cookie.strip_prefix(name)?.strip_prefix('='))
    }

    /// Tells whether it asks over the loopback of this machine, for a name that no other machine has.
    fn is_near(&self) -> bool {
        let name = host_name(&self.host);
        let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
        self.peer.is_loopback() && (is_loopback || name.eq_ignore_ascii_case("localhost"))
    }

    /// Refuses what comes by a way on which others may read the token or the cookie.
    pub(super) fn require_way(&self, public: Option<&PublicUrl>) -> Result<(), Refused> {
        let is_near = self.is_near();
        let text = match public {
            _ if is_near && !self.is_forwarded => return Ok(()),
            Some(public) if is_near || public.is_asked_for(&self.host) => {
                if self.is_tls {
                    return Ok(());
                }
                format!(
                    "Operating is done over TLS, at {}{}: its proxy has to say so by `X-Forwarded-Proto: https`.",
                    public.origin(),
                    public.path
                )
            }
            Some(public) => format!(
                "Operating is done at {}{}, or on this machine over its loopback. A proxy has to pass the `Host` on, \
                 and to set `X-Forwarded-Proto`.",
                public.origin(),
                public.path
            ),
            None if is_near => {
                "The request comes by a proxy, whose URL the monitor does not know: --public-url.".to_owned()
            }
            None => "Operating is done on this machine, over its loopback.".to_owned(),
        };
        Err(Refused::forbidden(text))
    }

    /// Refuses what does not come from a page of ours; `is_page` says whether it must come from one at all.
    pub(super) fn require_origin(&self, public: Option<&PublicUrl>, is_page: bool) -> Result<(), Refused> {
        match &self.origin {
            None if !is_page => Ok(()),
            None => Err(Refused::forbidden(
                "The request does not say of which page it comes: it has no `Origin`. Browsers send one; programs \
                 give their orders with the token to api/locks/NAME.",
            )),
            Some(_) if self.is_public(public) => Ok(()),
            Some(origin) if self.is_near() && origin.eq_ignore_ascii_case(&format!("http://{}", self.host)) => Ok(()),
            Some(_) => Err(Refused::forbidden(
                "The request comes from a page of another origin. Behind a proxy the monitor has to know its own: \
                 --public-url.",
            )),
        }
    }

    /// Tells whether it comes from a page at the public URL.
    pub(super) fn is_public(&self, public: Option<&PublicUrl>) -> bool {
        let origin = self.origin.as_deref();
        public.zip(origin).is_some_and(|(public, origin)| origin.eq_ignore_ascii_case(&public.origin()))
    }
}

#[cfg(test)]
mod tests;
