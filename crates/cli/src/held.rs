//! The locks that this process runs under. They show a nested `run` of the same lock that it would wait for itself.
//!
//! The innermost lock's name alone would not do: the lock may lie further out, or in another service. So `run` hands
//! its command the whole list, each with the socket of its runner. A lock whose runner is gone is not held any more,
//! and a process that it left in the background may take it again.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use lockkeeper::backend::Ticket;
use lockkeeper::{KeeperBuilder, ServiceUrl};
use serde::{Deserialize, Serialize};

use crate::exit::CommandFailure;
use crate::run::hold_socket::{self, HoldAnswer};

/// The variable that holds the list, as JSON.
const VARIABLE: &str = "LOCKKEEPER_HELD";

/// One lock that is held around this process.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct EnclosingLock {
    /// The service, without secrets.
    pub(crate) service: String,
    pub(crate) name: String,
    /// Where its runner answers.
    pub(crate) hold: String,
    /// The ticket of its contender; absent in the lists of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ticket: Option<String>,
    /// The directory of a service of files: a different spelling of its path is the same directory, and a directory
    /// that has replaced it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<DirectoryId>,
}

/// A directory, by its device and inode.
type DirectoryId = (u64, u64);

impl EnclosingLock {
    /// Notes a lock that is held: its service, its name, where its runner answers, and its contender's ticket.
    pub(crate) fn new(service: String, name: String, hold: String, ticket: Ticket) -> Self {
        let directory = directory_of(&service);
        Self { service, name, hold, ticket: Some(ticket.to_string()), directory }
    }

    fn is_in(&self, service: &str) -> bool {
        match (self.directory, directory_of(service)) {
            (Some(held), Some(wanted)) => held == wanted,
            _ => self.service == service,
        }
    }
}

fn directory_of(service: &str) -> Option<DirectoryId> {
    let url = ServiceUrl::parse(service).ok().filter(|url| url.scheme() == "file")?;
    let metadata = fs::metadata(url.path()).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// All of them, the outermost first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct HeldLocks(Vec<EnclosingLock>);

impl HeldLocks {
    /// Reads this process's list. One that cannot be read is not ours and counts as empty.
    pub(crate) fn around_us() -> Self {
        std::env::var(VARIABLE).map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_default())
    }

    /// Refuses to wait for a lock of any kind that is held around us until we end.
    ///
    /// A share or a permit might be free beside the one that is held, but not behind a writer that waits for the first
    /// one, or when processes like ours hold all permits.
    pub(crate) fn refuse(&self, service: &str, name: &str) -> Result<(), CommandFailure> {
        let is_held = |held: &&EnclosingLock| held.name == name && held.is_in(service) && is_still_held(held);
        match self.0.iter().find(is_held) {
            None => Ok(()),
            Some(_) => Err(CommandFailure::ours(format!(
                "{name} ({service}) is held by the `lockkeeper run` that this one runs under; it could wait for itself \
                 without end"
            ))),
        }
    }

    /// Says that what this keeper asks for is nested in the innermost of them.
    pub(crate) fn nest(&self, keeper: KeeperBuilder) -> KeeperBuilder {
        match self.innermost() {
            Some(enclosing) => keeper.within(enclosing),
            None => keeper,
        }
    }

    fn innermost(&self) -> Option<Ticket> {
        Ticket::parse(self.0.last()?.ticket.as_deref()?)
    }

    /// Returns the variable for a command that runs under one more lock.
    pub(crate) fn variable_with(mut self, held: EnclosingLock) -> (OsString, OsString) {
        self.0.push(held);
        let text = serde_json::to_string(&self.0).expect("texts can be written as JSON");
        (VARIABLE.into(), text.into())
    }
}

/// One that cannot be asked, such as another user's or one that is stopped, still holds it.
fn is_still_held(held: &EnclosingLock) -> bool {
    match ask(&held.hold) {
        Ok(answer) => answer.is_some_and(|answer| answer.held),
        Err(_) => true,
    }
}

/// Asks the runner whose socket is at `address`; `None` if it is gone, and its hold with it.
pub(crate) fn ask(address: &str) -> io::Result<Option<HoldAnswer>> {
    let is_broken_off = |kind| matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof);
    let answered = match hold_socket::ask(address) {
        // It went away while it was asked. No other socket has its name: the next attempt is refused.
        Err(error) if is_broken_off(error.kind()) => hold_socket::ask(address),
        answered => answered,
    };
    match answered {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::hold_socket::HoldSocket;

    fn held(service: &str, name: &str, hold: &str) -> EnclosingLock {
        EnclosingLock::new(service.to_owned(), name.to_owned(), hold.to_owned(), Ticket::from_bits(7))
    }

    #[test]
    fn the_list_grows_with_each_lock_and_is_read_back() {
        let (_, text) = HeldLocks::default().variable_with(held("file:/a", "x", "@1"));
        let (name, text) = HeldLocks::parse(text.to_str().unwrap()).variable_with(held("file:/b", "y \"é\"", "@2"));
        assert_eq!(name, "LOCKKEEPER_HELD");
        let expected = vec![held("file:/a", "x", "@1"), held("file:/b", "y \"é\"", "@2")];
        assert_eq!(HeldLocks::parse(text.to_str().unwrap()).0, expected);
        assert_eq!(HeldLocks::parse(text.to_str().unwrap()).innermost(), Some(Ticket::from_bits(7)));
        for (ticket, hidden) in [("", "as before there were tickets"), (r#","ticket":"x""#, "no ticket")] {
            let earlier = format!(r#"[{{"service":"a","name":"b","hold":"@1"{ticket}}}]"#);
            assert_eq!(HeldLocks::parse(&earlier).0.len(), 1, "{hidden}");
            assert_eq!(HeldLocks::parse(&earlier).innermost(), None, "{hidden}");
        }
        for strange in ["", "x", "{}", "[1]", "[{\"service\":\"a\"}]"] {
            assert_eq!(HeldLocks::parse(strange), HeldLocks::default(), "{strange}");
        }
    }

    #[test]
    fn a_directory_is_known_by_its_identity_and_not_by_its_name() {
        let place = tempfile::tempdir().unwrap();
        let (locks, link) = (place.path().join("a"), place.path().join("b"));
        fs::create_dir(&locks).unwrap();
        std::os::unix::fs::symlink(&locks, &link).unwrap();
        let service = |path: &std::path::Path| format!("file:{}", path.display());
        let lock = held(&service(&locks), "x", "@1");
        assert!(lock.is_in(&service(&locks)) && lock.is_in(&service(&link)));
        assert!(!lock.is_in(&service(place.path())));
        fs::rename(&locks, place.path().join("c")).unwrap();
        fs::create_dir(&locks).unwrap();
        assert!(!lock.is_in(&service(&locks)), "another directory has come in its place");
        assert!(lock.is_in(&service(&place.path().join("c"))));
    }

    #[tokio::test]
    async fn a_lock_is_refused_while_its_runner_holds_it_and_in_that_service_only() {
        let socket = HoldSocket::bind().unwrap();
        let address = socket.address().into_string().unwrap();
        let (_, text) = HeldLocks::default().variable_with(held("file:/a", "x", &address));
        let locks = HeldLocks::parse(text.to_str().unwrap());
        let is_held = std::cell::Cell::new(true);
        let answer = || HoldAnswer { held: is_held.replace(false), safe_for_ms: None, token: "1".to_owned() };
        let asking = tokio::task::spawn_blocking({
            let locks = locks.clone();
            move || {
                assert!(locks.refuse("file:/b", "x").is_ok());
                assert!(locks.refuse("file:/a", "X").is_ok());
                let failure = locks.refuse("file:/a", "x").unwrap_err();
                assert_eq!(failure.code, 125);
                assert!(failure.message.contains("itself"), "{}", failure.message);
                assert!(locks.refuse("file:/a", "x").is_ok(), "its runner said that it is not held any more");
            }
        });
        tokio::select! {
            _ = socket.serve(answer) => unreachable!("it serves without end"),
            asked = asking => asked.unwrap(),
        }
        assert!(locks.refuse("file:/a", "x").is_ok(), "its runner is gone");
    }
}
