//! The commands that the README and the guide show: each is one that the command line takes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::parsing::parse;

/// The languages of blocks that show commands.
const LANGUAGES: [&str; 3] = ["sh", "crontab", "ini"];

/// Fewer would mean that the blocks are not found.
const COMMANDS_MIN: usize = 40;

/// The README and the pages of the guide.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_dir(root.join("docs/guide")).expect("the guide can be listed");
    let mut pages: Vec<_> = guide.map(|entry| entry.expect("an entry can be read").path()).collect();
    pages.push(root.join("README.md"));
    pages.sort();
    pages
}

/// The blocks of a page that show commands.
fn blocks(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if LANGUAGES.contains(&language) {
            found.push(block.join("\n"));
        }
    }
    found
}

/// The commands of a script, each as its words.
fn commands(script: &str) -> Vec<Vec<String>> {
    let (mut found, mut words, mut word): (Vec<Vec<String>>, Vec<String>, Option<String>) = Default::default();
    let mut marks = script.chars().peekable();
    while let Some(mark) = marks.next() {
        match mark {
            '#' if word.is_none() => while marks.next_if(|mark| *mark != '\n').is_some() {},
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                word.extend(marks.by_ref().take_while(|inner| *inner != mark));
            }
            '\\' if marks.next_if_eq(&'\n').is_some() => {}
            ' ' | '\n' | ';' => {
                words.extend(word.take());
                if mark != ' ' {
                    found.push(std::mem::take(&mut words));
                }
            }
            mark => word.get_or_insert_default().push(mark),
        }
    }
    words.extend(word);
    found.push(words);
    found
}

/// The calls of our command in a script, also within a text that another command gets.
fn ours(script: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for command in commands(script) {
        // A timer's line has its times before the program, which it names by its path.
        let at = command
            .iter()
            .enumerate()
            .find(|(at, word)| word.ends_with("/lockkeeper") || *at == 0 && *word == "lockkeeper");
        if let Some((at, _)) = at {
            // What a shell would put in has no blank.
            let filled = command[at..].iter().map(|word| if word.contains("$(") { "x" } else { word });
            found.push(filled.map(str::to_owned).collect());
        }
        found.extend(command.iter().filter(|word| word.contains("lockkeeper ")).flat_map(|word| ours(word)));
    }
    found
}

#[test]
fn every_command_that_the_guide_shows_is_one() {
    let mut count = 0;
    for page in pages() {
        for words in
            blocks(&fs::read_to_string(&page).expect("a page can be read")).iter().flat_map(|block| ours(block))
        {
            let line = words.join(" ");
            let asked = parse(words.into_iter().map(OsString::from));
            assert!(asked.is_ok(), "{}: {line}: {asked:?}", page.display());
            count += 1;
        }
    }
    assert!(count >= COMMANDS_MIN, "{count} commands");
}

#[test]
fn commands_are_found_as_a_shell_finds_them() {
    let script = "export A=b # no\nlockkeeper run 'a b' \\\n  -- sh -c '\n  x\n  lockkeeper fence f -- mv \"c d\" e'\n\
        0 * * * *  app  /usr/bin/lockkeeper ls; echo lockkeepers\nExecStart=/usr/local/bin/lockkeeper doctor\n";
    let found: Vec<String> = ours(script).iter().map(|words| words.join("|")).collect();
    assert_eq!(found[1], "lockkeeper|fence|f|--|mv|c d|e");
    assert!(found[0].starts_with("lockkeeper|run|a b|--|sh|-c|"), "{found:?}");
    assert_eq!(found[2..], ["/usr/bin/lockkeeper|ls", "ExecStart=/usr/local/bin/lockkeeper|doctor"]);
    assert!(parse(["lockkeeper", "run", "--no-such", "a", "--", "b"].map(OsString::from)).is_err());
}
