//! File systems that can carry locks: a decision about a number, and the look that gets the number.
//!
//! Locks need flocks and named pipes that every process of the machine sees alike, and an unlink that every process
//! sees at once. A network file system gives that to one machine at best and lets another believe the same, so the list
//! names what is allowed and refuses the rest.

use std::os::fd::AsFd;
use std::path::Path;

use lockkeeper_core::{Error, ErrorKind, Operation, Result};
use rustix::io::Errno;

use crate::errors::failed;

/// The number of tmpfs, in `linux/magic.h`.
const TMPFS: u32 = 0x0102_1994;

/// What is known of a file system.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FilesystemVerdict {
    /// Locks work there.
    Local,
    /// They may not; the name of the file system if it is a known one.
    Refused(Option<&'static str>),
}

/// Judges a file system by the magic number that `statfs` gives.
///
/// The numbers are those of the kernel's `linux/magic.h` and of the file systems' own sources.
pub(crate) const fn judge(magic: u32) -> FilesystemVerdict {
    match magic {
        // ext2, ext3 and ext4 share a number; then xfs, btrfs, tmpfs, overlayfs, zfs, f2fs.
        0xEF53 | 0x5846_5342 | 0x9123_683E | TMPFS | 0x794C_7630 | 0x2FC1_2FC1 | 0xF2F5_2010 => {
            FilesystemVerdict::Local
        }
        0x6969 => FilesystemVerdict::Refused(Some("nfs")),
        0xFF53_4D42 | 0xFE53_4D42 | 0x517B => FilesystemVerdict::Refused(Some("cifs")),
        0x6573_5546 => FilesystemVerdict::Refused(Some("fuse")),
        0x0102_1997 => FilesystemVerdict::Refused(Some("9p")),
        0x00C3_6400 => FilesystemVerdict::Refused(Some("ceph")),
        0x5346_414F | 0x6B41_4653 => FilesystemVerdict::Refused(Some("afs")),
        0x7375_7245 => FilesystemVerdict::Refused(Some("coda")),
        0x0116_1970 => FilesystemVerdict::Refused(Some("gfs2")),
        0x7461_636F => FilesystemVerdict::Refused(Some("ocfs2")),
        0x0BD0_0BD0 => FilesystemVerdict::Refused(Some("lustre")),
        0x4750_4653 => FilesystemVerdict::Refused(Some("gpfs")),
        0x1983_0326 => FilesystemVerdict::Refused(Some("beegfs")),
        0x786F_4256 => FilesystemVerdict::Refused(Some("vboxsf")),
        0xF15F => FilesystemVerdict::Refused(Some("ecryptfs")),
        0x4D44 => FilesystemVerdict::Refused(Some("vfat")),
        0x2011_BAB0 => FilesystemVerdict::Refused(Some("exfat")),
        0x5346_544E | 0x7366_746E => FilesystemVerdict::Refused(Some("ntfs")),
        0x9660 => FilesystemVerdict::Refused(Some("iso9660")),
        0x7371_7368 => FilesystemVerdict::Refused(Some("squashfs")),
        0x8584_58F6 => FilesystemVerdict::Refused(Some("ramfs")),
        0x9FA0 => FilesystemVerdict::Refused(Some("proc")),
        0x6265_6572 => FilesystemVerdict::Refused(Some("sysfs")),
        _ => FilesystemVerdict::Refused(None),
    }
}

/// Looks up the file system of an existing path.
pub(crate) fn of(path: &Path) -> Result<FilesystemVerdict, Errno> {
    rustix::fs::statfs(path).map(|found| judge(magic_of(found.f_type)))
}

/// Tells whether an existing path lies on a file system that goes with a restart of the machine.
pub(crate) fn is_in_memory(path: &Path) -> Result<bool, Errno> {
    rustix::fs::statfs(path).map(|found| magic_of(found.f_type) == TMPFS)
}

/// Tells whether an open directory lies on a file system that can carry locks.
pub(crate) fn is_local(directory: impl AsFd) -> Result<bool, Errno> {
    rustix::fs::fstatfs(directory).map(|found| judge(magic_of(found.f_type)) == FilesystemVerdict::Local)
}

/// Refuses a directory on a file system that cannot carry locks, with the cure.
pub(crate) fn require_local(directory: &Path) -> Result<()> {
    let found = rustix::fs::statfs(directory)
        .map_err(|errno| failed(Operation::Connect, "tell the file system of", directory, errno))?;
    let magic = magic_of(found.f_type);
    let FilesystemVerdict::Refused(name) = judge(magic) else {
        return Ok(());
    };
    let name = name.map_or_else(|| format!("of an unknown type (0x{magic:X})"), |name| format!("of type {name}"));
    let message = format!(
        "{} lies on a file system {name}, where locks of this machine cannot be relied on: name a directory on a local \
         disk (ext4, xfs, btrfs, tmpfs, overlayfs, zfs, f2fs) with LOCKKEEPER_DIR or --connect file:DIR, or the URL of \
         a lock service",
        directory.display()
    );
    Err(Error::permanent(ErrorKind::Unsupported, Operation::Connect, message))
}

/// The magic number as 32 bits: the kernel's field is wider on some architectures, and signed on some.
const fn magic_of(field: rustix::fs::FsWord) -> u32 {
    field as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_file_systems_are_allowed() {
        for magic in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1, 0xF2F5_2010] {
            assert_eq!(judge(magic), FilesystemVerdict::Local, "{magic:X}");
        }
    }

    #[test]
    fn network_file_systems_are_refused_by_name() {
        for (magic, name) in [(0x6969, "nfs"), (0xFF53_4D42, "cifs"), (0x6573_5546, "fuse"), (0x0102_1997, "9p")] {
            assert_eq!(judge(magic), FilesystemVerdict::Refused(Some(name)));
        }
    }

    #[test]
    fn what_is_not_on_the_list_is_refused() {
        assert_eq!(judge(0xDEAD_BEEF), FilesystemVerdict::Refused(None));
    }

    #[test]
    fn the_refusal_names_the_file_system_and_the_cure() {
        let error = require_local(Path::new("/proc")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        for part in ["proc", "local disk", "LOCKKEEPER_DIR", "--connect file:DIR"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_path_in_memory_is_told_from_one_that_is_not() {
        use std::os::fd::AsRawFd;

        let in_memory = rustix::fs::memfd_create("in-memory", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let path = format!("/proc/self/fd/{}", in_memory.as_raw_fd());
        assert_eq!(is_in_memory(Path::new(&path)), Ok(true));
        assert_eq!(is_in_memory(Path::new("/proc")), Ok(false));
    }
}
