//! Paths of nodes by the rules of Apache's `PathUtils`, checked once; the chroot that a client lives under; and the
//! sequence numbers that the service appends to names.
//!
//! A sequence number is a 32-bit signed counter of the parent, written with at least ten characters. It wraps to
//! negative numbers and starts anew with a new parent; code that orders by it must allow for both.

use std::error::Error;
use std::fmt;

/// Names a node: absolute, normal, free of characters that ZooKeeper refuses.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ZnodePath(String);

/// Names a node to be created with a sequence number appended; may therefore end in a slash.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SequentialPath(String);

/// Says why a string is not a valid path, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathError {
    path: String,
    reason: PathErrorReason,
}

/// Why a string is not a valid path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names of the variants' fields say it")]
pub enum PathErrorReason {
    /// It is empty.
    Empty,
    /// It does not start with a slash.
    NotAbsolute,
    /// It ends in a slash and is not the root.
    TrailingSlash,
    /// There is a name of no characters.
    EmptyName { at: usize },
    /// There is a name `.` or `..`.
    Relative { at: usize },
    /// There is a character that ZooKeeper refuses.
    Character { character: char, at: usize },
    /// A single name was expected, and there is a slash in it.
    NotOneName,
}

/// How much of a refused path an error shows, in characters: what came from a peer may be a mebibyte.
const PATH_SHOWN_CHARACTERS_MAX: usize = 200;

/// Checks a path by the rules of Apache's `PathUtils.validatePath`.
///
/// Among them is one that surprises: characters beyond the basic plane are refused, since Java sees their surrogates.
///
/// # Errors
///
/// Fails with the first reason to refuse it.
pub fn validate_path(path: &str) -> Result<(), PathErrorReason> {
    if path.is_empty() {
        return Err(PathErrorReason::Empty);
    }
    let Some(names) = path.strip_prefix('/') else {
        return Err(PathErrorReason::NotAbsolute);
    };
    if names.is_empty() {
        return Ok(());
    }
    if names.ends_with('/') {
        return Err(PathErrorReason::TrailingSlash);
    }
    let mut at = 1;
    for name in names.split('/') {
        validate_name(name, at)?;
        at += name.len() + 1;
    }
    Ok(())
}

fn validate_name(name: &str, at: usize) -> Result<(), PathErrorReason> {
    match name {
        "" => return Err(PathErrorReason::EmptyName { at }),
        "." | ".." => return Err(PathErrorReason::Relative { at }),
        _ => (),
    }
    match name.char_indices().find(|(_, character)| is_refused(*character)) {
        Some((offset, character)) => Err(PathErrorReason::Character { character, at: at + offset }),
        None => Ok(()),
    }
}

/// The ranges of `PathUtils`: null, control characters, surrogates and private use, specials; and with the surrogates
/// everything beyond the basic plane.
const fn is_refused(character: char) -> bool {
    matches!(character, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

impl ZnodePath {
    /// The root, `/`.
    pub fn root() -> Self {
        Self("/".into())
    }

    /// Parses a path.
    pub fn parse(path: impl Into<String>) -> Result<Self, PathError> {
        let path = path.into();
        match validate_path(&path) {
            Ok(()) => Ok(Self(path)),
            Err(reason) => Err(PathError::new(&path, reason)),
        }
    }

    /// The path as it goes over the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The parent; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let (parent, _) = self.0.rsplit_once('/').filter(|_| !self.is_root())?;
        Some(if parent.is_empty() { Self::root() } else { Self(parent.into()) })
    }

    /// The child called `name`.
    ///
    /// # Errors
    ///
    /// Fails if that is not one name by the rules for paths.
    pub fn child(&self, name: &str) -> Result<Self, PathError> {
        if name.contains('/') {
            return Err(PathError::new(name, PathErrorReason::NotOneName));
        }
        Self::parse(if self.is_root() { format!("/{name}") } else { format!("{}/{name}", self.0) })
    }

    /// Whether `other` is this node or lies below it.
    pub fn contains(&self, other: &Self) -> bool {
        self.is_root() || other.0.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// This node, its parent, and so on up to the root.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), Self::parent)
    }
}

impl SequentialPath {
    /// Parses the path that a sequence number will be appended to.
    ///
    /// # Errors
    ///
    /// Fails if the path with a digit appended is not valid, as Apache checks it.
    pub fn parse(path: impl Into<String>) -> Result<Self, PathError> {
        let path = path.into();
        match validate_path(&format!("{path}1")) {
            Ok(()) => Ok(Self(path)),
            Err(reason) => Err(PathError::new(&path, reason)),
        }
    }

    /// The path as it goes over the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PathError {
    fn new(path: &str, reason: PathErrorReason) -> Self {
        Self { path: path.chars().take(PATH_SHOWN_CHARACTERS_MAX).collect(), reason }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} is not a valid node path: {}", self.path, self.reason)
    }
}

impl fmt::Display for PathErrorReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("it is empty"),
            Self::NotAbsolute => formatter.write_str("it does not start with /"),
            Self::TrailingSlash => formatter.write_str("it ends in /"),
            Self::EmptyName { at } => write!(formatter, "an empty name at byte {at}"),
            Self::Relative { at } => write!(formatter, "a relative name at byte {at}"),
            Self::Character { character, at } => write!(formatter, "the character {character:?} at byte {at}"),
            Self::NotOneName => formatter.write_str("one name was expected, and there is a / in it"),
        }
    }
}

impl Error for PathError {}

impl fmt::Display for ZnodePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<ZnodePath> for String {
    fn from(path: ZnodePath) -> Self {
        path.0
    }
}

impl From<SequentialPath> for String {
    fn from(path: SequentialPath) -> Self {
        path.0
    }
}

/// Maps the paths a client speaks of to those the server knows, and back.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Chroot(ZnodePath);

impl Chroot {
    /// Takes `path` for the root; the root itself for no chroot at all.
    pub const fn new(path: ZnodePath) -> Self {
        Self(path)
    }

    /// The node taken for the root.
    pub const fn path(&self) -> &ZnodePath {
        &self.0
    }

    /// The server's path for the client's `path`.
    pub fn join(&self, path: &ZnodePath) -> ZnodePath {
        if self.0.is_root() {
            return path.clone();
        }
        if path.is_root() {
            return self.0.clone();
        }
        ZnodePath::parse(format!("{}{path}", self.0)).expect("a path under a path is a path")
    }

    /// The server's path for the client's path of a sequential node.
    pub fn join_sequential(&self, path: &SequentialPath) -> SequentialPath {
        if self.0.is_root() {
            return path.clone();
        }
        SequentialPath::parse(format!("{}{}", self.0, path.as_str())).expect("a path under a path is a path")
    }

    /// The client's path for `path`, which came from the server; `None` if it lies outside.
    ///
    /// # Errors
    ///
    /// Fails if the server sent a path that is not valid.
    pub fn strip(&self, path: &str) -> Result<Option<ZnodePath>, PathError> {
        let path = ZnodePath::parse(path)?;
        if self.0.is_root() {
            return Ok(Some(path));
        }
        if path == self.0 {
            return Ok(Some(ZnodePath::root()));
        }
        if !self.0.contains(&path) {
            return Ok(None);
        }
        ZnodePath::parse(&path.as_str()[self.0.as_str().len()..]).map(Some)
    }
}

/// How many characters a sequence number takes; −1000000000 and below take one more.
pub const SEQUENCE_DIGITS: usize = 10;

/// Writes a sequence number as the service does.
pub fn format_sequence(sequence: i32) -> String {
    format!("{sequence:0width$}", width = SEQUENCE_DIGITS)
}

/// Reads what follows a known prefix as a sequence number; `None` if the service does not write numbers in that form.
///
/// The prefix has to be known: the minus sign of a negative number looks like the end of a prefix such as `lock-`.
pub fn parse_sequence(text: &str) -> Option<i32> {
    let sequence = text.parse::<i32>().ok()?;
    // Each name of a queue is read so at each change: nothing is written to compare it with.
    let length = SEQUENCE_DIGITS + usize::from(sequence <= -1_000_000_000);
    let is_written_so = text.len() == length && text.starts_with('-') == (sequence < 0) && !text.starts_with('+');
    is_written_so.then_some(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_apache_accepts_are_accepted() {
        for path in ["/", "/a", "/a/b", "/...", "/.a", "/a.", "/a..b/c", "/ü/日本", "/a b", "/\u{a0}", "/\u{ffef}"] {
            assert_eq!(validate_path(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn paths_that_apache_refuses_are_refused_with_the_reason() {
        use PathErrorReason::*;
        for (path, reason) in [
            ("", Empty),
            ("a", NotAbsolute),
            ("/a/", TrailingSlash),
            ("//", TrailingSlash),
            ("/a//b", EmptyName { at: 3 }),
            ("/.", Relative { at: 1 }),
            ("/a/..", Relative { at: 3 }),
            ("/a/./b", Relative { at: 3 }),
            ("/\0", Character { character: '\0', at: 1 }),
            ("/a\u{1f}", Character { character: '\u{1f}', at: 2 }),
            ("/\u{7f}", Character { character: '\u{7f}', at: 1 }),
            ("/ü\u{9f}", Character { character: '\u{9f}', at: 3 }),
            ("/\u{e000}", Character { character: '\u{e000}', at: 1 }),
            ("/\u{fffd}", Character { character: '\u{fffd}', at: 1 }),
            ("/😀", Character { character: '😀', at: 1 }),
        ] {
            assert_eq!(validate_path(path), Err(reason), "{path:?}");
        }
    }

    #[test]
    fn only_a_sequential_path_may_end_in_a_slash() {
        assert_eq!(SequentialPath::parse("/a/").unwrap().as_str(), "/a/");
        assert_eq!(SequentialPath::parse("/").unwrap().as_str(), "/");
        assert!(ZnodePath::parse("/a/").is_err());
        // With the number appended a lone dot is no longer a relative name.
        assert!(SequentialPath::parse("/a/.").is_ok());
        assert!(SequentialPath::parse("/a//").is_err());
        assert!(SequentialPath::parse("").is_err());
    }

    #[test]
    fn parents_children_and_ancestors_fit_together() {
        let path = ZnodePath::parse("/a/b").unwrap();
        assert_eq!(path.parent().unwrap().as_str(), "/a");
        assert_eq!(path.ancestors().map(String::from).collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(ZnodePath::root().parent(), None);
        assert_eq!(ZnodePath::root().child("x").unwrap().as_str(), "/x");
        for name in ["", "a/b", "..", "\0"] {
            assert!(path.child(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_node_contains_itself_and_what_is_below_but_no_namesake() {
        let parse = |path: &str| ZnodePath::parse(path).unwrap();
        assert!(parse("/a").contains(&parse("/a")));
        assert!(parse("/a").contains(&parse("/a/b")));
        assert!(!parse("/a").contains(&parse("/ab")));
        assert!(ZnodePath::root().contains(&parse("/a")));
    }

    #[test]
    fn an_error_shows_the_beginning_of_a_long_path() {
        let error = ZnodePath::parse("x".repeat(1 << 20)).unwrap_err();
        assert!(error.to_string().len() < 300);
    }

    fn path(path: &str) -> ZnodePath {
        ZnodePath::parse(path).unwrap()
    }

    #[test]
    fn joining_and_stripping_are_inverse() {
        for root in ["/", "/app", "/app/x"] {
            let chroot = Chroot::new(path(root));
            for inner in ["/", "/a", "/a/b", "/app"] {
                let outer = chroot.join(&path(inner));
                assert_eq!(chroot.strip(outer.as_str()).unwrap(), Some(path(inner)), "{inner} under {root}");
            }
        }
        assert_eq!(Chroot::new(path("/app")).join(&path("/a")).as_str(), "/app/a");
        assert_eq!(Chroot::new(path("/app")).join(&path("/")).as_str(), "/app");
    }

    #[test]
    fn a_sequential_path_keeps_its_open_end() {
        let chroot = Chroot::new(path("/app"));
        assert_eq!(chroot.join_sequential(&SequentialPath::parse("/").unwrap()).as_str(), "/app/");
        assert_eq!(chroot.join_sequential(&SequentialPath::parse("/l-").unwrap()).as_str(), "/app/l-");
    }

    #[test]
    fn a_path_outside_the_chroot_is_told_apart() {
        let chroot = Chroot::new(path("/app"));
        assert_eq!(chroot.strip("/other").unwrap(), None);
        assert_eq!(chroot.strip("/application").unwrap(), None);
        assert!(chroot.strip("app").is_err());
    }

    #[test]
    fn numbers_are_written_as_the_service_writes_them() {
        for (sequence, text) in [
            (0, "0000000000"),
            (42, "0000000042"),
            (i32::MAX, "2147483647"),
            (-5, "-000000005"),
            (-999_999_999, "-999999999"),
            (-1_000_000_000, "-1000000000"),
            (i32::MIN, "-2147483648"),
        ] {
            assert_eq!(format_sequence(sequence), text);
            assert_eq!(parse_sequence(text), Some(sequence));
        }
    }

    #[test]
    fn other_texts_are_not_sequence_numbers() {
        for text in ["", "1", "000000001", "00000000001", "+000000001", "2147483648", "000000000a", " 000000001"]
            .into_iter()
            .chain(["-0000000005", "-000000000", "-00000001", "-2147483649", "01000000000"])
        {
            assert_eq!(parse_sequence(text), None, "{text:?}");
        }
    }
}
