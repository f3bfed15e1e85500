//! Setting watches again after a reconnect, in requests that a server accepts.

use std::collections::BTreeMap;

use crate::message::SetWatches;
use crate::watch::path_watches::{Family, PathWatches};

/// How many bytes of paths one request carries at most, as in Apache's client: far below the frame maximum, so that
/// the server stays free for other clients. A single path may be longer.
pub const RESTORE_BYTES_MAX: usize = 128 * 1024;

/// Cuts the watches that are set into requests; empty if there are none.
pub(super) fn batches(paths: &BTreeMap<String, PathWatches>, last_zxid: i64, bytes_max: usize) -> Vec<SetWatches> {
    let mut batches = Vec::new();
    let mut batch = SetWatches { relative_zxid: last_zxid, ..SetWatches::default() };
    let mut batch_bytes = 0;
    for family in [Family::Data, Family::Exist, Family::Child, Family::Persistent, Family::Recursive] {
        for path in paths.iter().filter(|(_, on_path)| on_path.has(family)).map(|(path, _)| path) {
            let bytes = size_of::<i32>() + path.len();
            if batch_bytes > 0 && batch_bytes + bytes > bytes_max {
                let next = SetWatches { relative_zxid: last_zxid, ..SetWatches::default() };
                batches.push(std::mem::replace(&mut batch, next));
                batch_bytes = 0;
            }
            batch_bytes += bytes;
            list_of(&mut batch, family).push(path.clone());
        }
    }
    if batch_bytes > 0 {
        batches.push(batch);
    }
    batches
}

const fn list_of(batch: &mut SetWatches, family: Family) -> &mut Vec<String> {
    match family {
        Family::Data => &mut batch.data,
        Family::Exist => &mut batch.exist,
        Family::Child => &mut batch.child,
        Family::Persistent => &mut batch.persistent,
        Family::Recursive => &mut batch.persistent_recursive,
    }
}
