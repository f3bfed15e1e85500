//! Receivers of alerts, as a config file names them: a webhook, a command.

use std::path::PathBuf;

use serde::Deserialize;

const HTTP_PORT: u16 = 80;

const HTTPS_PORT: u16 = 443;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Webhook {
    /// The host, as a name or an address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) format: WebhookFormat,
    /// How it is made sure that it is this host; `None` where it is not.
    pub(crate) security: Option<Security>,
}

/// That a host must show a certificate of an authority that is trusted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Security {
    /// The file of the authorities; without it those of the system.
    ca: Option<PathBuf>,
}

#[cfg(all(feature = "monitor", feature = "tls"))]
impl Security {
    /// Returns what the handshakes need, as services have it.
    pub(crate) fn settings(&self) -> lockkeeper_tls::TlsSettings {
        lockkeeper_tls::TlsSettings::new(self.ca.clone())
    }
}

/// In which form they are posted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WebhookFormat {
    /// As Alertmanager's `POST /api/v2/alerts` takes them: again each minute while they fire.
    #[default]
    Alertmanager,
    /// Once at the beginning and once at the end, with a key that says which is which.
    Plain,
}

impl Webhook {
    /// Reads its URL. `ca` is the file of the authorities that are trusted for it.
    pub(crate) fn parse(url: &str, format: WebhookFormat, ca: Option<PathBuf>) -> Result<Self, String> {
        let refuse = |what: &str| Err(format!("monitor.webhook: `{url}` {what}"));
        let (rest, default_port, security) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(_), _) if ca.is_some() => {
                return Err("monitor.webhook_ca is of no use without a webhook of https://".to_owned());
            }
            (Some(rest), _) => (rest, HTTP_PORT, None),
            (_, Some(_)) if !cfg!(feature = "tls") => {
                return refuse(
                    "needs TLS, and this lockkeeper was built without the feature `tls`; build it with \
                     `--features tls`",
                );
            }
            (_, Some(rest)) => (rest, HTTPS_PORT, Some(Security { ca })),
            (None, None) => {
                return refuse(
                    "is no URL of HTTP; write http://HOST:PORT/PATH, of an Alertmanager near by for example",
                );
            }
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if authority.contains('@') {
            return Err("monitor.webhook: a password in its URL is read by every user who can read the file".to_owned());
        }
        if !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return refuse("has a path that is not percent-encoded");
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => match port.parse() {
                Ok(port) => (host, port),
                Err(_) => return refuse("has no port behind its `:`"),
            },
            _ => (authority, default_port),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte)) {
            return refuse("has no host");
        }
        Ok(Self { host: host.to_owned(), port, path, format, security })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_a_url_of_http_with_a_host() {
        for (url, host, port, path) in [
            ("http://127.0.0.1:9093/api/v2/alerts", "127.0.0.1", 9093, "/api/v2/alerts"),
            ("http://alerts.example", "alerts.example", 80, "/"),
            ("http://[::1]:81/x?y=z", "::1", 81, "/x?y=z"),
            ("http://[::1]", "::1", 80, "/"),
            ("http://h?y=z", "h", 80, "/?y=z"),
        ] {
            let webhook = Webhook::parse(url, WebhookFormat::Plain, None).unwrap();
            assert_eq!((&*webhook.host, webhook.port, &*webhook.path), (host, port, path), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_posted_to_is_refused_with_what_is_wrong() {
        for (url, what) in [
            ("ftp://h/x", "no URL of HTTP"),
            ("h:80", "no URL of HTTP"),
            ("http://", "no host"),
            ("http:///x", "no host"),
            ("http://h:port/", "no port"),
            ("http://h/a b", "percent-encoded"),
            ("http://ann:secret@h/", "a password in its URL"),
        ] {
            let refusal = Webhook::parse(url, WebhookFormat::Plain, None).unwrap_err();
            assert!(refusal.contains(what) && !refusal.contains("secret"), "{url}: {refusal}");
        }
    }

    #[test]
    fn a_webhook_over_tls_needs_its_feature_and_takes_the_authorities_of_a_file() {
        let parse = |url: &str, ca: Option<&str>| Webhook::parse(url, WebhookFormat::Plain, ca.map(Into::into));
        let refusal = parse("http://h/", Some("/etc/ca.pem")).unwrap_err();
        assert!(refusal.contains("webhook_ca"), "{refusal}");
        match (cfg!(feature = "tls"), parse("https://h/x", Some("/etc/ca.pem"))) {
            (true, Ok(Webhook { port: 443, security: Some(Security { ca: Some(ca) }), .. })) => {
                assert_eq!(ca.to_str(), Some("/etc/ca.pem"));
            }
            (false, Err(refusal)) => assert!(refusal.contains("the feature `tls`"), "{refusal}"),
            (_, other) => panic!("{other:?}"),
        }
    }
}
