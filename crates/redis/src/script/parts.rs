//! Takes from the common beginning what a script needs: each call of a script makes all functions anew that are in it.

/// Joins a script to those parts of the beginning that it needs, in their order. A part begins with each `local` at
/// the left margin, with the comment above it; a script needs a part if it, or another part that it needs, has a name
/// of it.
pub(super) fn joined(beginning: &str, script: &str) -> String {
    let mut text = script.to_owned();
    for part in parts(beginning).iter().rev() {
        if names(part).any(|name| words(&text).any(|word| word == name)) {
            text = format!("{part}{text}");
        }
    }
    text
}

fn parts(beginning: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    // Comments that may belong to the next part.
    let mut comments = String::new();
    for line in beginning.split_inclusive('\n') {
        if line.starts_with("--") {
            comments.push_str(line);
            continue;
        }
        if line.starts_with("local ") {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(&std::mem::take(&mut comments));
            part.push_str(line);
        }
    }
    parts
}

/// The names that a part gives to what is behind it.
fn names(part: &str) -> impl Iterator<Item = &str> {
    let line = part.lines().find_map(|line| line.strip_prefix("local ")).unwrap_or_default();
    let listed = line.strip_prefix("function ").map_or(line, |function| function.split('(').next().unwrap_or_default());
    words(listed.split('=').next().unwrap_or_default())
}

/// The words of a text, without its comments.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    code.flat_map(|line| line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_'))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGINNING: &str = "-- What is here.

local one, two = 1, 2
if one then
  two = 3
end

-- Adds.
local function add() return two + 1 end
local function other() return add() end
";

    #[test]
    fn a_script_has_what_it_names_and_what_that_names_and_no_more() {
        assert_eq!(joined(BEGINNING, "return 7"), "return 7");
        let with_add = joined(BEGINNING, "-- Not other.\nreturn add()");
        assert!(with_add.contains("local one, two = 1, 2\nif one then\n  two = 3\nend\n"), "{with_add}");
        assert!(with_add.contains("-- Adds.\nlocal function add()"), "{with_add}");
        assert!(!with_add.contains("function other"), "{with_add}");
    }
}
