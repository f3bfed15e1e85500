//! `[server]`: what `lockkeeper server` takes as options, and the super user's password, which no option can give.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::credentials::{refuse_if_public, secret_of};
use super::listen::{Listen, one, one_or_more};
use super::places::Places;
use super::size::Size;
use super::span::Span;
use super::words::Words;
use crate::exit::Failure;

/// The least duration that can be told to clients, which count milliseconds.
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

/// The least `frame_max`, in bytes: a lock's requests, with owner and path, fit into it.
const FRAME_BYTES_MIN: usize = 4_096;

/// The least `memory`, in bytes: each share of it is then enough for some clients with large requests.
const MEMORY_BYTES_MIN: usize = 64 << 20;

const SUPER_PASSWORD_VARIABLE: &str = "LOCKKEEPER_SUPER_PASSWORD";

/// The server's settings, as far as they are given.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ServerSettings {
    pub(crate) listen: Vec<Listen>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) tick: Option<Duration>,
    pub(crate) session_timeout_min: Option<Duration>,
    pub(crate) session_timeout_max: Option<Duration>,
    pub(crate) container_check: Option<Duration>,
    pub(crate) frame_max: Option<Size>,
    pub(crate) memory: Option<Size>,
    pub(crate) tree_max: Option<Size>,
    pub(crate) max_connections_per_ip: Option<usize>,
    pub(crate) words: Option<Words>,
    pub(crate) super_password_file: Option<PathBuf>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_ca: Option<PathBuf>,
    pub(crate) metrics: Option<Listen>,
}

/// The files of a server that speaks TLS; clients must show certificates if there is `ca`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TlsFiles<'a> {
    pub(crate) cert: &'a Path,
    pub(crate) key: &'a Path,
    pub(crate) ca: Option<&'a Path>,
}

/// The table as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerTable {
    #[serde(default, deserialize_with = "one_or_more")]
    listen: Vec<Listen>,
    data_dir: Option<PathBuf>,
    tick: Option<Span>,
    session_timeout_min: Option<Span>,
    session_timeout_max: Option<Span>,
    container_check: Option<Span>,
    frame_max: Option<Size>,
    memory: Option<Size>,
    tree_max: Option<Size>,
    max_connections_per_ip: Option<usize>,
    words: Option<Words>,
    super_password_file: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
    #[serde(default, deserialize_with = "one")]
    metrics: Option<Listen>,
}

impl ServerTable {
    pub(super) fn check(self) -> Result<ServerSettings, String> {
        let duration = |span: Option<Span>| span.map(|span| span.duration);
        let settings = ServerSettings {
            listen: self.listen,
            data_dir: self.data_dir,
            tick: duration(self.tick),
            session_timeout_min: duration(self.session_timeout_min),
            session_timeout_max: duration(self.session_timeout_max),
            container_check: duration(self.container_check),
            frame_max: self.frame_max,
            memory: self.memory,
            tree_max: self.tree_max,
            max_connections_per_ip: self.max_connections_per_ip,
            words: self.words,
            super_password_file: self.super_password_file,
            tls_cert: self.tls_cert,
            tls_key: self.tls_key,
            tls_ca: self.tls_ca,
            metrics: self.metrics,
        };
        for (key, path) in [
            ("data_dir", &settings.data_dir),
            ("super_password_file", &settings.super_password_file),
            ("tls_cert", &settings.tls_cert),
            ("tls_key", &settings.tls_key),
            ("tls_ca", &settings.tls_ca),
        ] {
            if let Some(relative) = path.as_ref().filter(|path| !path.is_absolute()) {
                let path = relative.display();
                return Err(format!(
                    "server.{key}: `{path}` depends on the current directory; write its path from the root"
                ));
            }
        }
        settings.check().map_err(|(option, what)| format!("server.{}: {what}", option.replace('-', "_")))?;
        Ok(settings)
    }
}

impl ServerSettings {
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
    pub(crate) fn tls(&self) -> Result<Option<TlsFiles<'_>>, Failure> {
        let lacks = |given: &str, missing: &str| Err(Failure::ours(format!("--{given} without --{missing}")));
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
    pub(crate) fn super_password(&self) -> Result<Option<String>, Failure> {
        self.super_password_at(&Places::here())
    }

    pub(super) fn super_password_at(&self, places: &Places<'_>) -> Result<Option<String>, Failure> {
        match ((places.variable)(SUPER_PASSWORD_VARIABLE).map(OsString::into_string), &self.super_password_file) {
            (None, None) => Ok(None),
            (None, Some(path)) => secret_of(path, "the super user's password").map(Some),
            (Some(Ok(password)), None) if !password.is_empty() => Ok(Some(password)),
            (Some(Ok(_)), None) => {
                Err(Failure::ours(format!("{SUPER_PASSWORD_VARIABLE} is empty; unset it, or give it a value")))
            }
            (Some(Err(_)), _) => Err(Failure::ours(format!("{SUPER_PASSWORD_VARIABLE} is not UTF-8"))),
            (Some(Ok(_)), Some(path)) => Err(Failure::ours(format!(
                "{SUPER_PASSWORD_VARIABLE} is set, and {} is named as the super user's password; give one of them",
                path.display()
            ))),
        }
    }
}
