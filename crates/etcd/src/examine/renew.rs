//! Begins tokens anew, after the service's data were restored from an older state: its revisions come twice then, and
//! no client that was not there before can see it.

use std::time::Duration;

use lockkeeper_session::{Effect, Failure, FailureKind};

use super::judge::Offset;
use super::trial::offset;
use crate::queue::Onlooking;
use crate::rpc::{modified_at, put, txn};
use crate::session::{Epoch, first_offset};
use crate::url::Site;

/// Writes where tokens begin anew, from the clock, unless another client does meanwhile.
pub(crate) async fn renew_tokens(looking: &Onlooking<'_>, site: &Site) -> Result<(), Failure> {
    let (found, revision) = offset(looking, site).await?;
    let refuse = |message: &str| Failure::new(FailureKind::Other, Effect::None, message);
    let seen = match found {
        // The first session does it.
        Offset::Absent => return Ok(()),
        Offset::Unreadable => return Err(refuse("where tokens begin is no number; see `lockkeeper doctor`")),
        Offset::Present(seen) => seen,
    };
    let next = next_offset(seen, revision, site.clock.unix_time())
        .ok_or_else(|| refuse("this machine's clock is behind the tokens; set it, then try again"))?;
    let key = site.layout.offset();
    let write = txn(vec![modified_at(key.clone(), seen.written)], vec![put(key, next.to_string(), 0)], Vec::new());
    match looking.connection.call(write, looking.deadline).await?.succeeded {
        true => Ok(()),
        false => Err(refuse("another client has written where tokens begin at the same moment; try again")),
    }
}

/// Where tokens begin from now on: behind all that this service can have granted, unless the clock was set back.
fn next_offset(seen: Epoch, revision: i64, unix_time: Duration) -> Option<u64> {
    let next = first_offset(unix_time);
    (next > seen.offset.saturating_add(revision.cast_unsigned())).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_begin_behind_all_that_were_granted_or_not_at_all() {
        let epoch = |offset| Epoch { offset, written: 3 };
        let now = Duration::from_secs(1_000);
        let offset = first_offset(now);
        assert_eq!(next_offset(epoch(first_offset(Duration::from_secs(10))), 500, now), Some(offset));
        assert_eq!(next_offset(epoch(offset), 500, now), None);
        assert_eq!(next_offset(epoch(offset - 400), 500, now), None, "tokens have grown beyond the clock");
    }
}
