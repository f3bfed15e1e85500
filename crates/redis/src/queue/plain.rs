//! Plain locks of other clients, where `layout=setnx` has the first contender of a lock take one: how a view shows the
//! one that has it, how its end is waited for, and how ours is watched.
//!
//! Who takes the plain lock, and when it is given back, the scripts know.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Answers, Contender, ContenderId, ContenderInfo, Mode, Operation, QueueView};
use lockkeeper_session::Failure;
use redis::Value;

use crate::answers::only;
use crate::connection::{Flight, Told, Wake, answer};
use crate::queue::place::{Place, watch_plain_by};
use crate::queue::service::Queues;
use crate::session::{Core, Link};

/// What the identity of another client begins with; that of a contender of ours begins with a digit.
const PREFIX: &str = "plain:";

/// What the scripts write before one in a view.
const MARK: char = '=';

/// How much of another client's value is shown, in bytes: it may be anything.
const LABEL_BYTES_MAX: usize = 200;

/// Another client that has the plain lock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Foreigner {
    pub(super) id: ContenderId,
    /// When its key ends if it does not renew it; `None` if that does not end.
    pub(super) ends_in: Option<Duration>,
}

impl Foreigner {
    /// Reads it as a view has it; `None` if it is none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (left_ms, digest) = text.strip_prefix(MARK)?.split_once(' ')?;
        let ends_in = left_ms.parse().ok().map(Duration::from_millis);
        Some(Self { id: ContenderId::new(format!("{PREFIX}{digest}")), ends_in })
    }

    pub(super) fn contender(&self) -> Contender {
        Contender { id: self.id.clone(), ticket: None, mode: Mode::Mutex }
    }
}

/// Whether this is another client's identity.
pub(super) fn is_foreign(id: &ContenderId) -> bool {
    id.as_str().starts_with(PREFIX)
}

/// Describes another client by what it has written into its key.
pub(super) fn describe(contender: &Contender, value: Value) -> ContenderInfo {
    let mut info = ContenderInfo::new(contender.id.clone(), contender.mode);
    info.answers = Answers::No;
    if let Value::BulkString(bytes) = value {
        let text = String::from_utf8_lossy(&bytes);
        let end = (0..=LABEL_BYTES_MAX.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        info.label = Some(text[..end].to_owned());
    }
    info
}

/// Has a contender's plain lock watched from the view on that was made for it and shows it first: that view took it.
pub(super) fn note_turn(queues: &Arc<Queues>, place: &Arc<Place>, view: &QueueView) {
    let core = &queues.service.core;
    let Some(key) = core.layout.plain(&place.queue) else { return };
    if view.contenders.first().is_some_and(|first| first.id == place.id) {
        watch_plain_by(place, || {
            core.life.runtime.spawn(watch(queues.clone(), place.clone(), key.to_owned())).abort_handle()
        });
    }
}

/// Watches a plain lock that a contender of ours has taken, until it is another's or the contender is gone.
async fn watch(queues: Arc<Queues>, place: Arc<Place>, key: String) {
    let core = &queues.service.core;
    while place.bond.stands() {
        let Some(link) = core.life.next_link().await else { return };
        match read(core, &link, &place, &key).await {
            Ok(Some(told)) => {
                // After the end of a connection it is read over the next one.
                let _: Wake = told.await;
            }
            Ok(None) => queues.found_gone(&place),
            Err(failure) => core.life.pause_after(&link, &failure).await,
        }
    }
}

/// Reads a plain lock; `None` if it is not that of this contender any more.
async fn read(core: &Core, link: &Arc<Link>, place: &Place, key: &str) -> Result<Option<Told>, Failure> {
    let told = link.connection.wait_for(key.as_bytes())?;
    let value = only(core.fly(link, Flight::new().tracked_get(&told), Operation::Wait).await?)?;
    if matches!(&value, Value::ServerError(error) if error.code() == "WRONGTYPE") {
        return Ok(None);
    }
    let ours = core.layout.contender(place.ticket);
    Ok((answer(value, "GET")? == Value::BulkString(ours.into_bytes())).then_some(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_client_is_read_as_views_have_it() {
        let read = |text| Foreigner::read(text).map(|found| (found.id.to_string(), found.ends_in));
        assert_eq!(read("=1500 ab12"), Some(("plain:ab12".to_owned(), Some(Duration::from_millis(1_500)))));
        assert_eq!(read("=-1 ab12"), Some(("plain:ab12".to_owned(), None)));
        assert_eq!(read("00000000000001.000:m:1:-"), None);
        assert!(is_foreign(&ContenderId::new("plain:ab12")) && !is_foreign(&ContenderId::new("0001.000:m:1:-")));
    }

    #[test]
    fn a_long_value_is_cut_and_one_that_is_no_text_is_shown_all_the_same() {
        let contender = Foreigner::read("=1 ab").unwrap().contender();
        let label = |bytes: &[u8]| describe(&contender, Value::BulkString(bytes.to_vec())).label;
        assert_eq!(label("é".repeat(150).as_bytes()).unwrap().len(), LABEL_BYTES_MAX);
        assert_eq!(label(b"\xff").as_deref(), Some("\u{fffd}"));
        assert_eq!(describe(&contender, Value::Nil).label, None);
    }
}
