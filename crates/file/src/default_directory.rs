//! Where the locks lie when no service is named: one place for each user. It is found without the help of the
//! environment, so that a cron job and a login shell of the same user meet in the same queue. Many users that run
//! services have a home that is missing or that they cannot write; they have a place in `/var/tmp`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use lockkeeper_core::{Error, ErrorKind, Operation, Result};
use rustix::fs::{Access, AtFlags, CWD, FileType};
use rustix::io::Errno;

use crate::errors::{ANOTHER_DIRECTORY, failed};
use crate::filesystem::{self, FilesystemVerdict};

/// Where root's locks lie: it outlives a reboot, and every user may see it.
const ROOT_DIRECTORY: &str = "/var/lib/lockkeeper";

/// Where a user's locks lie, within the home.
const HOME_DIRECTORY: &str = ".local/state/lockkeeper";

/// Where the directory of a user without a fit home lies: it is cleared less often than `/tmp`.
const FALLBACK_PARENT: &str = "/var/tmp";

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
struct Surroundings<'a> {
    configured: Option<&'a OsStr>,
    user: u32,
    database_home: Option<&'a Path>,
    home_variable: Option<&'a OsStr>,
}

/// What was chosen.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Choice {
    /// A directory in a place that only its user can write.
    Plain(PathBuf),
    /// A directory in a place that every user can write, so that it must be proven to be its user's.
    InSharedPlace(PathBuf),
}

/// Finds the directory to use when no service is named; `configured` is the value of `$LOCKKEEPER_DIR`.
///
/// Without one it is `/var/lib/lockkeeper` for root, and `.local/state/lockkeeper` in the user's home by the password
/// database, or by `$HOME` if the database does not know the user. A home that is missing, that the user cannot write,
/// or that lies on a file system that cannot carry locks counts as none; no home gives `/var/tmp/lockkeeper-<uid>`,
/// which the first lock makes, open to its user alone.
///
/// # Errors
///
/// Permanent if `configured` is empty or relative (it would split a lock by the current directory), or if the directory
/// in `/var/tmp` is a link or belongs to another user; transient if the password database does not answer.
pub fn default_directory(configured: Option<&OsStr>) -> Result<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let database_home = if configured.is_some() || user == 0 { None } else { home_by_database(user)? };
    let home_variable = std::env::var_os("HOME");
    let surroundings = Surroundings {
        configured,
        user,
        database_home: database_home.as_deref(),
        home_variable: home_variable.as_deref(),
    };
    match choose(surroundings, |home| is_fit(home, user))? {
        Choice::Plain(directory) => Ok(directory),
        Choice::InSharedPlace(directory) => {
            require_ours(&directory, user)?;
            Ok(directory)
        }
    }
}

fn choose(surroundings: Surroundings<'_>, is_fit: impl FnOnce(&Path) -> bool) -> Result<Choice> {
    let Surroundings { configured, user, database_home, home_variable } = surroundings;
    if let Some(configured) = configured {
        let directory = Path::new(configured);
        if directory.is_absolute() {
            return Ok(Choice::Plain(directory.to_owned()));
        }
        let message = format!(
            "LOCKKEEPER_DIR is {configured:?}, and has to be an absolute path; --connect file:DIR takes a relative \
             one, too"
        );
        return Err(Error::permanent(ErrorKind::InvalidConfig, Operation::Configure, message));
    }
    if user == 0 {
        return Ok(Choice::Plain(PathBuf::from(ROOT_DIRECTORY)));
    }
    let home = database_home.or_else(|| home_variable.map(Path::new)).filter(|home| home.is_absolute());
    Ok(match home {
        Some(home) if is_fit(home) => Choice::Plain(home.join(HOME_DIRECTORY)),
        _ => Choice::InSharedPlace(Path::new(FALLBACK_PARENT).join(format!("lockkeeper-{user}"))),
    })
}

fn home_by_database(user: u32) -> Result<Option<PathBuf>> {
    use nix::errno::Errno as DatabaseErrno;

    match nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(user)) {
        Ok(found) => Ok(found.map(|found| found.dir)),
        // Some databases answer this for a user that they do not know.
        Err(DatabaseErrno::ENOENT | DatabaseErrno::ESRCH) => Ok(None),
        Err(errno) => {
            let message = format!("the password database does not answer for user {user}");
            Err(Error::transient(ErrorKind::Backend, Operation::Configure, message)
                .caused_by(std::io::Error::from(errno)))
        }
    }
}

/// Tells whether a home is there, can carry locks, and has the locks of this user or could have them.
fn is_fit(home: &Path, user: u32) -> bool {
    let directory = home.join(HOME_DIRECTORY);
    let is_within = |path: &&Path| path.starts_with(home);
    // What is there already, deepest first, decides: the rest would be made in it.
    let Some(deepest) = directory.ancestors().take_while(is_within).find(|path| rustix::fs::lstat(*path).is_ok())
    else {
        return false;
    };
    let Ok(found) = rustix::fs::stat(deepest) else {
        return false;
    };
    // A directory that belongs to the user was chosen before, so it stays the choice even if it cannot be written now.
    let is_chosen = deepest == directory && found.st_uid == user;
    FileType::from_raw_mode(found.st_mode).is_dir()
        && filesystem::of(deepest) == Ok(FilesystemVerdict::Local)
        && (is_chosen || is_writable(deepest))
}

/// Tells whether this process can make something in a directory, by its effective user.
fn is_writable(directory: &Path) -> bool {
    rustix::fs::accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Makes sure that a directory in a place that every user may write is ours, if it is there.
fn require_ours(directory: &Path, user: u32) -> Result<()> {
    let found = match rustix::fs::lstat(directory) {
        Err(Errno::NOENT) => return Ok(()),
        found => found.map_err(|errno| failed(Operation::Configure, "look at", directory, errno))?,
    };
    let why = if !FileType::from_raw_mode(found.st_mode).is_dir() {
        "is not a directory"
    } else if found.st_uid != user {
        "belongs to another user"
    } else {
        return Ok(());
    };
    let message = format!("{} {why}: have it removed ({ANOTHER_DIRECTORY})", directory.display());
    Err(Error::permanent(ErrorKind::Refused, Operation::Configure, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: Surroundings<'_> =
        Surroundings { configured: None, user: 1000, database_home: None, home_variable: None };

    fn plain(path: &str) -> Choice {
        Choice::Plain(path.into())
    }

    fn fallback() -> Choice {
        Choice::InSharedPlace("/var/tmp/lockkeeper-1000".into())
    }

    #[test]
    fn the_environment_comes_first_and_must_be_absolute() {
        let configured = |value| Surroundings { configured: Some(OsStr::new(value)), user: 0, ..USER };
        assert_eq!(choose(configured("/srv/locks"), |_| false).unwrap(), plain("/srv/locks"));
        for wrong in ["", "locks", "./locks"] {
            let error = choose(configured(wrong), |_| true).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{wrong:?}");
        }
    }

    #[test]
    fn root_has_one_fixed_place_independent_of_its_home() {
        let root = Surroundings { user: 0, home_variable: Some(OsStr::new("/house/joe")), ..USER };
        assert_eq!(choose(root, |_| true).unwrap(), plain("/var/lib/lockkeeper"));
    }

    #[test]
    fn the_password_database_is_believed_before_the_environment() {
        let home_variable = Some(OsStr::new("/elsewhere"));
        let known = Surroundings { database_home: Some(Path::new("/house/joe")), home_variable, ..USER };
        assert_eq!(choose(known, |_| true).unwrap(), plain("/house/joe/.local/state/lockkeeper"));
        let unknown = Surroundings { home_variable, ..USER };
        assert_eq!(choose(unknown, |_| true).unwrap(), plain("/elsewhere/.local/state/lockkeeper"));
    }

    #[test]
    fn a_home_that_is_unfit_or_not_known_gives_a_place_in_var_tmp() {
        let known = Surroundings { database_home: Some(Path::new("/net/joe")), ..USER };
        assert_eq!(choose(known, |home| home != Path::new("/net/joe")).unwrap(), fallback());
        assert_eq!(choose(USER, |_| true).unwrap(), fallback());
    }

    #[test]
    fn a_home_is_fit_only_if_it_is_there_and_could_have_the_directory() {
        let parent = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let home = |name: &str| parent.path().join(name);
        assert!(!is_fit(&home("missing"), user));
        std::fs::write(home("file"), "").unwrap();
        assert!(!is_fit(&home("file"), user));
        assert!(!is_fit(Path::new("/proc"), user), "no locks on this file system");
        std::fs::create_dir(home("ann")).unwrap();
        assert!(is_fit(&home("ann"), user));
        std::os::unix::fs::symlink("nowhere", home("ann/.local")).unwrap();
        assert!(!is_fit(&home("ann"), user), "nothing can be made below a link that leads nowhere");
        std::fs::create_dir_all(home("bob").join(HOME_DIRECTORY)).unwrap();
        assert!(is_fit(&home("bob"), user));
    }

    #[test]
    fn a_link_or_another_user_s_directory_is_not_taken_for_ours() {
        let parent = tempfile::tempdir().unwrap();
        let (real, link) = (parent.path().join("real"), parent.path().join("link"));
        let user = rustix::process::geteuid().as_raw();
        require_ours(&real, user).unwrap();
        assert!(!real.exists(), "the first lock makes it");
        std::fs::create_dir(&real).unwrap();
        require_ours(&real, user).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for (directory, user) in [(&link, user), (&real, user + 1)] {
            let error = require_ours(directory, user).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused);
            let text = error.to_string();
            assert!(text.contains("LOCKKEEPER_DIR") && text.contains("--connect file:DIR"), "{text}");
        }
    }
}
