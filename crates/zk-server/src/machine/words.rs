//! The four-letter words there are, and which of them are answered.

use std::fmt;
use std::str::FromStr;

/// The words Apache knows and this server never answers.
const UNKNOWN_HERE: [&str; 9] = ["conf", "crst", "dirs", "gtmk", "hash", "srst", "stmk", "wchc", "cdig"];

/// A four-letter word that this server can answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Word {
    /// Whether all is well.
    Ruok,
    /// The server and its counts.
    Srvr,
    /// The same, and the clients' addresses.
    Stat,
    /// Counts, a line each.
    Mntr,
    /// The connections with their sessions.
    Cons,
    /// The sessions with their ephemeral nodes. As long as there are many of them.
    Dump,
    /// How many watches there are. Looks at each.
    Wchs,
    /// The watches by path. As long as there are many of them.
    Wchp,
    /// The environment.
    Envi,
    /// Whether writes are served, for clients that look for a server.
    Isro,
}

impl Word {
    /// Each of them.
    pub const ALL: [Self; 10] = [
        Self::Ruok,
        Self::Srvr,
        Self::Stat,
        Self::Mntr,
        Self::Cons,
        Self::Dump,
        Self::Wchs,
        Self::Wchp,
        Self::Envi,
        Self::Isro,
    ];

    /// The word as it is sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ruok => "ruok",
            Self::Srvr => "srvr",
            Self::Stat => "stat",
            Self::Mntr => "mntr",
            Self::Cons => "cons",
            Self::Dump => "dump",
            Self::Wchs => "wchs",
            Self::Wchp => "wchp",
            Self::Envi => "envi",
            Self::Isro => "isro",
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Says that a text is not a word that this server can answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownWord;

impl fmt::Display for UnknownWord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = Word::ALL.iter().map(|word| word.as_str()).collect();
        write!(formatter, "not one of {}", words.join(", "))
    }
}

impl std::error::Error for UnknownWord {}

impl FromStr for Word {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|word| word.as_str() == text).ok_or(UnknownWord)
    }
}

/// The words that a server answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WordSet(u16);

impl WordSet {
    /// All of them.
    pub const ALL: Self = Self(u16::MAX);

    /// What the first four bytes of a connection ask for.
    pub(super) fn parse(self, head: &[u8]) -> FirstBytes {
        if let Some(word) = Word::ALL.into_iter().find(|word| word.as_str().as_bytes() == head) {
            return if self.0 & bit(word) == 0 { FirstBytes::Refused(word.as_str()) } else { FirstBytes::Word(word) };
        }
        let unknown = UNKNOWN_HERE.into_iter().find(|word| word.as_bytes() == head);
        unknown.map_or(FirstBytes::Nothing, FirstBytes::Refused)
    }
}

impl FromIterator<Word> for WordSet {
    fn from_iter<Words: IntoIterator<Item = Word>>(words: Words) -> Self {
        Self(words.into_iter().fold(0, |set, word| set | bit(word)))
    }
}

const fn bit(word: Word) -> u16 {
    1 << word as u16
}

/// What the first four bytes of a connection are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FirstBytes {
    /// A word that is answered.
    Word(Word),
    /// A word that is not.
    Refused(&'static str),
    /// No word.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_answered_if_it_is_in_the_set() {
        let few = WordSet::from_iter([Word::Ruok, Word::Mntr]);
        assert_eq!(few.parse(b"ruok"), FirstBytes::Word(Word::Ruok));
        assert_eq!(few.parse(b"wchp"), FirstBytes::Refused("wchp"));
        assert_eq!(few.parse(b"conf"), FirstBytes::Refused("conf"));
        assert_eq!(few.parse(&[0, 0, 0, 45]), FirstBytes::Nothing);
        for word in Word::ALL {
            assert_eq!(word.as_str().parse(), Ok(word));
            assert_eq!(WordSet::ALL.parse(word.as_str().as_bytes()), FirstBytes::Word(word));
            assert_eq!(WordSet::from_iter([]).parse(word.as_str().as_bytes()), FirstBytes::Refused(word.as_str()));
        }
        assert_eq!("RUOK".parse::<Word>(), Err(UnknownWord));
    }
}
