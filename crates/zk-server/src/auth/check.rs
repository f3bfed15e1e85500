//! Access lists: completed when they are set, checked for each request.

use std::collections::HashSet;

use lockkeeper_zk_proto::message::{Acl, ErrorCode, Id, Permissions};

use crate::auth::{DIGEST, IP, SUPER, digest, ip};

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
///
/// # Errors
///
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
            DIGEST if digest::is_valid(&acl.id.id) => complete.push(acl),
            IP if ip::is_valid(&acl.id.id) => complete.push(acl),
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
        IP => ip::matches(&identity.id, &id.id),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::digest_identity;

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
}
