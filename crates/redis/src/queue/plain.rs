//! Plain locks of other clients, where `layout=setnx` has the first contender of a lock take one: how a view shows the
//! one that has it, how its end is waited for, and how ours is watched.
//!
//! Who takes the plain lock, and when it is given back, the scripts know.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Answers, Contender, ContenderId, ContenderInfo, Mode, QueueView};
use lockkeeper_session::{Failure, shortened};
use redis::Value;

use crate::connection::answer;
use crate::queue::guard::watch;
use crate::queue::place::{Place, watch_plain_by};
use crate::queue::service::Queues;
use crate::session::Core;

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
        info.label = Some(shortened(&String::from_utf8_lossy(&bytes), LABEL_BYTES_MAX));
    }
    info
}

/// Has a contender's plain lock watched from the view on that was made for it and shows it first: that view took it.
pub(super) fn note_turn(queues: &Arc<Queues>, place: &Arc<Place>, view: &QueueView) {
    let core = &queues.service.core;
    let Some(key) = core.layout.plain(&place.queue) else { return };
    if view.contenders.first().is_some_and(|first| first.id == place.id) {
        watch_plain_by(place, || {
            core.life.runtime.spawn(watch(queues.clone(), place.clone(), key.to_owned(), is_ours)).abort_handle()
        });
    }
}

/// Whether a plain lock is still that of this contender.
fn is_ours(core: &Core, place: &Place, value: Value) -> Result<bool, Failure> {
    if matches!(&value, Value::ServerError(error) if error.code() == "WRONGTYPE") {
        return Ok(false);
    }
    let ours = core.layout.contender(place.ticket);
    Ok(answer(value, "GET")? == Value::BulkString(ours.into_bytes()))
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
