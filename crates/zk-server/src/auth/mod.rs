//! Permissions: the schemes `world`, `ip`, `digest` and `auth`, and the super user.

mod check;
mod digest;
mod ip;

pub(crate) use check::{complete_access_list, is_permitted, masked_digests};
pub(crate) use digest::digest_identity;

use lockkeeper_zk_proto::message::{ClientInfo, Id};

/// The scheme of user names and passwords.
pub(crate) const DIGEST: &str = "digest";
/// The scheme of addresses; every connection has it from the start.
pub(crate) const IP: &str = "ip";
/// The scheme of the user who may do everything.
pub(crate) const SUPER: &str = "super";

/// What a client is told of its identity: of a digest only the user.
pub(crate) fn client_info(identity: &Id) -> ClientInfo {
    let user = match identity.scheme.as_str() {
        DIGEST => identity.id.split(':').next().unwrap_or_default(),
        SUPER => "",
        _ => identity.id.as_str(),
    };
    ClientInfo { scheme: identity.scheme.clone(), user: user.to_owned() }
}
