//! Looking at locks as a user who may only read, and from the prompt of a shell.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::{Holder, Place, Running, copy_command, finish, has_program, is_root};

/// Another user, who owns nothing.
const OTHER_USER: &str = "65534";

#[test]
fn a_user_who_may_only_read_the_directory_waits_until_the_lock_is_left_and_is_told_by_doctor() {
    if !is_root("plays two users") {
        return;
    }
    let place = Place::new();
    fs::set_permissions(place.locks(), Permissions::from_mode(0o755)).unwrap();
    let stage = tempfile::tempdir().unwrap();
    fs::set_permissions(stage.path(), Permissions::from_mode(0o755)).unwrap();
    let program = stage.path().join("lockkeeper");
    copy_command(&program);
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let other_user = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", OTHER_USER, "--regid", OTHER_USER, "--clear-groups", "--"]).arg(&program);
        place.surround(command.args(arguments)).env("HOME", stage.path());
        command
    };
    let holder = place.hold("x");
    assert_eq!(finish(&mut other_user(&["wait", "x", "-w", "200ms"])).code, Some(124));
    let waiting = Running::start(&mut other_user(&["wait", "x"]));
    let line = waiting.said();
    assert!(line.contains("waiting for x") && line.contains("pid"), "{line}");
    holder.end();
    assert_eq!(waiting.end().code, Some(0));
    assert_eq!(finish(&mut other_user(&["wait", "x"])).code, Some(0));
    finish(&mut other_user(&["run", "x", "--", "true"])).assert_refused(125, &[place.locks().to_str().unwrap()]);
    let examined = finish(&mut other_user(&["doctor"]));
    assert_eq!(examined.code, Some(1), "{examined:?}");
    assert!(examined.stdout.contains("warning: this user may not write"), "{examined:?}");
}

#[test]
fn looks_make_no_directory_and_see_what_another_process_makes_later() {
    let place = Place::new();
    let missing = place.notes().join("a/b");
    let look = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("LOCKKEEPER_DIR", &missing);
        command
    };
    for arguments in [&["ls"][..], &["show", "x"], &["wait", "x"], &["doctor"], &["capabilities"]] {
        let ended = finish(&mut look(arguments));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}: {ended:?}");
    }
    let mut watching = Running::start(&mut look(&["show", "--watch", "--json", "x"]));
    assert!(watching.line().contains("\"contenders\":[]"));
    assert!(!missing.parent().unwrap().exists());
    let holder = Holder::start(&mut look(&["run", "x", "--", "sh", "-c", "echo held; read line"]));
    assert!(watching.line().contains("\"state\":\"holder\""));
    watching.kill();
    holder.end();
}

/// A place with three locks that are held, and what a shell prints for a line there.
struct Prompt {
    /// Their holders, which end before the place does.
    _holders: Vec<Holder>,
    place: Place,
}

const NAMES: [&str; 3] = ["nightly backup", "nightly:report", "other"];

impl Prompt {
    fn new() -> Self {
        let place = Place::new();
        Self { _holders: NAMES.iter().map(|name| place.hold(name)).collect(), place }
    }

    /// What a shell offers for each line, as its script prints it: one line for each candidate.
    fn offered(&self, shell: &[&str], script: &str, line: &str) -> Vec<String> {
        let completions = self.place.run(&["completions", shell[0]]).stdout;
        let completions = self.place.file("completions", &completions);
        let mut told = Command::new(shell[0]);
        self.place.surround(told.args(&shell[1..]).args(["-c", script]));
        let said = finish(told.env("SCRIPT", completions).env("LINE", line));
        said.stdout.lines().map(str::to_owned).collect()
    }
}

/// What bash does when a key is pressed, in short.
const BASH: &str = r#"
    source "$SCRIPT"
    COMP_LINE=$LINE COMP_POINT=${#LINE}
    read -ra COMP_WORDS <<< "$LINE"
    [[ $LINE == *' ' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    last=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    _lockkeeper_with_names lockkeeper "$last" "$before"
    ((${#COMPREPLY[@]})) && printf '%s\n' "${COMPREPLY[@]}""#;

#[test]
fn bash_offers_the_names_of_locks_where_one_is_wanted() {
    let prompt = Prompt::new();
    let offered = |line: &str| prompt.offered(&["bash", "--norc", "--noprofile"], BASH, line);
    let all = ["nightly\\ backup", "nightly:report", "other"];
    for line in ["lockkeeper show ", "lockkeeper run -w 10m ", "lockkeeper -v wait ", "lockkeeper ls "] {
        assert_eq!(offered(line), all, "{line}");
    }
    assert_eq!(offered("lockkeeper revoke o"), ["other"]);
    assert_eq!(offered("lockkeeper show nightly:r"), ["report"], "bash keeps what stands before the colon");
    let elsewhere = Place::new();
    let holder = elsewhere.hold("there");
    assert_eq!(offered(&format!("lockkeeper --connect {} show ", elsewhere.service())), ["there"]);
    holder.end();
    for line in ["lockkeeper run -w ", "lockkeeper show other ", "lockkeeper run other -- "] {
        assert!(offered(line).iter().all(|offer| !all.contains(&offer.as_str())), "{line}");
    }
    assert!(offered("lockkeeper run --").contains(&"--permits".to_owned()));
    assert!(offered("lockkeeper re").contains(&"revoke".to_owned()));
}

#[test]
fn fish_offers_the_names_of_locks_where_one_is_wanted() {
    if !has_program("fish") {
        return;
    }
    let prompt = Prompt::new();
    let script = r#"source "$SCRIPT"; complete -C "$LINE""#;
    let offered = |line: &str| prompt.offered(&["fish", "--no-config"], script, line);
    for line in ["lockkeeper show ", "lockkeeper run -w 10m ", "lockkeeper ls "] {
        let offers = offered(line);
        assert!(NAMES.iter().all(|name| offers.iter().any(|offer| offer == name)), "{line}: {offers:?}");
    }
    for line in ["lockkeeper run -w ", "lockkeeper show other ", "lockkeeper "] {
        let offers = offered(line);
        assert!(!offers.iter().any(|offer| NAMES.contains(&offer.as_str())), "{line}: {offers:?}");
    }
}

/// What zsh does when a key is pressed: only within its line editor, so one is started on a separate terminal.
const ZSH: &str = r#"
    zmodload zsh/zpty
    zpty -b shell zsh -f -i
    zpty -w shell 'PROMPT=; unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D'
    zpty -w shell 'zstyle ":completion:*" list-colors ""; LISTMAX=0; stty columns 200'
    zpty -w shell 'comppostfuncs=(tell); tell() { print -r "<count $compstate[nmatches]>"; }'
    zpty -w shell "source \"\$SCRIPT\"; print -r ready-''now"
    zpty -r -m shell out '*ready-now*'
    zpty -n -w shell "$LINE"$'\t'
    zpty -r -m shell out '*<count *>*'
    print -r -- "$out"
    zpty -d shell"#;

#[test]
fn zsh_offers_the_names_of_locks_where_one_is_wanted() {
    if !has_program("zsh") {
        return;
    }
    let prompt = Prompt::new();
    let offered = |line: &str| prompt.offered(&["zsh", "-f"], ZSH, line).join("\n");
    for (line, count) in [
        ("lockkeeper show ", 3),
        ("lockkeeper run -w 10m ot", 1),
        ("lockkeeper ls nightly", 2),
        ("lockkeeper wait zz", 0),
    ] {
        let offers = offered(line);
        assert!(offers.contains(&format!("<count {count}>")), "{line}: {offers}");
    }
}
