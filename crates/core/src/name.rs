//! The names of locks, of their queues, and patterns of them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Operation};

/// The longest name, in bytes of UTF-8: room enough for a path or a sentence, and short in every log line.
pub const NAME_BYTES_MAX: usize = 200;

/// The longest encoded name, in bytes: file systems end at 255, and a backend adds further marks.
const ENCODED_BYTES_MAX: usize = 200;

/// How much of a longer encoded name is kept before its digest, in bytes.
const ENCODED_PREFIX_BYTES: usize = 120;

/// How much of the SHA-256 digest follows, in bytes: with 128 bits, two names never have the same digest.
const DIGEST_BYTES: usize = 16;

/// The name of a lock's queue: 1 to 200 bytes of UTF-8 without control characters.
///
/// A name that begins with `/` is the path of a ZooKeeper node where the service is ZooKeeper. So that a program can
/// move from one service to another, such a name is valid on every service only if ZooKeeper accepts it as a path:
/// `/a//b`, `/a/`, `/a/../b` and characters that ZooKeeper refuses are not valid.
///
/// Two names are the same lock only if they are equal byte for byte: case, dots, slashes and spaces all count.
///
/// ```
/// use lockkeeper::QueueName;
///
/// let name: QueueName = "reports/nightly".parse()?;
/// assert_eq!(name.encoded(), "reports%2Fnightly");
/// assert!("".parse::<QueueName>().is_err());
/// # Ok::<(), lockkeeper::Error>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct QueueName {
    text: Arc<str>,
    part: Part,
}

/// Which of a lock's queues: most locks have one, a semaphore has two.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(clippy::exhaustive_enums, reason = "each backend stores every one")]
pub enum Part {
    /// The one queue of a mutex, a read/write lock, an election or a barrier.
    #[default]
    Line,
    /// The contenders that wait to acquire permits of a semaphore; the first of them looks at the permits.
    Waiters,
    /// The held permits of a semaphore, in no order.
    Permits,
}

impl Part {
    /// Names the parts on the other side of the lock: it is used either through its line or through the other two. A
    /// view of a part also shows what the first contender on the other side asks for.
    pub const fn opposite(self) -> &'static [Self] {
        match self {
            Self::Line => &[Self::Permits, Self::Waiters],
            Self::Waiters | Self::Permits => &[Self::Line],
        }
    }
}

impl QueueName {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if it is empty, longer than [`NAME_BYTES_MAX`] or has a control character, or begins
    /// with `/` and is not a valid path of a ZooKeeper node.
    pub fn new(name: &str) -> Result<Self, Error> {
        let refuse = |why: String| Err(Error::permanent(ErrorKind::InvalidName, Operation::Configure, why));
        if name.is_empty() {
            return refuse("a lock's name is empty".to_owned());
        }
        if name.len() > NAME_BYTES_MAX {
            return refuse(format!("a lock's name has {} bytes; the limit is {NAME_BYTES_MAX}", name.len()));
        }
        if let Some(position) = name.find(char::is_control) {
            return refuse(format!("a lock's name has a control character at byte {position}: {name:?}"));
        }
        if let Some(nodes) = name.strip_prefix('/')
            && let Some(why) = refused_path(nodes)
        {
            return refuse(format!("a lock's name that begins with `/` is a node's path, and {name:?} {why}"));
        }
        Ok(Self { text: name.into(), part: Part::Line })
    }

    /// Returns the name as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns which of the lock's queues this is; the same name with another part is another queue of the same lock.
    pub const fn part(&self) -> Part {
        self.part
    }

    /// Names another queue of the same lock.
    #[must_use]
    pub fn with_part(&self, part: Part) -> Self {
        Self { text: self.text.clone(), part }
    }

    /// Returns the form in which services store the name: at most 200 bytes of `A–Z a–z 0–9 - _ . ~ %`.
    ///
    /// Every other byte is percent-encoded, and so are the names `.` and `..`. A form that would be longer is cut after
    /// 120 bytes and continued with `~` and 32 hexadecimal digits of the name's SHA-256, and so is one that already
    /// looks like that. Such a form cannot be decoded; [`QueueName::is_digested`] tells whether a name has one.
    pub fn encoded(&self) -> String {
        let encoded = percent_encode(&self.text);
        if !needs_digest(&encoded) {
            return encoded;
        }
        let digest = Sha256::digest(self.text.as_bytes());
        let mut cut = encoded[..ENCODED_PREFIX_BYTES.min(encoded.len())].to_owned();
        cut.push('~');
        for byte in &digest[..DIGEST_BYTES] {
            cut.push(hex_digit(byte >> 4).to_ascii_lowercase());
            cut.push(hex_digit(byte & 15).to_ascii_lowercase());
        }
        cut
    }

    /// Tells whether [`QueueName::encoded`] holds a digest, so that the name itself must be stored beside it.
    pub fn is_digested(&self) -> bool {
        needs_digest(&percent_encode(&self.text))
    }

    /// Tells whether a text is an encoded form that holds a digest, so that it cannot be decoded.
    pub fn is_digest(encoded: &str) -> bool {
        let bytes = encoded.as_bytes();
        looks_digested(encoded) && bytes[ENCODED_PREFIX_BYTES + 1..].iter().all(u8::is_ascii_hexdigit)
    }

    /// Reads a name back from its encoded form, if it is one that was not cut.
    pub fn decode(encoded: &str) -> Option<Self> {
        let bytes = encoded.as_bytes();
        let mut decoded = Vec::with_capacity(bytes.len());
        let mut position = 0;
        while position < bytes.len() {
            if bytes[position] == b'%' {
                let digits = encoded.get(position + 1..position + 3)?;
                decoded.push(u8::from_str_radix(digits, 16).ok()?);
                position += 3;
            } else {
                decoded.push(bytes[position]);
                position += 1;
            }
        }
        let name = Self::new(std::str::from_utf8(&decoded).ok()?).ok()?;
        (name.encoded() == encoded).then_some(name)
    }
}

/// Returns why the rest of a path after its first slash cannot lead to a node, by the rules of Apache's `PathUtils`; in
/// addition, the root cannot be a lock.
fn refused_path(nodes: &str) -> Option<String> {
    if nodes.is_empty() {
        return Some("is the root".to_owned());
    }
    // Private use, and specials; beyond the basic plane Java sees surrogates, which are refused too.
    let is_refused = |character: &char| matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..);
    if let Some(character) = nodes.chars().find(is_refused) {
        return Some(format!("has the character U+{:04X}, which ZooKeeper refuses", u32::from(character)));
    }
    nodes.split('/').find_map(|node| match node {
        "" => Some("has a node without a name".to_owned()),
        "." | ".." => Some(format!("has a node named `{node}`")),
        _ => None,
    })
}

/// A form that is too long needs a digest, and so does a short one that could be taken for a digest of another name.
fn needs_digest(encoded: &str) -> bool {
    encoded.len() > ENCODED_BYTES_MAX || looks_digested(encoded)
}

fn looks_digested(encoded: &str) -> bool {
    encoded.len() == ENCODED_PREFIX_BYTES + 1 + 2 * DIGEST_BYTES && encoded.as_bytes()[ENCODED_PREFIX_BYTES] == b'~'
}

fn percent_encode(name: &str) -> String {
    let dots_only = name == "." || name == "..";
    let mut encoded = String::with_capacity(name.len());
    for &byte in name.as_bytes() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') || (byte == b'.' && !dots_only);
        if plain {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(hex_digit(byte >> 4));
            encoded.push(hex_digit(byte & 15));
        }
    }
    encoded
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).expect("a nibble is one digit").to_ascii_uppercase()
}

impl fmt::Display for QueueName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl FromStr for QueueName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> QueueName {
        QueueName::new(text).unwrap()
    }

    #[test]
    fn a_name_has_1_to_200_bytes_and_no_control_character() {
        assert!(QueueName::new("").is_err());
        assert!(QueueName::new(&"x".repeat(200)).is_ok());
        assert!(QueueName::new(&"x".repeat(201)).is_err());
        assert!(QueueName::new(&"é".repeat(101)).is_err());
        for control in ["a\nb", "\0", "\u{7f}", "a\u{85}"] {
            assert_eq!(QueueName::new(control).unwrap_err().kind(), ErrorKind::InvalidName, "{control:?}");
        }
    }

    #[test]
    fn a_name_that_begins_with_a_slash_is_valid_only_if_it_is_a_nodes_path() {
        for path in ["/a", "/a/b", "/a/.b", "/a b/ä/語", "/a/...", "/zookeeper"] {
            assert!(QueueName::new(path).is_ok(), "{path}");
        }
        for (refused, why) in [
            ("/", "root"),
            ("//", "without a name"),
            ("/a/", "without a name"),
            ("/a//b", "without a name"),
            ("/a/./b", "`.`"),
            ("/..", "`..`"),
            ("/a/\u{e000}", "U+E000"),
            ("/\u{f8ff}", "U+F8FF"),
            ("/\u{fff0}", "U+FFF0"),
            ("/\u{fffd}", "U+FFFD"),
            ("/🔒", "U+1F512"),
        ] {
            let error = QueueName::new(refused).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{refused}");
            assert!(error.to_string().contains(why), "{error}");
        }
        // In other names they are encoded.
        for name in ["a//b", "a/", "a/../b", "🔒", "\u{e000}", "\u{fff0}"] {
            assert!(QueueName::new(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn dots_slashes_and_case_make_different_locks() {
        let names = [".", "..", "...", "a/b", "a%2Fb", "a", "A", "a b", "a+b", "~", "鍵"];
        let encoded: BTreeSet<_> = names.iter().map(|text| name(text).encoded()).collect();
        assert_eq!(encoded.len(), names.len());
        assert!(!encoded.contains(".") && !encoded.contains(".."));
    }

    #[test]
    fn two_hundred_bytes_of_any_script_fit_into_200_encoded_bytes() {
        let first = name(&"é".repeat(100));
        let second = name(&format!("{}è", "é".repeat(99)));
        assert!(first.is_digested() && second.is_digested());
        assert_eq!(first.encoded().len(), 120 + 1 + 32);
        assert_ne!(first.encoded(), second.encoded());
        assert_eq!(QueueName::decode(&first.encoded()), None);
        assert!(QueueName::is_digest(&first.encoded()) && !QueueName::is_digest(first.as_str()));
    }

    #[test]
    fn a_name_that_looks_like_the_digest_of_another_is_another_lock() {
        let forged = name(&format!("{}~{}", "y".repeat(120), "0".repeat(32)));
        assert!(forged.is_digested());
        assert_ne!(forged.encoded(), forged.as_str());
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_to_the_same_name(text in "\\PC{1,60}") {
            if let Ok(name) = QueueName::new(&text) {
                let encoded = name.encoded();
                prop_assert!(encoded.len() <= 200);
                prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~%".contains(&byte)));
                if !name.is_digested() {
                    prop_assert_eq!(QueueName::decode(&encoded), Some(name));
                }
            }
        }

        #[test]
        fn a_foreign_file_name_never_decodes_to_a_name_with_another_encoding(text in "\\PC{0,40}") {
            if let Some(name) = QueueName::decode(&text) {
                prop_assert_eq!(name.encoded(), text);
            }
        }
    }

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
