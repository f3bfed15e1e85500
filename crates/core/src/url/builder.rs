//! The builder of service URLs: their parts as values, which need no escapes.
//!
//! It refuses what would not be read back as it was given. What a path or a setting may be is left to the service, as
//! for any URL.

use std::fmt::Display;
use std::time::Duration;

use super::hosts::{Host, parse_hosts};
use super::settings::shown;
use super::{ServiceUrl, invalid, is_scheme};
use crate::error::Result;

/// Makes a [`ServiceUrl`] from values; made by [`ServiceUrl::builder`].
///
/// A user and a password are added to the URL, by [`ServiceUrl::with_user`] and [`ServiceUrl::with_password`].
///
/// ```
/// use std::time::Duration;
///
/// use lockkeeper::ServiceUrl;
///
/// let url = ServiceUrl::builder("postgres")
///     .host("db1:5432")
///     .host("db2")
///     .path("/app")
///     .time("session_timeout", Duration::from_secs(20))
///     .setting("commit", "sync")
///     .build()?;
/// assert_eq!(url, ServiceUrl::parse("postgres://db1:5432,db2/app?session_timeout=20s&commit=sync")?);
/// # Ok::<(), lockkeeper::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder is no URL until build()"]
pub struct UrlBuilder {
    /// The URL without its hosts.
    url: ServiceUrl,
    hosts: Vec<String>,
}

impl ServiceUrl {
    /// Begins to make a URL from values, for a service of this scheme: `zk`, or `zk+tls`.
    pub fn builder(scheme: &str) -> UrlBuilder {
        UrlBuilder { url: Self::of_path(scheme, ""), hosts: Vec::new() }
    }
}

impl UrlBuilder {
    /// Adds a host, as a URL has it, with its port or without: `db1:5432`, `[::1]:5432`; or the path of a Unix socket.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Sets the path, which begins with `/` behind hosts: a database, a directory.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.url.path = path.into();
        self
    }

    /// Adds a setting that is a text or a number.
    pub fn setting(mut self, key: &str, value: impl Display) -> Self {
        self.url.query.push((key.to_owned(), value.to_string()));
        self
    }

    /// Adds a setting that is a length of time.
    pub fn time(self, key: &str, time: Duration) -> Self {
        let is_whole = time.subsec_nanos().is_multiple_of(1_000_000);
        let text = if is_whole { shown(time) } else { format!("{}.{:09}s", time.as_secs(), time.subsec_nanos()) };
        self.setting(key, text)
    }

    /// Makes the URL.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`](crate::ErrorKind::InvalidUrl), permanent, for a part that no URL has, as
    /// [`ServiceUrl::parse`] refuses it.
    pub fn build(self) -> Result<ServiceUrl> {
        let Self { mut url, hosts } = self;
        if !is_scheme(&url.scheme) {
            return Err(invalid(format!("`{}` is no scheme, such as `file`", url.scheme.escape_debug())));
        }
        for host in hosts {
            url.hosts.extend(read_host(host)?);
        }
        if !url.hosts.is_empty() && !url.path.is_empty() && !url.path.starts_with('/') {
            return Err(invalid("a path behind hosts begins with `/`"));
        }
        if let Some((key, _)) = url.query.iter().find(|(key, _)| !is_key(key)) {
            return Err(invalid(format!("`{}` is no name of a setting", key.escape_debug())));
        }
        ServiceUrl::parse(&url.to_string())
    }
}

fn read_host(host: String) -> Result<Vec<Host>> {
    // What stands before the `@` may be a password, so nothing is quoted.
    if host.contains('@') {
        return Err(invalid("a host has an `@`; give user and password apart from it"));
    }
    if host.starts_with('/') {
        return Ok(vec![Host { name: host, port: None }]);
    }
    match parse_hosts(&host)? {
        hosts if hosts.is_empty() => Err(invalid("a host is empty")),
        hosts => Ok(hosts),
    }
}

/// Whether a text ends where the name of a setting does.
fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorKind;

    proptest! {
        #[test]
        fn whatever_is_given_is_what_the_url_has(
            hosts in proptest::collection::vec("[a-z0-9.-]{1,9}|/[ -~]{0,9}", 0..4), path in "/\\PC{0,9}",
            value in any::<String>(), nanos in prop_oneof![1..5_000_000_u64, 1..u64::MAX],
        ) {
            let builder = hosts.iter().fold(ServiceUrl::builder("zk"), |builder, host| match host.contains('@') {
                true => builder,
                false => builder.host(host),
            });
            let time = Duration::from_nanos(nanos);
            let url = builder.path(&path).setting("base", &value).time("tick", time).setting("n", 7).build().unwrap();
            let names: Vec<_> = url.hosts().iter().map(|host| host.name.as_str()).collect();
            let given: Vec<_> = hosts.iter().filter(|host| !host.contains('@')).map(String::as_str).collect();
            prop_assert_eq!((names, url.path()), (given, path.as_str()));
            prop_assert_eq!((url.query("base"), url.query("n")), (Some(value.as_str()), Some("7")));
            prop_assert_eq!(url.duration("tick").unwrap(), Some(time));
        }
    }

    #[test]
    fn what_a_url_cannot_have_is_refused_and_a_password_is_not_quoted() {
        let zk = || ServiceUrl::builder("zk").host("h1");
        for (builder, word) in [
            (ServiceUrl::builder(""), "scheme"),
            (ServiceUrl::builder("zk:x"), "`zk:x`"),
            (zk().host(""), "empty"),
            (zk().host("ann:1234@h2"), "`@`"),
            (zk().host("h2;h3"), "`;`"),
            (zk().host("h2:port"), "`h2:port`"),
            (zk().host("::1"), "brackets"),
            (zk().host("/run/a\nb"), "host"),
            (zk().path("app"), "`/`"),
            (zk().setting("", 1), "``"),
            (zk().setting("a&b", 1), "`a&b`"),
            (zk().setting("a=b", 1), "`a=b`"),
            (zk().setting("base", 1).setting("base", 2), "twice"),
            (zk().path(format!("/{}", "x".repeat(super::super::URL_BYTES_MAX))), "limit"),
        ] {
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidUrl);
            assert!(error.to_string().contains(word) && !error.to_string().contains("1234"), "{word}: {error}");
        }
    }
}
