//! Permissions: the schemes `world`, `ip`, `digest` and `auth`, and the super user.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lockkeeper_zk_proto::message::{Acl, ClientInfo, ErrorCode, Id, Permissions};
use sha1::{Digest, Sha1};

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

/// How many entries an access list may have, as it is given and with `auth` replaced: each request to the node looks
/// through them.
const ENTRIES_MAX: usize = 4096;

/// Whether a caller with these identities may do what one of the wanted permissions permits.
///
/// An empty list permits everything, and so does being the super user.
pub(crate) fn is_permitted(list: &[Acl], wanted: Permissions, identities: &[Id]) -> bool {
    list.is_empty()
        || identities.iter().any(|identity| identity.scheme == SUPER)
        || list
            .iter()
            .filter(|acl| acl.permissions.bits() & wanted.bits() != 0)
            .any(|acl| is_meant(&acl.id, identities))
}

/// Checks an access list that is to be set, and puts the caller's own identities in the place of `auth`.
/// Fails with [`ErrorCode::InvalidAcl`] if it is empty, has or comes to have more than [`ENTRIES_MAX`] entries, or
/// names an unknown scheme or no user.
pub(crate) fn complete_access_list(list: Vec<Acl>, identities: &[Id]) -> Result<Vec<Acl>, ErrorCode> {
    if list.is_empty() || list.len() > ENTRIES_MAX {
        return Err(ErrorCode::InvalidAcl);
    }
    let mut seen = HashSet::with_capacity(list.len());
    let mut complete = Vec::with_capacity(list.len());
    for acl in list {
        if !seen.insert(acl.clone()) {
            continue;
        }
        match acl.id.scheme.as_str() {
            "world" if acl.id.id == "anyone" => complete.push(acl),
            "auth" => {
                let own = identities.iter().filter(|identity| identity.scheme == DIGEST);
                let before = complete.len();
                complete.extend(own.map(|identity| Acl { permissions: acl.permissions, id: identity.clone() }));
                if complete.len() == before {
                    return Err(ErrorCode::InvalidAcl);
                }
            }
            DIGEST if is_digest_valid(&acl.id.id) => complete.push(acl),
            IP if is_network_valid(&acl.id.id) => complete.push(acl),
            _ => return Err(ErrorCode::InvalidAcl),
        }
        if complete.len() > ENTRIES_MAX {
            return Err(ErrorCode::InvalidAcl);
        }
    }
    Ok(complete)
}

/// The list as callers see it that may not change it: without the digests of passwords.
pub(crate) fn masked_digests(list: &[Acl]) -> Vec<Acl> {
    let mask = |acl: &Acl| match acl.id.id.split_once(':') {
        Some((user, _)) if acl.id.scheme == DIGEST => Acl::new(acl.permissions, DIGEST, format!("{user}:x")),
        _ => acl.clone(),
    };
    list.iter().map(mask).collect()
}

fn is_meant(id: &Id, identities: &[Id]) -> bool {
    if id.scheme == "world" && id.id == "anyone" {
        return true;
    }
    identities.iter().filter(|identity| identity.scheme == id.scheme).any(|identity| match id.scheme.as_str() {
        DIGEST => identity.id == id.id,
        IP => is_in_network(&identity.id, &id.id),
        _ => false,
    })
}

/// The identity of `user:password`: the user, and the SHA-1 of the whole in base64.
pub(crate) fn digest_identity(credentials: &[u8]) -> Id {
    let text = String::from_utf8_lossy(credentials);
    let user = text.split(':').next().unwrap_or_default();
    let hash = STANDARD.encode(Sha1::digest(text.as_bytes()));
    Id { scheme: DIGEST.to_owned(), id: format!("{user}:{hash}") }
}

/// Whether an access list may name this: two parts, of which the second is not empty.
fn is_digest_valid(id: &str) -> bool {
    // Java drops empty parts at the end before it counts them.
    let parts = id.trim_end_matches(':').split(':').count();
    parts == 2
}

/// Whether an access list may name this.
fn is_network_valid(expression: &str) -> bool {
    parse_network(expression).is_some()
}

/// Whether an address is covered by an entry of an access list.
fn is_in_network(address: &str, expression: &str) -> bool {
    let (Some((network, bits)), Some(address)) = (parse_network(expression), parse_address(address)) else {
        return false;
    };
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or_default();
    address & mask == network & mask
}

/// The network and how many of its bits count.
fn parse_network(expression: &str) -> Option<(u32, u32)> {
    let (address, bits) = match expression.split_once('/') {
        Some((address, bits)) => (address, bits.parse().ok().filter(|bits| *bits <= 32)?),
        None => (expression, 32),
    };
    Some((parse_address(address)?, bits))
}

/// Four decimal numbers; leading zeros are admitted.
fn parse_address(text: &str) -> Option<u32> {
    let mut parts = text.split('.');
    let mut octets = [0; 4];
    for octet in &mut octets {
        *octet = parts.next()?.parse::<u8>().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets).to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip() -> Id {
        Id { scheme: IP.into(), id: "127.0.0.1".into() }
    }

    #[test]
    fn auth_stands_for_the_callers_digests_and_needs_one() {
        let me = digest_identity(b"me:secret");
        assert_eq!(
            complete_access_list(vec![Acl::creator()], &[ip(), me.clone()]),
            Ok(vec![Acl { permissions: Permissions::ALL, id: me }])
        );
        assert_eq!(complete_access_list(vec![Acl::creator()], &[ip()]), Err(ErrorCode::InvalidAcl));
    }

    #[test]
    fn lists_that_name_no_user_are_refused_and_duplicates_dropped() {
        for (scheme, id) in [("world", "everyone"), ("digest", "nohash"), ("ip", "1.2.3"), ("x509", "a"), ("", "")] {
            let list = vec![Acl::open(), Acl::new(Permissions::ALL, scheme, id)];
            assert_eq!(complete_access_list(list, &[ip()]), Err(ErrorCode::InvalidAcl), "{scheme}:{id}");
        }
        assert_eq!(complete_access_list(Vec::new(), &[]), Err(ErrorCode::InvalidAcl));
        assert_eq!(complete_access_list(vec![Acl::open(); 2], &[]), Ok(vec![Acl::open()]));
    }

    #[test]
    fn a_list_that_becomes_too_long_by_the_callers_identities_is_refused() {
        let many: Vec<Id> = (0..64).map(|number| digest_identity(format!("me:{number}").as_bytes())).collect();
        let auth = |count: i32| {
            (1..=count).map(|bits| Acl { permissions: Permissions::from_bits(bits), ..Acl::creator() }).collect()
        };
        assert_eq!(complete_access_list(auth(64), &many).map(|list| list.len()), Ok(ENTRIES_MAX));
        assert_eq!(complete_access_list(auth(65), &many), Err(ErrorCode::InvalidAcl));
    }

    #[test]
    fn permissions_are_had_by_identity_and_the_super_user_has_all() {
        let me = digest_identity(b"me:secret");
        let list =
            [Acl { permissions: Permissions::WRITE, id: me.clone() }, Acl::new(Permissions::READ, IP, "127.0.0.0/8")];
        assert!(is_permitted(&list, Permissions::READ, &[ip()]));
        assert!(!is_permitted(&list, Permissions::WRITE, &[ip()]));
        assert!(is_permitted(&list, Permissions::WRITE, &[ip(), me]));
        assert!(!is_permitted(&list, Permissions::WRITE, &[digest_identity(b"me:wrong")]));
        let root = Id { scheme: SUPER.into(), id: String::new() };
        assert!(is_permitted(&list, Permissions::ADMIN, &[root]));
    }

    #[test]
    fn masked_lists_keep_the_user_alone() {
        let list = [Acl::new(Permissions::ALL, DIGEST, "me:hash"), Acl::open()];
        assert_eq!(masked_digests(&list)[0].id.id, "me:x");
        assert_eq!(masked_digests(&list)[1], Acl::open());
    }

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
            assert_eq!(is_digest_valid(id), valid, "{id:?}");
        }
    }

    #[test]
    fn a_network_is_its_leading_bits() {
        assert!(is_in_network("127.0.0.1", "127.0.0.1"));
        assert!(is_in_network("10.1.2.3", "10.1.0.0/16"));
        assert!(is_in_network("10.1.2.3", "0.0.0.0/0"));
        assert!(!is_in_network("10.2.2.3", "10.1.0.0/16"));
        assert!(!is_in_network("127.0.0.1", "127.0.0.2"));
        assert!(!is_in_network("::1", "127.0.0.1"));
    }

    #[test]
    fn an_invalid_address_is_refused() {
        for expression in ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.4/33", "1.2.3.4/", "a", "1.2.3.-1"] {
            assert!(!is_network_valid(expression), "{expression:?}");
        }
        assert!(is_network_valid("1.2.3.4/32"));
        assert!(is_network_valid("1.2.3.4/0"));
    }
}
