//! Tables of settings: which keys the URLs of a service have, what each may be, and what is so without it.
//!
//! A backend reads from its table, so a key without a row is refused; the documentation is the text form of the same
//! table. What a value is for is left to the backend.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::url::{Host, ServiceUrl, invalid, parse_time};

/// What the scheme of a service ends with that speaks TLS.
const TLS_SUFFIX: &str = "+tls";

/// What `sslmode` may be.
const SSLMODES: &[&str] = &["verify-full", "require", "disable"];

/// The settings of one service. Its text form is a table in Markdown.
#[derive(Debug)]
pub struct Settings {
    /// The crate of its backend.
    pub package: &'static str,
    /// The schemes of its URLs; one that ends with `+tls` asks for TLS.
    pub schemes: &'static [&'static str],
    /// The settings that every URL may have.
    pub rows: &'static [Setting],
    /// Those that a URL with TLS has besides; none where TLS is not compiled in.
    pub tls: &'static [Setting],
    /// What the URLs of other clients of the service have.
    pub elsewhere: &'static [Elsewhere],
}

/// A setting of other clients: one URL may be given to several.
#[derive(Debug)]
pub struct Elsewhere {
    key: &'static str,
    /// The values that say what is so here anyway.
    same: &'static [&'static str],
    /// What it is here. Its text goes on after "is".
    here: &'static str,
}

/// One setting: a row of the table.
#[derive(Debug)]
pub struct Setting {
    key: &'static str,
    kind: Kind,
    unset: Unset,
    text: &'static str,
}

/// What a setting may be. Its text form goes on after "it is".
#[derive(Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A length of time, not zero, with its unit.
    Time,
    /// A length of time within a range, and a multiple of the second one.
    TimeWithin(RangeInclusive<Duration>, Duration),
    /// A number within a range.
    Number(RangeInclusive<u32>),
    /// One of some words.
    Word(&'static [&'static str]),
    /// A text: what it is, in words, and whether one is that.
    Text(&'static str, fn(&str) -> bool),
    /// The name of a file.
    File,
}

/// What is so without a setting.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Unset {
    /// The same as with this value.
    Is(&'static str),
    /// What these words say.
    Means(&'static str),
}

/// The values of a table's settings in one URL, with the defaults of those that it leaves out.
#[derive(Debug)]
pub struct Given(BTreeMap<&'static str, SettingValue>);

#[derive(Debug, Default)]
struct SettingValue {
    time: Duration,
    number: u32,
    text: String,
}

impl Settings {
    /// Reads a URL of the service.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`], permanent, for another service's URL, for a key that has no row, with those that
    /// have, and for a value that its row does not allow; [`ErrorKind::Unsupported`] for TLS that is not compiled in.
    pub fn read(&self, url: &ServiceUrl) -> Result<Given> {
        let (scheme, package) = (url.scheme(), self.package);
        if !self.schemes.contains(&scheme) {
            let schemes: Vec<_> = self.schemes.iter().map(|scheme| format!("{scheme}:")).collect();
            return Err(invalid(format!("`{scheme}:` is no URL of `{package}`, which takes {}", either(&schemes))));
        }
        let is_secured = self.is_secured(url);
        if is_secured && self.tls.is_empty() {
            let message = format!("TLS needs the feature `tls` of the crate `lockkeeper`, or of `{package}`");
            return Err(Error::permanent(ErrorKind::Unsupported, Operation::Configure, message));
        }
        let of_tls = self.tls.iter().find(|row| url.query(row.key).is_some());
        if let Some(Setting { key, .. }) = of_tls.filter(|_| !is_secured) {
            let schemes = self.schemes.iter().filter(|scheme| scheme.ends_with(TLS_SUFFIX));
            let schemes: Vec<_> = schemes.map(|scheme| format!("{scheme}:")).collect();
            return Err(invalid(format!("`{key}` is for TLS, which {} asks for", either(&schemes))));
        }
        if is_secured && url.hosts().iter().any(Host::is_socket) {
            return Err(invalid("a Unix socket has no TLS: leave out `+tls` or `sslmode`"));
        }
        let mut known: Vec<_> = self.rows_for(url).map(|row| row.key).collect();
        for Elsewhere { key, same, here } in self.elsewhere {
            match url.query(key) {
                Some(value) if same.contains(&value) => known.push(key),
                Some(_) => return Err(invalid(format!("`{key}` is {here}"))),
                None => {}
            }
        }
        url.refuse_unknown_keys(&known)?;
        Given::of(self.rows, url)
    }

    /// Returns whether a URL says that its servers must speak TLS.
    pub fn is_secured(&self, url: &ServiceUrl) -> bool {
        let sslmode = self.rows.iter().find(|row| row.key == Setting::SSLMODE.key).and_then(|row| url.query(row.key));
        url.scheme().ends_with(TLS_SUFFIX) || matches!(sslmode, Some("verify-full" | "require"))
    }

    /// Returns the settings that a URL may have, each with what is so by it.
    pub fn in_force(&self, url: &ServiceUrl) -> Vec<(&'static str, String)> {
        let value = |row: &'static Setting| match (url.query(row.key), row.unset) {
            (Some(value), _) | (None, Unset::Is(value)) => value.to_owned(),
            (None, Unset::Means(words)) => format!("({words})"),
        };
        self.rows_for(url).map(|row| (row.key, value(row))).collect()
    }

    /// The settings that a URL may have.
    fn rows_for(&self, url: &ServiceUrl) -> impl Iterator<Item = &'static Setting> {
        self.rows.iter().chain(if self.is_secured(url) { self.tls } else { &[] })
    }
}

impl Setting {
    /// How long one attempt to open a session may take.
    pub const CONNECT_TIMEOUT: Self = Self::new("connect_timeout", Kind::Time, Unset::Is("10s"))
        .text("how long one attempt to open a session may take");

    /// How long one request may take.
    pub const OPERATION_TIMEOUT: Self = Self::new("operation_timeout", Kind::Time, Unset::Means("the session timeout"))
        .text("how long one request may take");

    /// Whether servers must speak TLS, where the scheme does not say it. There is no way between: one that encrypts
    /// for any other end protects nothing. So `require`, which drivers know that leave the certificate to others, asks
    /// for no less.
    pub const SSLMODE: Self = Self::new("sslmode", Kind::Word(SSLMODES), Unset::Means("`disable` without `+tls`"))
        .text("`verify-full`, and `require` too: the same as `+tls`; `disable`: no TLS");

    /// A row without its text: what the setting may be, and what is so without it.
    pub const fn new(key: &'static str, kind: Kind, unset: Unset) -> Self {
        Self { key, kind, unset, text: "" }
    }

    /// How long the service keeps a session without hearing from it.
    pub const fn session_timeout(range: RangeInclusive<Duration>, step: Duration) -> Self {
        Self::new("session_timeout", Kind::TimeWithin(range, step), Unset::Is("20s"))
            .text("how long the service keeps a session without hearing from it")
    }

    /// The same row with this text: what the setting is for.
    #[must_use]
    pub const fn text(mut self, text: &'static str) -> Self {
        self.text = text;
        self
    }

    /// Refuses a length of time that the row does not allow.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`], permanent, with what it may be.
    pub fn check_time(&self, time: Duration) -> Result<()> {
        match &self.kind {
            Kind::TimeWithin(range, step)
                if !range.contains(&time) || !time.as_nanos().is_multiple_of(step.as_nanos()) =>
            {
                Err(self.refusal(&shown(time)))
            }
            _ => Ok(()),
        }
    }

    fn read(&self, text: &str) -> Result<SettingValue> {
        let mut value = SettingValue { text: text.to_owned(), ..SettingValue::default() };
        let is_valid = match &self.kind {
            Kind::Time | Kind::TimeWithin(..) => {
                value.time = parse_time(self.key, text)?;
                self.check_time(value.time)?;
                true
            }
            Kind::Number(range) => {
                let number = text.parse();
                value.number = number.as_ref().copied().unwrap_or_default();
                number.is_ok() && range.contains(&value.number)
            }
            Kind::Word(words) => words.contains(&text),
            Kind::Text(_, is_valid) => is_valid(text),
            Kind::File => !text.is_empty(),
        };
        if is_valid { Ok(value) } else { Err(self.refusal(text)) }
    }

    /// That a text is not what the setting may be.
    fn refusal(&self, text: &str) -> Error {
        match &self.kind {
            Kind::File => invalid(format!("`{}` names no file", self.key)),
            kind => invalid(format!("`{}` is {kind}, and not `{}`", self.key, text.escape_debug())),
        }
    }
}

impl Elsewhere {
    /// A setting that is something else here: this, in words that go on after "is".
    pub const fn new(key: &'static str, here: &'static str) -> Self {
        Self { key, same: &[], here }
    }

    /// The same setting, which these values say is as it is here anyway.
    #[must_use]
    pub const fn same(mut self, values: &'static [&'static str]) -> Self {
        self.same = values;
        self
    }
}

impl Given {
    /// Reads some rows of a table; other keys are left to the caller.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`], permanent, for a value that its row does not allow.
    pub fn of(rows: &'static [Setting], url: &ServiceUrl) -> Result<Self> {
        let value = |row: &'static Setting| match (url.query(row.key), row.unset) {
            (Some(text), _) | (None, Unset::Is(text)) => Ok((row.key, row.read(text)?)),
            (None, Unset::Means(_)) => Ok((row.key, SettingValue::default())),
        };
        rows.iter().map(value).collect::<Result<_>>().map(Self)
    }

    /// Returns a length of time; zero if there is none without the setting.
    pub fn time(&self, key: &str) -> Duration {
        self.value(key).time
    }

    /// Returns a number; zero if there is none without the setting.
    pub fn number(&self, key: &str) -> u32 {
        self.value(key).number
    }

    /// Returns a word, a text or the name of a file; empty if there is none without the setting.
    pub fn text(&self, key: &str) -> &str {
        &self.value(key).text
    }

    /// Returns how long one request may take: [`Setting::OPERATION_TIMEOUT`], else the session timeout.
    pub fn operation_timeout(&self) -> Duration {
        let times = ["operation_timeout", "session_timeout"].map(|key| self.time(key));
        if times[0].is_zero() { times[1] } else { times[0] }
    }

    fn value(&self, key: &str) -> &SettingValue {
        self.0.get(key).expect("what is read has a row in the table")
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "| key | value | default | meaning |\n| --- | --- | --- | --- |")?;
        for Setting { key, kind, unset, text } in self.rows.iter().chain(self.tls) {
            match unset {
                Unset::Is(value) => writeln!(formatter, "| `{key}` | {kind} | `{value}` | {text} |")?,
                Unset::Means(words) => writeln!(formatter, "| `{key}` | {kind} | {words} | {text} |")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time => formatter.write_str("a time"),
            Self::TimeWithin(range, step) => {
                let [least, greatest, step] = [*range.start(), *range.end(), *step].map(shown);
                write!(formatter, "a time from `{least}` to `{greatest}`, a multiple of `{step}`")
            }
            Self::Number(range) => write!(formatter, "a number from `{}` to `{}`", range.start(), range.end()),
            Self::Word([word]) => write!(formatter, "`{word}` or left out"),
            Self::Word(words) => formatter.write_str(&either(words)),
            Self::Text(words, _) => formatter.write_str(words),
            Self::File => formatter.write_str("a file"),
        }
    }
}

/// `a`, `b` or `c`
fn either(words: &[impl fmt::Display]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}

/// A length of time as a URL says it, if one number says it.
pub(super) fn shown(time: Duration) -> String {
    const UNITS: [(&str, u128); 4] =
        [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000)];
    let nanos = time.as_nanos();
    match UNITS.into_iter().find(|&(_, unit)| nanos.is_multiple_of(unit)) {
        Some((name, unit)) => format!("{}{name}", nanos / unit),
        None => format!("{time:?}"),
    }
}
