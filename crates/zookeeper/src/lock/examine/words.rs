//! The word of the URL's servers on themselves, each asked separately by four-letter words: a server answers a word on
//! a new connection, before any session, and closes it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{Failure, Finder, Names, Order, Server, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::dial::Dial;

/// How long a server may take to answer a word. It needs no quorum for that.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// The most that is read of an answer, in bytes: those to `srvr` and `conf` have less than a tenth of it.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

/// What a server says of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Said {
    /// It cannot be reached: the server, and why.
    Unreachable(String),
    /// It serves no sessions now, since it has no quorum.
    NotServing,
    /// It answers no words, or none that is understood.
    Nothing,
    /// How it is.
    Itself(Report),
}

/// How a server is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Report {
    /// As in `3.8.0`.
    pub(super) version: String,
    /// `standalone`, `leader`, `follower`, `observer`.
    pub(super) mode: String,
    /// If it answers `conf`.
    pub(super) tick: Option<Duration>,
}

/// Asks one server, at the first of its addresses that answers.
pub(super) async fn ask(dial: &Arc<dyn Dial>, clock: &Arc<dyn Clock>, server: &Server) -> Said {
    let resolving = dial.clone();
    let names = Names::resolved_by(move |server| resolving.resolve(server));
    let mut finder = Finder::new(&names, vec![server.clone()], Order::Listed, clock.clone());
    let asking = |way: Server, attempt_ends| async move {
        match asked(dial, clock, &way, "srvr", attempt_ends).await {
            Ok(answer) => Ok((way, answer)),
            // It accepted the connection, and closed it at the word.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok((way, String::new())),
            Err(error) => Err(Failure::of_io(&error)),
        }
    };
    let (way, answer) = match finder.round(clock.now().saturating_add(ANSWERED_WITHIN), asking).await {
        Ok(answered) => answered,
        Err(failure) => return Said::Unreachable(failure.to_string()),
    };
    match read_srvr(&answer) {
        Said::Itself(report) => {
            let conf = asked(dial, clock, &way, "conf", clock.now().saturating_add(ANSWERED_WITHIN)).await;
            Said::Itself(Report { tick: conf.ok().and_then(|conf| read_tick(&conf)), ..report })
        }
        other => other,
    }
}

async fn asked(
    dial: &Arc<dyn Dial>,
    clock: &Arc<dyn Clock>,
    way: &Server,
    word: &str,
    deadline: BootInstant,
) -> io::Result<String> {
    let asking = async {
        let mut stream = dial.dial(way).await?;
        stream.write_all(word.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    within(clock, deadline.saturating_duration_since(clock.now()), "there was no answer", asking).await
}

/// Reads an answer to `srvr`.
fn read_srvr(answer: &str) -> Said {
    if answer.contains("not currently serving requests") {
        return Said::NotServing;
    }
    let after = |start: &str| answer.lines().find_map(|line| line.strip_prefix(start)).map(str::trim);
    match (after("Zookeeper version:"), after("Mode:")) {
        (Some(version), Some(mode)) => {
            let version = version.split([',', '-', ' ']).next().unwrap_or_default().to_owned();
            Said::Itself(Report { version, mode: mode.to_owned(), tick: None })
        }
        _ => Said::Nothing,
    }
}

/// Reads the tick from an answer to `conf`.
fn read_tick(answer: &str) -> Option<Duration> {
    let tick_ms = answer.lines().find_map(|line| line.strip_prefix("tickTime="))?;
    tick_ms.trim().parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_mode_and_tick_are_read_from_the_answers() {
        let srvr = "Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25\n\
                    Latency min/avg/max: 0/0.0/0\nMode: follower\nNode count: 5\n";
        let report = Report { version: "3.8.0".to_owned(), mode: "follower".to_owned(), tick: None };
        assert_eq!(read_srvr(srvr), Said::Itself(report));
        assert_eq!(read_tick("clientPort=2181\ntickTime=2000\nmaxClientCnxns=60\n"), Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_server_that_does_not_serve_and_one_that_answers_no_words_are_told_apart() {
        assert_eq!(read_srvr("This ZooKeeper instance is not currently serving requests\n"), Said::NotServing);
        for answer in ["", "srvr is not executed because it is not in the whitelist.\n", "HTTP/1.1 400\r\n", "Mode:"] {
            assert_eq!(read_srvr(answer), Said::Nothing, "{answer}");
        }
        assert_eq!(read_tick("conf is not executed because it is not in the whitelist.\n"), None);
        assert_eq!(read_tick("tickTime=soon"), None);
    }
}
