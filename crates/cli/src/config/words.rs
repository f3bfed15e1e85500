//! The four-letter words that a server answers, as they are written: `ruok,mntr`, `*`, or nothing.

use lockkeeper_zk_server::Word;
use serde::de::{self, Deserialize, Deserializer};

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Words(pub(crate) Vec<Word>);

impl Words {
    /// Those that tell nothing of paths and sessions, and are short however much there is.
    pub(crate) const DEFAULT: [Word; 5] = [Word::Srvr, Word::Ruok, Word::Mntr, Word::Stat, Word::Isro];

    /// Reads words with commas between them; `*` is all of them, and an empty text none.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Ok(Self(Vec::new())),
            "*" => Ok(Self(Word::ALL.to_vec())),
            _ => text.split(',').map(|word| parse_one(word.trim())).collect::<Result<_, _>>().map(Self),
        }
    }
}

fn parse_one(word: &str) -> Result<Word, String> {
    word.parse().map_err(|error| format!("`{word}` is {error}; write them as ruok,mntr, or * for all"))
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_with_commas_between_them() {
        assert_eq!(Words::parse("ruok, mntr"), Ok(Words(vec![Word::Ruok, Word::Mntr])));
        assert_eq!(Words::parse("*"), Ok(Words(Word::ALL.to_vec())));
        assert_eq!(Words::parse(""), Ok(Words(Vec::new())));
        for wrong in ["conf", "ruok,", "RUOK", "ruok mntr"] {
            let refusal = Words::parse(wrong).unwrap_err();
            assert!(refusal.contains("not one of ruok, srvr"), "{refusal}");
        }
    }
}
