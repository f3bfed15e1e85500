//! Who is told of alerts, as a config file names them: a webhook, a command.

use serde::Deserialize;

/// The port of HTTP.
const HTTP_PORT: u16 = 80;

/// Where alerts are posted to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Webhook {
    /// The host, as a name or an address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The path, with its query.
    pub(crate) path: String,
    pub(crate) format: WebhookFormat,
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
    /// Reads its URL.
    pub(super) fn parse(url: &str, format: WebhookFormat) -> Result<Self, String> {
        let refuse = |what: &str| Err(format!("monitor.webhook: `{url}` {what}"));
        let Some(rest) = url.strip_prefix("http://") else {
            return refuse("is no URL of HTTP; write http://HOST:PORT/PATH, of an Alertmanager near by for example");
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
            _ => (authority, HTTP_PORT),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte)) {
            return refuse("has no host");
        }
        Ok(Self { host: host.to_owned(), port, path, format })
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
            let webhook = Webhook::parse(url, WebhookFormat::Plain).unwrap();
            assert_eq!((&*webhook.host, webhook.port, &*webhook.path), (host, port, path), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_posted_to_is_refused_with_what_is_wrong() {
        for (url, what) in [
            ("https://h/x", "no URL of HTTP"),
            ("h:80", "no URL of HTTP"),
            ("http://", "no host"),
            ("http:///x", "no host"),
            ("http://h:port/", "no port"),
            ("http://h/a b", "percent-encoded"),
            ("http://ann:secret@h/", "a password in its URL"),
        ] {
            let refusal = Webhook::parse(url, WebhookFormat::Plain).unwrap_err();
            assert!(refusal.contains(what) && !refusal.contains("secret"), "{url}: {refusal}");
        }
    }
}
