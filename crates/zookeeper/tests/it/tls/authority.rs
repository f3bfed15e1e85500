//! An authority, and the certificates that it gives out, as files.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// What the servers' certificates are for.
pub(crate) const NAME: &str = "zk.example";

/// Gives out certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Authority of a test");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate and its key, both as PEM.
    fn certify(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.extended_key_usages.push(usage);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }
}

/// The files of one authority, its server and its client.
#[derive(Debug)]
pub(crate) struct Papers {
    folder: TempDir,
    pub(crate) ca: PathBuf,
    pub(crate) server_cert: PathBuf,
    pub(crate) server_key: PathBuf,
    /// Both in one, as Java takes them.
    pub(crate) server_store: PathBuf,
    pub(crate) client_cert: PathBuf,
    pub(crate) client_key: PathBuf,
}

impl Papers {
    /// Makes a new authority and all that it gives out.
    pub(crate) fn draw_up() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("written");
            path
        };
        let authority = Authority::new();
        let (server_cert, server_key) = authority.certify(NAME, ExtendedKeyUsagePurpose::ServerAuth);
        let (client_cert, client_key) = authority.certify("client.example", ExtendedKeyUsagePurpose::ClientAuth);
        Self {
            ca: write("ca.pem", &authority.pem),
            server_cert: write("server.pem", &server_cert),
            server_key: write("server-key.pem", &server_key),
            server_store: write("server-store.pem", &format!("{server_key}{server_cert}")),
            client_cert: write("client.pem", &client_cert),
            client_key: write("client-key.pem", &client_key),
            folder,
        }
    }

    /// Where they are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}
