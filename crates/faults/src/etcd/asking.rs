//! Asks a server over its JSON gateway: HTTP/1.0, so that an answer ends with its connection.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time;

use crate::wait::ANSWERED_WITHIN;
use crate::{Error, Result};

/// Makes one request; returns the body of the answer.
///
/// # Errors
///
/// There was no answer in time, or it is not `200 OK`.
pub(super) async fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<String> {
    ask_with(address, method, path, "", body).await
}

/// Makes one request of a user who has logged in; returns the body of the answer.
///
/// # Errors
///
/// As [`ask`].
pub(super) async fn ask_as(address: SocketAddr, token: &str, path: &str, body: &str) -> Result<String> {
    ask_with(address, "POST", path, &format!("Authorization: {token}\r\n"), body).await
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
