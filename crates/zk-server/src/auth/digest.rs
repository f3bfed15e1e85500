//! User names and passwords: the password itself is never stored.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lockkeeper_zk_proto::message::Id;
use sha1::{Digest, Sha1};

use crate::auth::DIGEST;

/// The identity of `user:password`: the user, and the SHA-1 of the whole in base64.
pub(crate) fn digest_identity(credentials: &[u8]) -> Id {
    let text = String::from_utf8_lossy(credentials);
    let user = text.split(':').next().unwrap_or_default();
    let hash = STANDARD.encode(Sha1::digest(text.as_bytes()));
    Id { scheme: DIGEST.to_owned(), id: format!("{user}:{hash}") }
}

/// Whether an access list may name this: two parts, of which the second is not empty.
pub(super) fn is_valid(id: &str) -> bool {
    // Java drops empty parts at the end before it counts them.
    let parts = id.trim_end_matches(':').split(':').count();
    parts == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_the_one_zookeeper_documents() {
        assert_eq!(digest_identity(b"super:admin").id, "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=");
        assert_eq!(digest_identity(b"alone").id.split(':').next(), Some("alone"));
    }

    #[test]
    fn two_parts_are_needed_as_java_counts_them() {
        for (id, valid) in
            [("a:b", true), (":b", true), ("a:b:", true), ("a", false), ("a:", false), ("", false), ("a:b:c", false)]
        {
            assert_eq!(is_valid(id), valid, "{id:?}");
        }
    }
}
