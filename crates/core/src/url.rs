//! Service URLs: which service, where, and with which settings.
//!
//! `scheme:[//[user[:password]@]host[:port][,host[:port]…]][path][?key=value[&key=value…]]`. General URL parsers refuse
//! several hosts and rewrite relative paths, so this parser is written for them. The backend defines what a path or a
//! key means.
//!
//! A password may by mistake contain a character that ends the hosts. Then the rest of it looks like a path, and would
//! be shown. So an `@` after the hosts is an error, and errors quote nothing until the URL is known to have none there.

mod builder;
mod hosts;
mod settings;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use hosts::{encode_name, parse_hosts};

use crate::duration::parse_duration_with_unit;
use crate::error::{Error, ErrorKind, Operation, Result};

pub use builder::UrlBuilder;
pub use hosts::{HOSTS_MAX, Host};
pub use settings::{Elsewhere, Given, Kind, Setting, Settings, Unset};

/// The longest URL, in bytes: an ensemble of [`HOSTS_MAX`] with long names fits.
///
/// In the guide: [settings](https://docs.rs/lockkeeper/latest/lockkeeper/guide/settings/index.html).
pub const URL_BYTES_MAX: usize = 8_192;

/// A parsed service URL. Its text form never shows the password.
///
/// With the feature `serde` it is serialized as its text, and parsed when it is deserialized. A URL with a password
/// fails to be serialized: `***` would be read back as the password, and without a password the service would take the
/// user for another one. Keep the URL without it, and add it where the URL is used, by
/// [`with_password`](Self::with_password). In formats that people write, a table of its parts is read too: `service`,
/// which is the scheme, `hosts`, `path`, `user` and `password`; all others are settings, as texts or numbers. A
/// password of a table needs no escapes.
///
/// ```
/// use lockkeeper::ServiceUrl;
///
/// let url: ServiceUrl = "zk://ann:secret@h1:2181,h2/locks?session_timeout=20s".parse()?;
/// assert_eq!(url.scheme(), "zk");
/// assert_eq!(url.hosts().len(), 2);
/// assert_eq!(url.query("session_timeout"), Some("20s"));
/// assert_eq!(url.to_string(), "zk://ann:***@h1:2181,h2/locks?session_timeout=20s");
/// # Ok::<(), lockkeeper::Error>(())
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct ServiceUrl {
    scheme: String,
    user: Option<String>,
    password: Option<String>,
    hosts: Vec<Host>,
    path: String,
    query: Vec<(String, String)>,
}

impl ServiceUrl {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`], permanent, with what is wrong and without the password.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > URL_BYTES_MAX {
            return Err(invalid(format!("the service URL has {} bytes; the limit is {URL_BYTES_MAX}", text.len())));
        }
        if text.chars().any(char::is_control) {
            return Err(invalid("the service URL has a control character"));
        }
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
            return Err(invalid("the service URL does not begin with a scheme, such as `file:`"));
        };
        let (authority, rest) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())),
            None => ("", rest),
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !authority.is_empty() {
            refuse_strays(authority, path, query)?;
        }
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        credentials.map_or(Ok(()), refuse_hosts_in)?;
        let (user, password) =
            match credentials.map(|credentials| credentials.split_once(':').unwrap_or((credentials, ""))) {
                None => (None, None),
                Some((user, "")) => (Some(decode(user)?), None),
                Some((user, password)) => (Some(decode(user)?), Some(decode(password)?)),
            };
        Ok(Self {
            scheme: hosts::our_scheme(&scheme.to_ascii_lowercase()),
            user,
            password,
            hosts: parse_hosts(hosts)?,
            path: decode(path)?,
            query: parse_query(query)?,
        })
    }

    /// Returns the same URL for this user, in place of any other.
    ///
    /// With [`with_password`](Self::with_password), for credentials that are kept apart from the URL; they need no
    /// escapes here.
    ///
    /// ```
    /// use lockkeeper::ServiceUrl;
    ///
    /// let url = ServiceUrl::parse("zk://h1,h2/app")?.with_user("ann").with_password("1234/Sc0tt@h");
    /// assert_eq!(url.to_string(), "zk://ann:***@h1,h2/app");
    /// # Ok::<(), lockkeeper::Error>(())
    /// ```
    #[must_use]
    pub fn with_user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// Returns the same URL with this password, in place of any other.
    #[must_use]
    pub fn with_password(self, password: impl Into<String>) -> Self {
        Self { password: Some(password.into()), ..self }
    }

    /// Makes the URL of a service of this machine: a scheme and a path, without hosts and settings.
    pub fn of_path(scheme: &str, path: &str) -> Self {
        let path = path.to_owned();
        Self { scheme: scheme.to_owned(), user: None, password: None, hosts: Vec::new(), path, query: Vec::new() }
    }

    /// Returns this URL with one more setting, unless it has that setting already.
    ///
    /// ```
    /// use lockkeeper::ServiceUrl;
    ///
    /// let url: ServiceUrl = "zk://h1?session_timeout=20s".parse()?;
    /// let url = url.with_default("session_timeout", "5s").with_default("base", "/locks");
    /// assert_eq!(url.to_string(), "zk://h1?session_timeout=20s&base=/locks");
    /// # Ok::<(), lockkeeper::Error>(())
    /// ```
    #[must_use]
    pub fn with_default(mut self, key: &str, value: &str) -> Self {
        if self.query(key).is_none() {
            self.query.push((key.to_owned(), value.to_owned()));
        }
        self
    }

    /// Returns the scheme, in lower case and as it is called here: `postgres` for `postgresql:` too.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the user, if one was given.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the password, if one was given. Never print it.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Returns the hosts in the order given; empty for services of this machine.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Returns the path, decoded.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the value of a query key, decoded.
    pub fn query(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns the length of time that a query key gives, such as `20s`; it is never zero.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`], permanent, naming the key: it is no length of time with a unit, or zero.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>> {
        self.query(key).map(|text| parse_time(key, text)).transpose()
    }

    /// Refuses a URL with a query key that its service does not know, so that no misspelt setting is ignored.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`], permanent, naming the key and the known ones.
    pub fn refuse_unknown_keys(&self, known: &[&str]) -> Result<()> {
        match self.query.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) if known.is_empty() => {
                Err(invalid(format!("`{}:` takes no settings, and `{key}` was given", self.scheme)))
            }
            Some((key, _)) => {
                let known = known.join("`, `");
                Err(invalid(format!("`{}:` has no setting `{key}`; it has `{known}`", self.scheme)))
            }
        }
    }
}

/// Refuses `ann:one@h1,bob:two@h2` and `h1,ann:one@h2`, of which a host would else be part of a password or a user;
/// quotes nothing.
fn refuse_hosts_in(credentials: &str) -> Result<()> {
    if credentials.contains(['@', ',']) {
        return Err(invalid(
            "the service URL has credentials for a host behind the first: give them once, before the first host, and \
             percent-encode `@` (%40) and `,` (%2C) in them",
        ));
    }
    Ok(())
}

/// That a URL cannot be used, permanently, and why.
pub fn invalid(message: impl Into<String>) -> Error {
    Error::permanent(ErrorKind::InvalidUrl, Operation::Configure, message)
}

/// Reads the length of time that a key gives; it is never zero.
fn parse_time(key: &str, text: &str) -> Result<Duration> {
    match parse_duration_with_unit(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) => Err(invalid(format!("`{key}` is zero"))),
        Err(error) => Err(invalid(format!("`{key}`: {error}"))),
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Refuses characters that stand after the hosts of a URL by mistake, without quoting them: they may be half of a
/// password.
fn refuse_strays(authority: &str, path: &str, query: &str) -> Result<()> {
    if authority.ends_with(':') && path.starts_with("//") {
        return Err(invalid("the service URL has two schemes; it stands once, before the first host"));
    }
    if path.contains('@') || query.contains('@') {
        return Err(invalid(
            "the service URL has an `@` behind its hosts; percent-encode what belongs to a password, a path or a \
             setting (`@` as %40, `/` as %2F, `?` as %3F), or give user and password apart from the URL",
        ));
    }
    if path.contains(',') {
        return Err(invalid(
            "the service URL has a `,` in its path; the path stands once, behind the last host (a `,` in it is \
             written %2C)",
        ));
    }
    Ok(())
}

fn parse_query(query: &str) -> Result<Vec<(String, String)>> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| invalid(format!("`{pair}` is not `key=value`")))?;
        if pairs.iter().any(|(earlier, _)| earlier == key) {
            return Err(invalid(format!("the service URL gives `{key}` twice")));
        }
        pairs.push((key.to_owned(), decode(value)?));
    }
    Ok(pairs)
}

fn decode(text: &str) -> Result<String> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let escaped = || invalid("the service URL has a `%` that does not begin an escape; a plain one is written `%25`");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            // A sign is none of the digits, though the parser of numbers takes one.
            let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(escaped)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| escaped())?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| invalid("the service URL has an escape that is not UTF-8"))
}

/// Escapes what would end a path or a value, or is refused unescaped.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || "%?&".contains(character) {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                encoded.push_str(&format!("%{byte:02X}"));
            }
        } else {
            encoded.push(character);
        }
    }
    encoded
}

impl TryFrom<&str> for ServiceUrl {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<&String> for ServiceUrl {
    type Error = Error;

    fn try_from(text: &String) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<String> for ServiceUrl {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<&Self> for ServiceUrl {
    fn from(url: &Self) -> Self {
        url.clone()
    }
}

impl std::str::FromStr for ServiceUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:", self.scheme)?;
        let has_authority = !self.hosts.is_empty() || self.user.is_some();
        // Without an empty authority, the begin of such a path would be read as hosts.
        if has_authority || self.path.starts_with("//") {
            formatter.write_str("//")?;
            if let Some(user) = &self.user {
                let secret = if self.password.is_some() { ":***" } else { "" };
                write!(formatter, "{}{secret}@", encode_name(user))?;
            }
            for (position, host) in self.hosts.iter().enumerate() {
                let comma = if position == 0 { "" } else { "," };
                write!(formatter, "{comma}{}", host.encoded())?;
            }
        }
        // After hosts these characters are refused unescaped; paths of this machine often contain them.
        let escape = |text: &str, stray: &[(char, &str)]| match has_authority {
            false => encode(text),
            true => stray.iter().fold(encode(text), |text, (mark, escaped)| text.replace(*mark, escaped)),
        };
        formatter.write_str(&escape(&self.path, &[('@', "%40"), (',', "%2C")]))?;
        for (position, (key, value)) in self.query.iter().enumerate() {
            let value = escape(value, &[('@', "%40")]);
            write!(formatter, "{}{key}={value}", if position == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for ServiceUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ServiceUrl({self})")
    }
}
