//! Patterns of lock names: `*` stands for any number of characters, and every other one for itself.

use crate::error::{Error, ErrorKind, Operation};
use crate::name::NAME_BYTES_MAX;

/// A pattern of lock names: `*` stands for any number of characters, also none, and every other character for itself.
///
/// ```
/// use lockkeeper::NamePattern;
///
/// let nightly = NamePattern::new("nightly-*")?;
/// assert!(nightly.matches("nightly-backup") && !nightly.matches("weekly-backup"));
/// # Ok::<(), lockkeeper::Error>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamePattern(String);

impl NamePattern {
    /// Checks a pattern, such as `nightly-*`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if it is empty, longer than [`NAME_BYTES_MAX`] or has a control character.
    pub fn new(text: &str) -> Result<Self, Error> {
        let refuse = |why: String| Err(Error::permanent(ErrorKind::InvalidName, Operation::Configure, why));
        if text.is_empty() {
            return refuse("a pattern of names is empty; `*` stands for all names".to_owned());
        }
        if text.len() > NAME_BYTES_MAX {
            return refuse(format!("a pattern of names has {} bytes; names have {NAME_BYTES_MAX} at most", text.len()));
        }
        if text.contains(char::is_control) {
            return refuse(format!("the pattern {text:?} has a control character, and no name has one"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Tells whether a name is of this pattern.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            // There is no `*`.
            return rest.is_empty();
        };
        for part in parts {
            // The first place leaves the most to the parts behind.
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_all_others_for_themselves() {
        for (pattern, name, is_so) in [
            ("nightly", "nightly", true),
            ("nightly", "nightly2", false),
            ("nightly", "a nightly", false),
            ("nightly-*", "nightly-", true),
            ("nightly-*", "nightly-backup", true),
            ("nightly-*", "nightly", false),
            ("*", "anything", true),
            ("*.db", "a.db.db", true),
            ("a*b", "ab", true),
            ("a*a", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*x*", "x", true),
            ("*x*", "y", false),
            ("**", "", true),
            ("?.[a]", "?.[a]", true),
            ("ä*", "äö", true),
        ] {
            assert_eq!(NamePattern::new(pattern).unwrap().matches(name), is_so, "{pattern} {name}");
        }
    }

    #[test]
    fn what_no_name_can_be_of_is_refused_with_what_is_wrong() {
        for (pattern, what) in [("", "is empty"), ("a\nb", "control character"), (&"x".repeat(201), "201 bytes")] {
            assert!(NamePattern::new(pattern).unwrap_err().to_string().contains(what), "{pattern}");
        }
    }
}
