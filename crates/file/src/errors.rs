//! From a system call's errno to the library's error: what kind it is, and whether trying again can help.

use std::path::Path;

use lockkeeper_core::{Error, ErrorKind, Operation};
use rustix::io::Errno;

/// What helps where a directory is refused.
pub(crate) const ANOTHER_DIRECTORY: &str = "LOCKKEEPER_DIR or --connect file:DIR names another directory";

/// Describes a system call that failed: `what` was to be done with `path`.
pub(crate) fn failed(operation: Operation, what: &str, path: &Path, errno: Errno) -> Error {
    let message = format!("cannot {what} {}", path.display());
    let refused = |kind| Error::permanent(kind, operation, format!("{message} ({ANOTHER_DIRECTORY})"));
    let error = match errno {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => refused(ErrorKind::Refused),
        Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG | Errno::ISDIR => refused(ErrorKind::InvalidConfig),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => {
            Error::transient(ErrorKind::LimitReached, operation, message)
        }
        _ => Error::transient(ErrorKind::Backend, operation, message),
    };
    error.caused_by(std::io::Error::from(errno))
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
    fn a_shortage_is_worth_another_try() {
        for errno in [Errno::MFILE, Errno::NOSPC, Errno::IO] {
            assert_eq!(failed(Operation::Join, "make", Path::new("/x"), errno).advice(), Advice::Transient);
        }
    }
}
