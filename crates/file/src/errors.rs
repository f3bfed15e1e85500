//! From a system call's errno to the library's error: what kind it is, and whether trying again can help.

use std::path::Path;

use lockkeeper_core::{Error, ErrorKind, Operation};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The cure where a directory is refused.
pub(crate) const ANOTHER_DIRECTORY: &str = "LOCKKEEPER_DIR or --connect file:DIR names another directory";

/// Describes a system call that failed: `what` was to be done with `path`.
pub(crate) fn failed(operation: Operation, what: &str, path: &Path, errno: Errno) -> Error {
    let message = format!("cannot {what} {}", path.display());
    let refused = |kind| Error::permanent(kind, operation, format!("{message} ({ANOTHER_DIRECTORY})"));
    let error = match errno {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => refused(ErrorKind::Refused),
        // Something else lies where a file or a directory of ours should.
        Errno::NOTDIR
        | Errno::LOOP
        | Errno::NAMETOOLONG
        | Errno::ISDIR
        | Errno::SPIPE
        | Errno::NXIO
        | Errno::NODEV
        | Errno::INVAL => refused(ErrorKind::InvalidConfig),
        Errno::NOSYS | Errno::OPNOTSUPP => refused(ErrorKind::Unsupported),
        Errno::MFILE => Error::permanent(ErrorKind::LimitReached, operation, format!("{message} ({})", file_limit())),
        Errno::FBIG => Error::permanent(ErrorKind::LimitReached, operation, format!("{message} ({})", size_limit())),
        Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::NOBUFS => {
            Error::transient(ErrorKind::LimitReached, operation, message)
        }
        _ => Error::transient(ErrorKind::Backend, operation, message),
    };
    error.caused_by(std::io::Error::from(errno))
}

/// The cure where this process may open no more files. Waiting does not help, since the open files are its own.
fn file_limit() -> String {
    let limit = getrlimit(Resource::Nofile).current;
    let most = limit.map_or_else(String::new, |most| format!(" more than {most}"));
    format!("this process may not open{most} files: raise the limit, ulimit -n")
}

/// The cure where this process may not write a file of the size that is needed.
fn size_limit() -> String {
    let most = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    format!("this process may write no file of more than {most} bytes: raise the limit, ulimit -f")
}

/// The errno of a failure of the standard library; `EIO` if it had none.
pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::Advice;

    use super::*;

    #[test]
    fn a_refusal_is_permanent_and_names_the_path_and_the_cure() {
        for errno in [Errno::ACCESS, Errno::PERM, Errno::ROFS] {
            let error = failed(Operation::Join, "write to", Path::new("/var/lib/lockkeeper"), errno);
            assert_eq!((error.kind(), error.advice()), (ErrorKind::Refused, Advice::Permanent));
            let text = error.to_string();
            for part in ["/var/lib/lockkeeper", "LOCKKEEPER_DIR", "--connect file:DIR"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn a_shortage_of_the_machine_is_worth_another_try_and_one_of_this_process_is_not() {
        for errno in [Errno::NFILE, Errno::NOSPC, Errno::IO] {
            assert_eq!(failed(Operation::Join, "make", Path::new("/x"), errno).advice(), Advice::Transient);
        }
        let error = failed(Operation::Join, "make", Path::new("/x"), Errno::MFILE);
        assert_eq!(error.advice(), Advice::Permanent);
        assert!(error.to_string().contains("ulimit -n"), "{error}");
    }

    #[test]
    fn another_kind_of_file_in_the_place_of_ours_is_a_permanent_error() {
        for errno in [Errno::NOTDIR, Errno::ISDIR, Errno::LOOP, Errno::SPIPE, Errno::NXIO, Errno::INVAL] {
            let error = failed(Operation::Join, "open", Path::new("/x"), errno);
            assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidConfig, Advice::Permanent));
        }
    }
}
