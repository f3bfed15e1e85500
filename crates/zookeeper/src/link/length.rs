//! The lengths that requests and answers may have.

use bytes::Bytes;
use lockkeeper_zk_proto::frame::{FRAME_BYTES_DEFAULT_MAX, FrameError};
use lockkeeper_zk_proto::message::{Request, encode_request};

/// The longest answer that is read, in bytes: a list of a million contenders. Servers bound what they take and not what
/// they send, so a queue that they hold can be longer than [`REQUEST_BYTES_MAX`].
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The longest request that is sent, in bytes: what servers take by default (`jute.maxbuffer`). They close the
/// connection on a longer one.
const REQUEST_BYTES_MAX: usize = FRAME_BYTES_DEFAULT_MAX;

/// What a request takes besides its paths and its data, in bytes; generously.
const REQUEST_OVERHEAD_BYTES: usize = 1024;

/// Refuses a request that servers would not take.
pub(super) fn check_length(request: &Request) -> Result<(), FrameError> {
    let bulk = match request {
        Request::Create(create) | Request::Create2(create) | Request::CreateContainer(create) => {
            create.path.len() + create.data.as_ref().map_or(0, Bytes::len) + create.acl.len() * REQUEST_OVERHEAD_BYTES
        }
        Request::SetData { path, data, .. } => path.len() + data.as_ref().map_or(0, Bytes::len),
        Request::Delete { path, .. }
        | Request::Exists { path, .. }
        | Request::GetData { path, .. }
        | Request::GetChildren { path, .. }
        | Request::GetChildren2 { path, .. }
        | Request::Sync { path } => path.len(),
        // Seldom asked for, so that they can be measured.
        _ => REQUEST_BYTES_MAX,
    };
    match bulk.saturating_add(REQUEST_OVERHEAD_BYTES) <= REQUEST_BYTES_MAX {
        true => Ok(()),
        false => encode_request(0, request, REQUEST_BYTES_MAX).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_zk_proto::message::{Acl, Create, CreateMode};

    use super::*;

    fn create(data_bytes: usize) -> Request {
        let data = Some(Bytes::from(vec![0; data_bytes]));
        let (path, acl, mode) = ("/a".to_owned(), vec![Acl::open()], CreateMode::Persistent);
        Request::Create2(Create { path, data, acl, mode })
    }

    #[test]
    fn a_request_is_refused_from_the_first_byte_that_servers_do_not_take() {
        let fixed = encode_request(0, &create(0), REQUEST_BYTES_MAX).unwrap().len() - size_of::<i32>();
        let most = REQUEST_BYTES_MAX - fixed;
        assert!(check_length(&create(most)).is_ok());
        assert_eq!(check_length(&create(most + 1)).unwrap_err().length_max(), REQUEST_BYTES_MAX);
    }

    #[test]
    fn a_transaction_and_a_path_are_measured_too() {
        let multi =
            vec![lockkeeper_zk_proto::message::MultiOperation::Delete { path: "/a".repeat(600_000), version: -1 }];
        assert!(check_length(&Request::Multi(multi)).is_err());
        assert!(check_length(&Request::Sync { path: "/a".repeat(600_000) }).is_err());
        assert!(check_length(&Request::Ping).is_ok());
    }
}
