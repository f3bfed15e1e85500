//! An authority that gives out certificates, for servers and clients that speak TLS.

use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};

use crate::scratch::Scratch;
use crate::{Error, Result};

/// The name in the client's certificate.
const CLIENT: &str = "client.example";

/// What a server shows to its clients, and what they must show to it: files in PEM form.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The server's certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority that vouches for clients.
    pub ca: PathBuf,
}

/// An authority, and what it has given out to one server and to one client: files in PEM form.
#[derive(Debug)]
pub struct Authority {
    folder: Scratch,
}

impl Authority {
    /// Makes one; the server's certificate is for this name.
    pub fn new(server: &str) -> Result<Self> {
        let this = Self { folder: Scratch::new()? };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new([]).map_err(failed)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Authority of a test");
        this.write("ca", &params.self_signed(&key).map_err(failed)?.pem())?;
        this.write("ca-key", &key.serialize_pem())?;
        let issuer = Issuer::new(params, key);
        for (owner, name) in [("server", server), ("client", CLIENT)] {
            let key = KeyPair::generate().map_err(failed)?;
            let mut params = CertificateParams::new([name.to_owned()]).map_err(failed)?;
            let usages = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            params.extended_key_usages.extend(usages);
            params.distinguished_name.push(DnType::CommonName, name);
            this.write(owner, &params.signed_by(&key, &issuer).map_err(failed)?.pem())?;
            if owner == "server" {
                (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(2001, 1, 1));
                this.write("expired", &params.signed_by(&key, &issuer).map_err(failed)?.pem())?;
            }
            this.write(&format!("{owner}-key"), &key.serialize_pem())?;
        }
        Ok(this)
    }

    /// What the server shows to its clients, and asks them for.
    pub fn server_certificate_files(&self) -> CertificateFiles {
        CertificateFiles { cert: self.file("server"), key: self.file("server-key"), ca: self.file("ca") }
    }

    /// One of the files: `ca`, `ca-key`, `client`, `client-key`, or `expired`, which is the server's of another time.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.pem"))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let file = self.file(name);
        fs::write(&file, text).map_err(Error::io(file.display()))
    }
}

fn failed(error: rcgen::Error) -> Error {
    Error::new(format!("a certificate: {error}"))
}
