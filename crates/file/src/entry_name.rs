//! A contender's file name, which is all that is stored of it: place in line, ticket, mode and owner.
//!
//! `<number, 20 digits>-<ticket, 32 hexadecimal digits>-<m|r|w>-<pid>-<host>-<command>`. Since the name says it all,
//! whoever may list a queue's directory sees who stands in it, and needs no further system call nor any right to do more.

use std::sync::Arc;

use lockkeeper_core::{Contender, ContenderId, Entry, FencingToken, Mode, Owner, Ticket};

/// The width of the number, in digits: as wide as the greatest 64-bit number, so that names sort as numbers do.
const NUMBER_DIGITS: usize = 20;

/// The width of the ticket, in hexadecimal digits.
const TICKET_DIGITS: usize = 32;

/// The longest host, in bytes of its encoded form: a label of the domain name system has 63.
const HOST_BYTES_MAX: usize = 63;

/// The longest command, in bytes of its encoded form, so that the whole name stays within the 255 bytes of a file name:
/// 20 + 32 + 1 + 10 (pid) + 63 + 124 and five dashes.
const COMMAND_BYTES_MAX: usize = 124;

/// A parsed file name of a contender.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EntryName {
    pub(crate) token: FencingToken,
    pub(crate) ticket: Ticket,
    pub(crate) mode: Mode,
    file_name: Arc<str>,
}

impl EntryName {
    /// Composes the name of an entry that got this number; `None` for a mode that files have no letter for.
    pub(crate) fn compose(token: FencingToken, entry: &Entry) -> Option<Self> {
        let letter = mode_letter(entry.mode)?;
        let mut file_name = format!("{:020}-{}-{letter}-{}-", token.as_u64(), entry.ticket, entry.owner.pid);
        encode_cut(&entry.owner.host, HOST_BYTES_MAX, &mut file_name);
        file_name.push('-');
        encode_cut(&entry.owner.command, COMMAND_BYTES_MAX, &mut file_name);
        Some(Self { token, ticket: entry.ticket, mode: entry.mode, file_name: file_name.into() })
    }

    /// Reads a file name; `None` if it is none of ours.
    pub(crate) fn parse(file_name: &str) -> Option<Self> {
        let mut parts = file_name.splitn(6, '-');
        let number = parts.next().filter(|digits| is_number(digits, NUMBER_DIGITS))?;
        let token = FencingToken::new(number.parse().ok()?, 0)?;
        let ticket = parts.next().filter(|digits| is_ticket(digits))?;
        let ticket = Ticket::from_bits(u128::from_str_radix(ticket, 16).ok()?);
        let mode = mode_of(parts.next()?)?;
        let _pid: u32 = parts.next().filter(|digits| is_number(digits, digits.len()))?.parse().ok()?;
        let (_host, _command) = (parts.next()?, parts.next()?);
        Some(Self { token, ticket, mode, file_name: file_name.into() })
    }

    /// Returns the name as it stands in the directory.
    pub(crate) fn as_str(&self) -> &str {
        &self.file_name
    }

    /// Returns the name as the identity of the contender.
    pub(crate) fn id(&self) -> ContenderId {
        ContenderId::new(self.file_name.clone())
    }

    /// Returns the contender, as a view shows it.
    pub(crate) fn contender(&self) -> Contender {
        Contender { id: self.id(), ticket: Some(self.ticket), mode: self.mode }
    }

    /// Reads who it is.
    pub(crate) fn owner(&self) -> Option<Owner> {
        let mut parts = self.file_name.splitn(6, '-').skip(3);
        let pid = parts.next()?.parse().ok()?;
        Some(Owner::new(decode(parts.next()?), pid, decode(parts.next()?)))
    }
}

fn is_number(text: &str, digits: usize) -> bool {
    !text.is_empty() && text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_ticket(text: &str) -> bool {
    text.len() == TICKET_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn mode_letter(mode: Mode) -> Option<char> {
    match mode {
        Mode::Mutex => Some('m'),
        Mode::Read => Some('r'),
        Mode::Write => Some('w'),
        _ => None,
    }
}

fn mode_of(letter: &str) -> Option<Mode> {
    match letter {
        "m" => Some(Mode::Mutex),
        "r" => Some(Mode::Read),
        "w" => Some(Mode::Write),
        _ => None,
    }
}

/// Appends `text` percent-encoded, cut between two characters so that at most `bytes_max` bytes are added.
fn encode_cut(text: &str, bytes_max: usize, into: &mut String) {
    let end = into.len() + bytes_max;
    let mut bytes = [0; 4];
    for character in text.chars() {
        // A dash ends a part of the name, so it is encoded too.
        if character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '~') {
            if into.len() + 1 > end {
                return;
            }
            into.push(character);
            continue;
        }
        let encoded = character.encode_utf8(&mut bytes).as_bytes();
        if into.len() + 3 * encoded.len() > end {
            return;
        }
        for byte in encoded {
            into.push('%');
            into.push(hex_digit(byte >> 4));
            into.push(hex_digit(byte & 15));
        }
    }
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).expect("a nibble is one digit").to_ascii_uppercase()
}

/// Decodes for people to read: what is not properly encoded stays as it is, control characters do not.
fn decode(encoded: &str) -> String {
    let bytes = encoded.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while position < bytes.len() {
        let escaped = encoded.get(position + 1..position + 3).filter(|_| bytes[position] == b'%');
        if let Some(byte) = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            decoded.push(byte);
            position += 3;
        } else {
            decoded.push(bytes[position]);
            position += 1;
        }
    }
    String::from_utf8_lossy(&decoded).replace(char::is_control, "\u{FFFD}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(host: &str, command: &str) -> Entry {
        Entry::new(Ticket::from_bits(7), Mode::Mutex, Arc::new(Owner::new(host, 4121, command)))
    }

    fn compose(number: u64, host: &str, command: &str) -> EntryName {
        EntryName::compose(FencingToken::new(number, 0).unwrap(), &entry(host, command)).unwrap()
    }

    #[test]
    fn a_name_says_place_ticket_mode_and_owner() {
        let name = compose(42, "web-3", "backup.sh");
        assert_eq!(name.as_str(), "00000000000000000042-00000000000000000000000000000007-m-4121-web%2D3-backup.sh");
        assert_eq!(EntryName::parse(name.as_str()), Some(name.clone()));
        assert_eq!(name.owner(), Some(Owner::new("web-3", 4121, "backup.sh")));
    }

    #[test]
    fn names_sort_as_their_numbers_do() {
        assert!(compose(9, "z", "z").as_str() < compose(10, "a", "a").as_str());
        assert!(compose(99, "z", "z").as_str() < compose(i64::MAX as u64, "a", "a").as_str());
    }

    #[test]
    fn other_file_names_are_none_of_ours() {
        let good = compose(42, "h", "c").as_str().to_owned();
        for wrong in [
            String::new(),
            ".enter".to_owned(),
            "readme-for-the-next-one-x-y".to_owned(),
            good.replace("-m-", "-q-"),
            good.replacen('0', "+", 1),
            good.replace("4121", "-1"),
            good.replace("4121", "99999999999"),
            good[1..].to_owned(),
            good.replace("00000000000000000042", "09223372036854775808"),
            good.replace("0000007", "000000G"),
        ] {
            assert_eq!(EntryName::parse(&wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn control_characters_of_a_forged_owner_are_not_shown() {
        let forged = compose(1, "h", "c").as_str().replace("-h-c", "-h-%1B[2J");
        assert_eq!(EntryName::parse(&forged).unwrap().owner().unwrap().command, "\u{FFFD}[2J");
    }

    proptest! {
        #[test]
        fn any_owner_fits_and_is_read_back_up_to_the_cut(host in "\\PC{0,80}", command in "\\PC{0,150}") {
            let name = EntryName::compose(
                FencingToken::new(i64::MAX as u64, 0).unwrap(),
                &Entry::new(Ticket::from_bits(7), Mode::Mutex, Arc::new(Owner::new(host.clone(), u32::MAX, command.clone()))),
            ).unwrap();
            prop_assert!(name.as_str().len() <= 255);
            let owner = EntryName::parse(name.as_str()).unwrap().owner().unwrap();
            prop_assert!(host.starts_with(&owner.host) && command.starts_with(&owner.command));
            if host.len() <= 21 { prop_assert_eq!(owner.host, host); }
            if command.len() <= 41 { prop_assert_eq!(owner.command, command); }
        }
    }
}
