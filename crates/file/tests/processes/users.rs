//! Tests of two users; they need root, which plays one user and has `setpriv` play the other.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, ContenderId, Extent, Freshness, Lifetime, Request, Revocation, Ticket};
use tempfile::{TempDir, tempdir};

use crate::parts::{Helper, QUEUE, block_on, skip};
use crate::support::{Place, backend, entry, lock, queue, session};

/// Another user, who owns nothing.
const OTHER_USER: &str = "65534";

/// An owner of a directory, a group of which that user is not, and a member of it.
const OWNER: u32 = 5001;
const GROUP: u32 = 4000;
const MEMBER: u32 = 5002;

/// A directory that all may pass, with a directory for locks and this program for all to run.
struct Stage {
    _parent: TempDir,
    directory: PathBuf,
    program: PathBuf,
}

impl Stage {
    /// Prepares the stage; skips the test unless this is root, since only root can play two users.
    fn set(test: &str, mode: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(test, "it plays two users, and needs root");
            return None;
        }
        if Command::new("setpriv").arg("--version").output().is_err() {
            skip(test, "setpriv is not installed");
            return None;
        }
        let parent = tempdir().unwrap();
        allow(parent.path(), 0o755);
        let (directory, program) = (parent.path().join("locks"), parent.path().join("program"));
        // Not by this process: a child that another thread starts meanwhile would have the file open to write for a
        // moment, and such a file cannot be executed.
        let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap();
        assert!(copied.success(), "the program is copied");
        fs::create_dir(&directory).unwrap();
        allow(&program, 0o755);
        allow(&directory, mode);
        Some(Self { _parent: parent, directory, program })
    }

    /// Starts a part as the other user.
    fn other_user(&self, part: &str) -> Helper {
        self.user(OTHER_USER, OTHER_USER, part)
    }

    /// Starts a part as a user of one group.
    fn user(&self, user: &str, group: &str, part: &str) -> Helper {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid", group, "--clear-groups", "--"]).arg(&self.program);
        command.env_remove("LOCKKEEPER_TEST_SKIPS");
        Helper::start_with(command, part, &self.directory, 0)
    }
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn readers_only_look() {
    let Some(stage) = Stage::set("a_directory_that_one_may_only_read_shows_names_and_lets_no_user_block", 0o755) else {
        return;
    };
    let session = session(&stage.directory);
    let held = block_on(lock(&session, &queue(QUEUE))).unwrap();
    let onlooker = stage.other_user("look");
    onlooker.hear_that(&format!("1 queue {QUEUE} owner {}", std::process::id()));
    onlooker.hear_that("3 files, opened []");
    let waiter = stage.other_user("wait-for-first");
    waiter.hear_that("waiting");
    assert!(waiter.is_silent_for(Duration::from_millis(200)), "the lock is held");
    block_on(held.leave()).unwrap();
    waiter.hear_that("Gone, 0 left");
    // Waiters' messages are for observers, too.
    let mut entry = entry();
    entry.lifetime = Lifetime::Persistent { reason: "moving".into() };
    let ice = block_on(session.enqueue_one(&queue(QUEUE), entry)).unwrap();
    let why = Request::Yield(Revocation::new(Some("please".to_owned()), None));
    assert!(block_on(session.request(&queue(QUEUE), &ice.id, why)).unwrap());
    stage.other_user("ask-in-vain").hear_that("frozen Some(\"moving\") asked Some(\"please\") refused");
}

pub(crate) fn followed_when_one_may() {
    let Some(stage) = Stage::set("a_lock_that_one_may_not_look_into_is_followed_when_one_may", 0o755) else {
        return;
    };
    let session = session(&stage.directory);
    let held = [QUEUE, "hidden"].map(|name| block_on(lock(&session, &queue(name))).unwrap());
    let hidden = stage.directory.join("queues/hidden");
    allow(&hidden, 0o700);
    let follower = stage.other_user("follow");
    follower.hear_that(QUEUE);
    allow(&hidden, 0o755);
    follower.hear_that(&format!("hidden {QUEUE}"));
    allow(&hidden, 0o700);
    follower.hear_that(QUEUE);
    for place in held {
        block_on(place.leave()).unwrap();
    }
    follower.hear_that("");
}

pub(crate) fn writers_take_part() {
    let Some(stage) = Stage::set("a_directory_that_all_may_write_lets_two_users_exclude_one_another", 0o777) else {
        return;
    };
    // The other user makes everything, and we enter; then the other way round.
    let mut theirs = stage.other_user("hold");
    theirs.hear_that("ready");
    theirs.hear_that("held");
    let session = session(&stage.directory);
    let mut place = block_on(Place::join(&session, &queue(QUEUE))).unwrap();
    assert_eq!(place.joined.view.contenders.len(), 2);
    theirs.go_on();
    theirs.hear_that("left");
    block_on(soon("the grant", place.granted())).unwrap();
    let later = stage.other_user("hold");
    later.hear_that("ready");
    assert!(later.is_silent_for(Duration::from_millis(200)), "two users hold the lock");
    block_on(place.leave()).unwrap();
    later.hear_that("held");
}

/// Asserts that two users exclude one another, the first of whom makes all that there is.
fn assert_exclude(stage: &Stage, first: (u32, u32), second: (u32, u32)) {
    let hold = |(user, group): (u32, u32)| stage.user(&user.to_string(), &group.to_string(), "hold");
    let mut holder = hold(first);
    holder.hear_that("ready");
    holder.hear_that("held");
    let mut waiter = hold(second);
    waiter.hear_that("ready");
    assert!(waiter.is_silent_for(Duration::from_millis(200)), "two users hold the lock");
    holder.go_on();
    holder.hear_that("left");
    waiter.hear_that("held");
    waiter.go_on();
    waiter.hear_that("left");
}

pub(crate) fn all_rights_count() {
    let (owner, member) = ((OWNER, OWNER), (MEMBER, GROUP));
    for mode in [0o770, 0o775, 0o2770, 0o2775] {
        for (first, second) in [(owner, member), (member, owner)] {
            let test = "an_owner_outside_of_the_group_and_its_members_exclude_one_another";
            let Some(stage) = Stage::set(test, mode) else { return };
            chown(&stage.directory, Some(OWNER), Some(GROUP)).unwrap();
            allow(&stage.directory, mode);
            assert_exclude(&stage, first, second);
            let refused = stage.other_user("try-session").hear();
            assert!(refused.starts_with("Refused Permanent"), "{mode:o}: {refused}");
        }
    }
}

pub(crate) fn root_shuts_no_user_out() {
    let Some(stage) = Stage::set("what_root_has_locked_in_a_users_directory_is_open_to_that_user", 0o700) else {
        return;
    };
    chown(&stage.directory, Some(OWNER), Some(GROUP)).unwrap();
    assert_exclude(&stage, (0, 0), (OWNER, OWNER));
}

pub(crate) fn others_ask_and_thaw() {
    let Some(stage) = Stage::set("what_one_user_has_frozen_another_thaws_and_asks_and_breaks", 0o777) else {
        return;
    };
    let session = session(&stage.directory);
    let ice = stage.other_user("freeze");
    let ticket = Ticket::from_bits(ice.hear().parse().unwrap());
    drop(ice);
    block_on(session.withdraw(&queue(QUEUE), ticket)).unwrap();
    assert!(block_on(session.view(&queue(QUEUE), Freshness::Latest, Extent::Whole)).unwrap().contenders.is_empty());
    // We ask and break the other user's contender, whose files we take for ours, and the other way round.
    let theirs = stage.other_user("be-asked");
    let id = ContenderId::new(theirs.hear());
    let why = Revocation::new(Some("please".to_owned()), None);
    assert!(block_on(session.request(&queue(QUEUE), &id, Request::Yield(why))).unwrap());
    theirs.hear_that("asked: please");
    let token = block_on(backend(&stage.directory).admin().inspect(&queue(QUEUE))).unwrap()[0].token.unwrap();
    assert!(block_on(session.request(&queue(QUEUE), &id, Request::Break { token })).unwrap());
    theirs.hear_that("Broken");
}

pub(crate) fn refused_by_name() {
    let Some(stage) = Stage::set("a_directory_that_one_may_not_write_is_refused_by_name", 0o755) else {
        return;
    };
    let empty = stage.other_user("try-session").hear();
    assert!(empty.starts_with("Refused Permanent"), "{empty}");
    assert!(empty.contains(stage.directory.to_str().unwrap()) && empty.contains(OTHER_USER), "{empty}");
    drop(block_on(lock(&session(&stage.directory), &queue(QUEUE))).unwrap());
    let used = stage.other_user("try-session").hear();
    assert!(used.starts_with("Refused Permanent") && used.contains(stage.directory.to_str().unwrap()), "{used}");
}
