//! Asks a server over its JSON gateway: HTTP/1.0, so that an answer ends with its connection.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time;

use super::setup::{SLOW, Setup};
use super::{Release, Server};
use crate::authority::CertificateFiles;
use crate::wait::ANSWERED_WITHIN;
use crate::{Error, Result};

impl Server {
    /// Starts Debian's server, which stands alone on a free port, and waits until it serves.
    pub async fn standalone() -> Result<Self> {
        Self::started(Setup::default()).await
    }

    /// Starts such a server whose data is on the disk, for measuring.
    pub async fn standalone_on_disk() -> Result<Self> {
        Self::started(Setup { on_disk: true, ..Setup::default() }).await
    }

    /// Starts such a server of a release.
    pub async fn standalone_of(release: Release) -> Result<Self> {
        Self::started(Setup { release, ..Setup::default() }).await
    }

    /// Starts such a server that speaks TLS, and asks clients for their certificates.
    pub async fn over_tls(certificates: CertificateFiles) -> Result<Self> {
        Self::started(Setup { certificates: Some(certificates), ..Setup::default() }).await
    }

    /// Starts such a server that grants no lease of less than eight seconds.
    pub async fn standalone_of_long_leases() -> Result<Self> {
        Self::started(Setup { pace: SLOW, ..Setup::default() }).await
    }

    /// Which etcd it is.
    pub fn release(&self) -> Release {
        self.setup.release
    }

    /// Asks it in JSON: the path of a call, as `/v3/kv/range`, and its request.
    pub async fn ask(address: SocketAddr, path: &str, request: &str) -> Result<String> {
        ask(address, "POST", path, request).await
    }

    /// Asks it as a user who has logged in and was given this token.
    pub async fn ask_as(address: SocketAddr, token: &str, path: &str, request: &str) -> Result<String> {
        ask_with(address, "POST", path, &format!("Authorization: {token}\r\n"), request).await
    }

    /// How many elections its cluster has held, won or not (Raft's term).
    pub async fn term(&self) -> Result<u64> {
        let status = status(self.address()).await?;
        number(&status, "raft_term").ok_or_else(|| Error::new(format!("no term in {status}")))
    }
}

/// How a server sees its cluster.
pub(super) async fn status(address: SocketAddr) -> Result<String> {
    ask(address, "POST", "/v3/maintenance/status", "{}").await
}

/// Makes one request; returns the body of the answer.
pub(super) async fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<String> {
    ask_with(address, method, path, "", body).await
}

async fn ask_with(address: SocketAddr, method: &str, path: &str, header: &str, body: &str) -> Result<String> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.0\r\nHost: etcd\r\n{header}Content-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let what = format!("asking {address} for {path}");
    let answered = time::timeout(ANSWERED_WITHIN, asking).await;
    let answer: String = answered.map_err(|_| Error::new(format!("{what}: no answer")))?.map_err(Error::io(&what))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    if !status.contains(" 200 ") {
        return Err(Error::new(format!("{what}: {status}: {body}")));
    }
    Ok(body.to_owned())
}

/// The number of this name in a JSON text, in which etcd writes numbers of 64 bits as texts.
pub(super) fn number(json: &str, name: &str) -> Option<u64> {
    let (_, rest) = json.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_name() {
        let status = r#"{"header":{"member_id":"12","raft_term":"2"},"version":"3.4.23","leader":"34"}"#;
        assert_eq!(["member_id", "leader", "raft_index"].map(|name| number(status, name)), [Some(12), Some(34), None]);
    }
}
