//! Files that can and cannot be used, and handshakes with servers that can and cannot be believed.

mod files;
mod handshakes;

use std::path::Path;

use lockkeeper_core::Result;
use lockkeeper_faults::authority::Authority;
use lockkeeper_tls::{TlsMaterial, TlsSettings};

/// What the servers' certificates are for.
const NAME: &str = "service.example";

fn authority() -> Authority {
    Authority::new(NAME).expect("an authority")
}

/// Reads what a URL with these settings names.
fn material(query: &str) -> Result<TlsMaterial> {
    TlsSettings::from_url(&format!("redis+tls://h1?{query}").parse().expect("a URL"))
        .and_then(|settings| settings.read())
}

fn trusting(ca: &Path) -> String {
    format!("ca={}", ca.display())
}

fn identity(cert: &Path, key: &Path) -> String {
    format!("cert={}&key={}", cert.display(), key.display())
}
