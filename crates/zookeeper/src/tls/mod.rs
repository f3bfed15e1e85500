//! TLS to the servers: the settings in the URL, and connections that use it. The feature `tls` turns it on.

mod dial;
mod settings;

pub(crate) use dial::TlsDial;
pub(crate) use settings::{KEYS, TlsSettings};
