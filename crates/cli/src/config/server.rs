//! `[server]`: what `lockkeeper server` takes as options, and the super user's password, which no option can give.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use lockkeeper_console::config::{Listen, duration, one, one_or_more, text_or_number};
use lockkeeper_zk_server::Word;
use serde::{Deserialize, Deserializer, de};

use super::credentials::{refuse_if_public, secret_of};
use super::places::ConfigPlaces;
use crate::exit::CommandFailure;

/// The least duration that can be told to clients, which count milliseconds.
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

/// The least `frame_max`, in bytes: a lock's requests, with owner and path, fit into it.
const FRAME_BYTES_MIN: usize = 4_096;

/// The least `memory`, in bytes: each share of it is then enough for some clients with large requests.
const MEMORY_BYTES_MIN: usize = 64 << 20;

const SUPER_PASSWORD_VARIABLE: &str = "LOCKKEEPER_SUPER_PASSWORD";

/// Run a ZooKeeper server for this machine
#[derive(Args, Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
#[command(after_help = "\
Examples:
  lockkeeper server --data-dir /srv/zookeeper
  lockkeeper server --listen localhost:2181 --listen 10.0.0.5:2181 --data-dir /srv/zookeeper

It speaks ZooKeeper's client protocol, for Lockkeeper, Curator, kazoo and others, on one machine; for more than one \
machine, run Apache ZooKeeper. TERM stops it in order.

Options that are not given are taken from [server] in the config file, where they have the same names with _ for -. \
LOCKKEEPER_SUPER_PASSWORD, or the file of --super-password-file, has the password of the user `super`, who may do \
everything; without it there is no such user.")]
pub(crate) struct ServerSettings {
    /// Where to listen, as in 127.0.0.1:2181, which is the default, localhost:2181 or 2181; may be given several times;
    /// port 0 is any free one
    #[arg(long, value_name = "ADDR", value_parser = Listen::parse)]
    #[serde(deserialize_with = "one_or_more")]
    pub(crate) listen: Vec<Listen>,
    /// Where to keep the data; without it, in memory until the end
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// In which steps sessions expire, by default 2s, as in 500ms
    #[arg(long, value_name = "DUR", value_parser = lockkeeper::parse_duration)]
    #[serde(deserialize_with = "duration")]
    pub(crate) tick: Option<Duration>,
    /// The shortest session timeout that is granted, by default 2 ticks; a client that asks for less gets this
    #[arg(long, value_name = "DUR", value_parser = lockkeeper::parse_duration)]
    #[serde(deserialize_with = "duration")]
    pub(crate) session_timeout_min: Option<Duration>,
    /// The longest session timeout that is granted, by default 20 ticks: so long may a dead client hold a lock
    #[arg(long, value_name = "DUR", value_parser = lockkeeper::parse_duration)]
    #[serde(deserialize_with = "duration")]
    pub(crate) session_timeout_max: Option<Duration>,
    /// How often empty containers and nodes whose time to live is over are looked for and removed, by default 1m
    #[arg(long, value_name = "DUR", value_parser = lockkeeper::parse_duration)]
    #[serde(deserialize_with = "duration")]
    pub(crate) container_check: Option<Duration>,
    /// The largest request, by default 1MiB; a connection that sends a larger one is closed
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    pub(crate) frame_max: Option<Size>,
    /// How much memory the server may take, by default 2GiB: all limits on nodes, watches, sessions, connections,
    /// requests and answers that are not read follow from it
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    pub(crate) memory: Option<Size>,
    /// How much of it nodes and their data may take, by default half; what would exceed it is refused as a quota is
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    pub(crate) tree_max: Option<Size>,
    /// How many connections one address may have, by default 60; further ones are closed at once; 0 is no limit
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_connections_per_ip: Option<usize>,
    /// Which four-letter words are answered, by default srvr,ruok,mntr,stat,isro; * is all of them
    #[arg(long, value_name = "LIST", value_parser = Words::parse)]
    pub(crate) words: Option<Words>,
    /// A file with the password of the user `super`, which no other user may read
    #[arg(long, value_name = "FILE")]
    pub(crate) super_password_file: Option<PathBuf>,
    /// The server's certificate, followed by its chain, in PEM form: with it, clients are served over TLS only
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of that certificate, without a password, in PEM form, which no other user may read
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The authorities in PEM form that clients' certificates must be of; without it, clients need none
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Where to serve metrics to Prometheus, by HTTP at /metrics, as in 127.0.0.1:9141 or 9141
    #[arg(long, value_name = "ADDR", value_parser = Listen::parse)]
    #[serde(deserialize_with = "one")]
    pub(crate) metrics: Option<Listen>,
}

/// The files of a server that speaks TLS; clients must show certificates if there is `ca`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TlsFiles<'a> {
    pub(crate) cert: &'a Path,
    pub(crate) key: &'a Path,
    pub(crate) ca: Option<&'a Path>,
}

impl ServerSettings {
    /// Refuses what cannot be in a config file.
    pub(super) fn of_file(self) -> Result<Self, String> {
        for (key, path) in [
            ("data_dir", &self.data_dir),
            ("super_password_file", &self.super_password_file),
            ("tls_cert", &self.tls_cert),
            ("tls_key", &self.tls_key),
            ("tls_ca", &self.tls_ca),
        ] {
            if let Some(relative) = path.as_ref().filter(|path| !path.is_absolute()) {
                let path = relative.display();
                return Err(format!(
                    "server.{key}: `{path}` depends on the current directory; write its path from the root"
                ));
            }
        }
        self.check().map_err(|(option, what)| format!("server.{}: {what}", option.replace('-', "_")))?;
        Ok(self)
    }

    /// These settings, and the others' where these say nothing.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            listen: if self.listen.is_empty() { others.listen } else { self.listen },
            data_dir: self.data_dir.or(others.data_dir),
            tick: self.tick.or(others.tick),
            session_timeout_min: self.session_timeout_min.or(others.session_timeout_min),
            session_timeout_max: self.session_timeout_max.or(others.session_timeout_max),
            container_check: self.container_check.or(others.container_check),
            frame_max: self.frame_max.or(others.frame_max),
            memory: self.memory.or(others.memory),
            tree_max: self.tree_max.or(others.tree_max),
            max_connections_per_ip: self.max_connections_per_ip.or(others.max_connections_per_ip),
            words: self.words.or(others.words),
            super_password_file: self.super_password_file.or(others.super_password_file),
            tls_cert: self.tls_cert.or(others.tls_cert),
            tls_key: self.tls_key.or(others.tls_key),
            tls_ca: self.tls_ca.or(others.tls_ca),
            metrics: self.metrics.or(others.metrics),
        }
    }

    /// Refuses what cannot be; the name of the option, and what is wrong with it.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        for (option, given) in [
            ("tick", self.tick),
            ("session-timeout-min", self.session_timeout_min),
            ("session-timeout-max", self.session_timeout_max),
            ("container-check", self.container_check),
        ] {
            if given.is_some_and(|given| given < MILLISECOND) {
                return Err((option, "it has to be a millisecond at least".to_owned()));
            }
        }
        if let (Some(least), Some(greatest)) = (self.session_timeout_min, self.session_timeout_max)
            && least > greatest
        {
            return Err(("session-timeout-min", format!("{least:?} is more than the greatest, {greatest:?}")));
        }
        if self.frame_max.is_some_and(|size| size.bytes < FRAME_BYTES_MIN) {
            return Err(("frame-max", format!("it has to be {FRAME_BYTES_MIN} bytes at least")));
        }
        if self.memory.is_some_and(|size| size.bytes < MEMORY_BYTES_MIN) {
            return Err(("memory", "it has to be 64MiB at least".to_owned()));
        }
        Ok(())
    }

    /// The files of TLS, if they are given: a certificate and its key, which may come from different places.
    pub(crate) fn tls(&self) -> Result<Option<TlsFiles<'_>>, CommandFailure> {
        let lacks = |given: &str, missing: &str| Err(CommandFailure::ours(format!("--{given} without --{missing}")));
        match (self.tls_cert.as_deref(), self.tls_key.as_deref(), self.tls_ca.as_deref()) {
            (None, None, None) => Ok(None),
            (Some(cert), Some(key), ca) => {
                refuse_if_public(key, "the TLS key")?;
                Ok(Some(TlsFiles { cert, key, ca }))
            }
            (Some(_), None, _) => lacks("tls-cert", "tls-key: a certificate is of no use without its key"),
            (None, Some(_), _) => lacks("tls-key", "tls-cert: a key is of no use without its certificate"),
            (None, None, Some(_)) => lacks("tls-ca", "tls-cert and --tls-key: clients have to be served over TLS"),
        }
    }

    /// The super user's password, if one is given: from the environment, or the file that is named.
    pub(crate) fn super_password(&self) -> Result<Option<String>, CommandFailure> {
        self.super_password_at(&ConfigPlaces::here())
    }

    pub(super) fn super_password_at(&self, places: &ConfigPlaces<'_>) -> Result<Option<String>, CommandFailure> {
        match (places.text(SUPER_PASSWORD_VARIABLE)?, &self.super_password_file) {
            (password, None) => Ok(password),
            (None, Some(path)) => secret_of(path, "the super user's password").map(Some),
            (Some(_), Some(path)) => Err(CommandFailure::ours(format!(
                "{SUPER_PASSWORD_VARIABLE} is set, and {} is named as the super user's password; give one of them",
                path.display()
            ))),
        }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Words(pub(crate) Vec<Word>);

impl Words {
    /// Those that tell nothing of paths and sessions, and are short however much there is.
    pub(crate) const DEFAULT: [Word; 5] = [Word::Srvr, Word::Ruok, Word::Mntr, Word::Stat, Word::Isro];

    /// Reads words with commas between them; `*` is all of them, and an empty text none.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Ok(Self(Vec::new())),
            "*" => Ok(Self(Word::ALL.to_vec())),
            _ => text.split(',').map(|word| parse_one(word.trim())).collect::<Result<_, _>>().map(Self),
        }
    }
}

fn parse_one(word: &str) -> Result<Word, String> {
    word.parse().map_err(|error| format!("`{word}` is {error}; write them as ruok,mntr, or * for all"))
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// The units, and how many bytes each is; letters may be small or capital, and `iB` or `B` may be left out.
const UNITS: [(char, usize); 3] = [('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30)];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Size {
    pub(crate) bytes: usize,
}

impl Size {
    /// Reads `4096`, `64KiB`, `512M` or `2g`; all units are powers of 1,024.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let refusal = || format!("`{text}` is not a size, such as 64KiB, 512M, 2G or plain bytes");
        let digits_end = text.find(|mark: char| !mark.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(digits_end);
        let number: usize = digits.parse().map_err(|_| refusal())?;
        let unit = unit.trim_start().to_ascii_lowercase();
        let mut letters = unit.chars();
        let factor = match letters.next() {
            None => Some(1),
            Some('b') if letters.as_str().is_empty() => Some(1),
            Some(first) if matches!(letters.as_str(), "" | "b" | "ib") => {
                UNITS.iter().find(|(letter, _)| *letter == first).map(|(_, factor)| *factor)
            }
            Some(_) => None,
        };
        let bytes = factor.ok_or_else(refusal)?.checked_mul(number);
        bytes.map(|bytes| Self { bytes }).ok_or_else(|| format!("`{text}` is more than this machine can count"))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_number(deserializer, "a size, such as \"64KiB\", \"512M\" or a number of bytes", Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_with_commas_between_them() {
        assert_eq!(Words::parse("ruok, mntr"), Ok(Words(vec![Word::Ruok, Word::Mntr])));
        assert_eq!(Words::parse("*"), Ok(Words(Word::ALL.to_vec())));
        assert_eq!(Words::parse(""), Ok(Words(Vec::new())));
        for wrong in ["conf", "ruok,", "RUOK", "ruok mntr"] {
            let refusal = Words::parse(wrong).unwrap_err();
            assert!(refusal.contains("not one of ruok, srvr"), "{refusal}");
        }
    }

    #[test]
    fn a_size_is_a_number_with_a_unit_or_plain_bytes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4_096),
            ("64KiB", 65_536),
            ("512M", 512 << 20),
            ("2g", 2 << 30),
            ("1 kb", 1_024),
            ("7B", 7),
        ] {
            assert_eq!(Size::parse(text), Ok(Size { bytes }), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_what_to_write() {
        for text in ["", "M", "1.5G", "-1", "10T", "10 MB/s", "1kib2", "ten"] {
            let refusal = Size::parse(text).expect_err(text);
            assert!(refusal.contains("such as 64KiB"), "{text}: {refusal}");
        }
        assert!(Size::parse("99999999999999999G").is_err(), "it does not fit");
    }
}
