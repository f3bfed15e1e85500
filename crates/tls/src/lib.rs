//! TLS for backends of Lockkeeper, by rustls: from the keys of a service's URL to a connection that may be believed.
//!
//! - [`TlsSettings`]: what the [`SETTINGS`] of a URL say. No file is opened yet.
//! - [`TlsMaterial`]: what the files hold, checked: authorities, certificate and key. A client library that makes
//!   its own connections takes its configuration from here.
//! - [`Connector`]: makes the handshake over any byte stream, and says why there was none.
//!
//! Which scheme asks for TLS, and what an operator does about a server without it, is left to each backend. So is all
//! that one service has before its handshake.

mod handshake;
mod material;

pub use tokio_rustls::client::TlsStream;
pub use tokio_rustls::rustls;

pub use handshake::{Connector, HandshakeError};
pub use material::{Identity, OurCertificate, SETTINGS, TlsMaterial, TlsSettings};
