//! TLS to the servers: what the URL says of it, and connections with it. The feature `tls` turns it on.

mod dial;
mod settings;

pub(crate) use dial::TlsDial;
pub(crate) use settings::{KEYS, TlsSettings};
