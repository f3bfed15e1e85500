//! Access to the locks of a directory: all take part who may write it, by any right. What is made inside is open
//! to them, and no other user can open or lock any of it.
//!
//! The mode of a file names one user and one group. Where others take part too, such as an owner of the directory who
//! is not of its group, the file's access control list (`acl(5)`) names them.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Gid, Mode, Stat, Uid, XattrFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Where the kernel keeps a list, in the form of `linux/posix_acl_xattr.h`.
const ATTRIBUTE: &str = "system.posix_acl_access";
const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;

/// The longest list that is read, in bytes: a page, as file systems keep no longer ones.
const LIST_BYTES_MAX: usize = 4096;

/// Whom an entry of a list is about; these are sorted by it.
const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHER: u16 = 32;

/// The number of an entry that is about no user or group in particular.
const NO_ID: u32 = u32::MAX;

const READ: u16 = 4;
const WRITE: u16 = 2;
const EXECUTE: u16 = 1;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MadeKind {
    /// A file that is locked, or a pipe.
    File,
    /// A file that is never locked: a user who may look reads it.
    Note,
    Directory,
}

/// Who takes part in what is made in a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DirectoryAccess {
    /// Its owner: what root makes is given to that user.
    owner: u32,
    /// The users who take part, but for root, who may do all, and …
    users: BTreeSet<u32>,
    /// … the groups; its own comes first.
    groups: Vec<u32>,
    /// Whether all users take part.
    are_all: bool,
    group_rights: u16,
    other_rights: u16,
    /// Whether what this process makes needs more than its mode at creation.
    pub(crate) is_shared: bool,
}

impl DirectoryAccess {
    /// Finds out who may write a directory.
    pub(crate) fn within(directory: impl AsFd) -> Result<Self, Errno> {
        let found = rustix::fs::fstat(&directory)?;
        let list = if found.st_mode & 0o020 == 0 { None } else { read_list(directory)? };
        Ok(Self::of(&found, list.as_deref().unwrap_or_default(), geteuid().as_raw()))
    }

    /// The same of what is known of it, for a process of this user. A list has no entries if the mode says all.
    fn of(found: &Stat, list: &[AclEntry], me: u32) -> Self {
        let Stat { st_mode, st_uid, st_gid, .. } = *found;
        let rights = |shift: u32| (st_mode >> shift & 7) as u16;
        let mask = list.iter().find(|entry| entry.tag == MASK).map_or(7, |mask| mask.rights);
        let own_group = list.iter().find(|entry| entry.tag == GROUP_OBJ);
        let group_rights = own_group.map_or_else(|| rights(3), |entry| entry.rights & mask);
        let named = |tag: u16| {
            list.iter().filter(move |entry| entry.tag == tag && entry.rights & mask & WRITE != 0).map(|entry| entry.id)
        };
        let owner = (rights(6) & WRITE != 0).then_some(st_uid);
        let users: BTreeSet<u32> = owner.into_iter().chain(named(USER)).filter(|&user| user != 0).collect();
        let groups = (group_rights & WRITE != 0).then_some(st_gid).into_iter().chain(named(GROUP)).collect::<Vec<_>>();
        let are_all = rights(0) & WRITE != 0;
        let is_shared = are_all || !groups.is_empty() || users.iter().any(|&user| user != me);
        Self { owner: st_uid, users, groups, are_all, group_rights, other_rights: rights(0), is_shared }
    }

    /// Whether it is one user's alone, whom what is made belongs to from the start.
    pub(crate) const fn is_private(&self) -> bool {
        !self.is_shared && self.group_rights == 0 && self.other_rights == 0
    }

    /// The mode with which something is made; the umask may take some of it.
    pub(crate) const fn mode_of_new(&self, kind: MadeKind) -> Mode {
        match (kind, self.are_all) {
            (MadeKind::Directory, _) => Mode::RWXU,
            (_, true) => Mode::from_raw_mode(0o666),
            (_, false) => Mode::from_raw_mode(0o600),
        }
    }

    /// Opens what was just made to all who take part, whatever the umask has left.
    pub(crate) fn open_up(&self, file: &OwnedFd, kind: MadeKind) -> Result<(), Errno> {
        let found = rustix::fs::fstat(file)?;
        let (mut owner, mut group) = (found.st_uid, found.st_gid);
        if owner == 0 && self.owner != 0 {
            match rustix::fs::fchown(file, Some(Uid::from_raw(self.owner)), None) {
                Ok(()) => owner = self.owner,
                // The root of a container, which knows no such user.
                Err(Errno::PERM | Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
        if let Some(&first) = self.groups.first().filter(|_| !self.groups.contains(&group)) {
            match rustix::fs::fchown(file, None, Some(Gid::from_raw(first))) {
                Ok(()) => group = first,
                // A user who is not of that group can name it in the list all the same.
                Err(Errno::PERM) => {}
                Err(errno) => return Err(errno),
            }
        }
        rustix::fs::fchmod(file, self.mode(kind, group))?;
        let Some(list) = self.list(kind, owner, group) else { return Ok(()) };
        match rustix::fs::fsetxattr(file, ATTRIBUTE, &list, XattrFlags::empty()) {
            // Where there are no lists, those who are not named by the mode are refused by name.
            Err(Errno::OPNOTSUPP) => Ok(()),
            outcome => outcome,
        }
    }

    fn mode(&self, kind: MadeKind, group: u32) -> Mode {
        let (of_owner, of_group, of_others) = self.rights(kind, group);
        let mode = Mode::from_raw_mode(u32::from(of_owner << 6 | of_group << 3 | of_others));
        // With this bit all that is made inside belongs to the same group, independent of its maker.
        let inherits = kind == MadeKind::Directory && !self.are_all && self.groups.contains(&group);
        if inherits { mode | Mode::SGID } else { mode }
    }

    /// The rights of the owner, the group and all others.
    fn rights(&self, kind: MadeKind, group: u32) -> (u16, u16, u16) {
        let takes_part = self.are_all || self.groups.contains(&group);
        // Of a group that does not take part a member may do what all others may.
        let group_rights = if self.groups.is_empty() || takes_part { self.group_rights } else { self.other_rights };
        let allow = |may_write: bool, above: u16| match (kind, may_write) {
            (MadeKind::Directory, true) => above | READ | WRITE | EXECUTE,
            (MadeKind::Directory, false) => above,
            (_, true) => READ | WRITE,
            (MadeKind::Note, false) => above & READ,
            (MadeKind::File, false) => 0,
        };
        (allow(true, 0), allow(takes_part, group_rights), allow(self.are_all, self.other_rights))
    }

    /// The list of what belongs to a user and a group, if the mode leaves some out who take part.
    fn list(&self, kind: MadeKind, owner: u32, group: u32) -> Option<Vec<u8>> {
        let users: Vec<u32> = self.users.iter().copied().filter(|&user| user != owner).collect();
        let groups: BTreeSet<u32> = self.groups.iter().copied().filter(|&other| other != group).collect();
        if self.are_all || users.is_empty() && groups.is_empty() {
            return None;
        }
        let (of_owner, of_group, of_others) = self.rights(kind, group);
        let entry = |tag, rights, id| AclEntry { tag, rights, id };
        let users = users.into_iter().map(|user| entry(USER, of_owner, user));
        let groups = groups.into_iter().map(|group| entry(GROUP, of_owner, group));
        let entries = [entry(USER_OBJ, of_owner, NO_ID)].into_iter().chain(users);
        let entries = entries.chain([entry(GROUP_OBJ, of_group, NO_ID)]).chain(groups);
        let entries = entries.chain([entry(MASK, of_owner, NO_ID), entry(OTHER, of_others, NO_ID)]);
        Some(VERSION.to_le_bytes().into_iter().chain(entries.flat_map(AclEntry::bytes)).collect())
    }
}

/// One entry of a list: what the user or the group of this number may do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct AclEntry {
    tag: u16,
    rights: u16,
    id: u32,
}

impl AclEntry {
    fn bytes(self) -> [u8; ENTRY_BYTES] {
        let ([a, b], [c, d], [e, f, g, h]) = (self.tag.to_le_bytes(), self.rights.to_le_bytes(), self.id.to_le_bytes());
        [a, b, c, d, e, f, g, h]
    }

    fn read(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let &[a, b, c, d, e, f, g, h] = bytes;
        Self {
            tag: u16::from_le_bytes([a, b]),
            rights: u16::from_le_bytes([c, d]),
            id: u32::from_le_bytes([e, f, g, h]),
        }
    }
}

fn read_list(directory: impl AsFd) -> Result<Option<Vec<AclEntry>>, Errno> {
    let mut bytes = [0; LIST_BYTES_MAX];
    match rustix::fs::fgetxattr(directory, ATTRIBUTE, &mut bytes[..]) {
        Ok(length) => Ok(Some(entries(&bytes[..length]))),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn entries(list: &[u8]) -> Vec<AclEntry> {
    match list.split_first_chunk::<4>() {
        Some((version, entries)) if *version == VERSION.to_le_bytes() => {
            entries.as_chunks::<ENTRY_BYTES>().0.iter().map(AclEntry::read).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u32 = 5001;
    const GROUP_OF_IT: u32 = 4000;
    const MEMBER: u32 = 5002;

    /// The access within a directory of this mode and list, for a process of this user.
    fn within(mode: u32, list: &[AclEntry], me: u32) -> DirectoryAccess {
        let directory = tempfile::tempdir().unwrap();
        let mut found = rustix::fs::stat(directory.path()).unwrap();
        (found.st_mode, found.st_uid, found.st_gid) = (mode, OWNER, GROUP_OF_IT);
        DirectoryAccess::of(&found, list, me)
    }

    fn modes(mode: u32) -> [u32; 3] {
        let access = within(mode, &[], OWNER);
        [MadeKind::Directory, MadeKind::File, MadeKind::Note].map(|kind| access.mode(kind, GROUP_OF_IT).as_raw_mode())
    }

    #[test]
    fn who_may_write_the_directory_takes_part_and_who_may_read_it_only_looks() {
        assert_eq!(modes(0o700), [0o700, 0o600, 0o600]);
        assert_eq!(modes(0o755), [0o755, 0o600, 0o644]);
        assert_eq!(modes(0o770), [0o2770, 0o660, 0o660]);
        assert_eq!(modes(0o775), [0o2775, 0o660, 0o664]);
        assert_eq!(modes(0o1777), [0o777, 0o666, 0o666]);
    }

    #[test]
    fn a_list_is_made_only_where_the_mode_leaves_some_out_who_take_part() {
        let list = |access: &DirectoryAccess, owner, group| {
            access.list(MadeKind::File, owner, group).map(|list| {
                let named = entries(&list).into_iter().filter(|entry| entry.id != NO_ID);
                named.map(|entry| (entry.tag, entry.id, entry.rights)).collect::<Vec<_>>()
            })
        };
        let shared = within(0o775, &[], OWNER);
        assert_eq!(list(&shared, OWNER, GROUP_OF_IT), None);
        // An owner outside of the group cannot give it the file, and a member's file is not the owner's.
        assert_eq!(list(&shared, OWNER, OWNER), Some(vec![(GROUP, GROUP_OF_IT, 6)]));
        assert_eq!(list(&shared, MEMBER, GROUP_OF_IT), Some(vec![(USER, OWNER, 6)]));
        assert_eq!(shared.mode(MadeKind::File, OWNER).as_raw_mode(), 0o600, "that group does not take part");
        for open_to_one_kind in [within(0o755, &[], OWNER), within(0o777, &[], OWNER)] {
            assert_eq!(list(&open_to_one_kind, OWNER, OWNER), None);
        }
    }

    #[test]
    fn users_and_groups_whom_a_list_names_take_part_as_far_as_its_mask_goes() {
        let entry = |tag, rights, id| AclEntry { tag, rights, id };
        let list = [
            entry(USER_OBJ, 7, NO_ID),
            entry(USER, 7, 71),
            entry(USER, 5, 72),
            entry(GROUP_OBJ, 5, NO_ID),
            entry(GROUP, 7, 81),
            entry(MASK, 7, NO_ID),
            entry(OTHER, 0, NO_ID),
        ];
        let access = within(0o770, &list, OWNER);
        assert_eq!((access.users.clone(), access.groups.clone()), ([71, OWNER].into(), vec![81]));
        let made = entries(&access.list(MadeKind::File, OWNER, GROUP_OF_IT).unwrap());
        let named: Vec<_> = made.iter().filter(|entry| entry.id != NO_ID).map(|entry| (entry.tag, entry.id)).collect();
        assert_eq!(named, [(USER, 71), (GROUP, 81)]);
        let masked = within(0o750, &[&list[..5], &[entry(MASK, 5, NO_ID)]].concat(), OWNER);
        assert_eq!((masked.users, masked.groups), ([OWNER].into(), Vec::new()));
    }

    #[test]
    fn what_root_makes_in_a_users_directory_is_opened_to_that_user() {
        assert!(within(0o700, &[], 0).is_shared && !within(0o700, &[], OWNER).is_shared);
    }
}
