//! A contender's file name, which is all that is stored of it: place in line, ticket, mode, owner and caller.
//!
//! `<number, 20 digits>[_<rank, 16 hexadecimal digits>]-<ticket, 32 hexadecimal digits>-<what>-<pid>-<host>-<command>`,
//! where `<what>` is `<mode>[@gate|@permits][+frozen]`. Marks of the caller (`caller_marks`) may follow behind another
//! dash. They come last, since a version that knows none takes them for a part of the command, and still sees the
//! contender: with a mark in `<what>` it would see none, and grant the lock twice.
//!
//! Since the name holds everything, a user who may list a queue's directory sees its contenders, and needs no further
//! system call and no further right.

use std::sync::Arc;

use lockkeeper_core::{
    Caller, Contender, ContenderId, Entry, FencingToken, Lifetime, Mode, Owner, Part, ProcessId, Ticket,
};

use crate::caller_marks::{self, MARKS_BYTES_MAX};

/// The width of the number, in digits: as wide as the greatest 64-bit number, so that names sort as numbers do.
const NUMBER_DIGITS: usize = 20;

/// The width of a rank, in hexadecimal digits.
const RANK_DIGITS: usize = 16;

/// The longest host, in bytes of its encoded form: a label of the domain name system has 63.
const HOST_BYTES_MAX: usize = 63;

/// The longest command, in bytes of its encoded form, so that the whole name stays within the 255 bytes of a file name:
/// 37 (number and rank) + 32 + 24 (what) + 10 (pid) + 63 + 38, five dashes and 46 (marks). Earlier versions wrote up to
/// 84, and no marks.
const COMMAND_BYTES_MAX: usize = 38;
const _: () = assert!(37 + 32 + 24 + 10 + HOST_BYTES_MAX + COMMAND_BYTES_MAX + 5 + MARKS_BYTES_MAX == 255);

/// How far up the gap to the next contender of the same token a new one is put, as a fraction of the gap: room for
/// eight within one another, or for ten thousand beside one another.
const RANK_STEP_PARTS: u64 = 256;

/// Where a contender stands: by its token, and among those of the same token by its rank.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct EntryPosition {
    pub(crate) token: FencingToken,
    /// Zero for one that joined at the tail.
    rank: u64,
}

impl EntryPosition {
    /// The position of one that joined at the tail.
    pub(crate) const fn tail(token: FencingToken) -> Self {
        Self { token, rank: 0 }
    }

    pub(crate) const fn is_tail(self) -> bool {
        self.rank == 0
    }

    /// Returns a position between this one and the next of the same token, if there is one; `None` if there is no room
    /// left.
    pub(crate) fn behind(self, next: Option<Self>) -> Option<Self> {
        let end = next.filter(|next| next.token == self.token).map_or(u64::MAX, |next| next.rank);
        // Far up, since most later contenders stand right behind the same one, and so below this.
        let room = end.checked_sub(self.rank).filter(|room| *room > 1)?;
        Some(Self { token: self.token, rank: end - (room / RANK_STEP_PARTS).max(1) })
    }
}

/// A parsed file name of a contender.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EntryName {
    pub(crate) position: EntryPosition,
    pub(crate) ticket: Ticket,
    pub(crate) part: Part,
    pub(crate) mode: Mode,
    /// Whether it lives until it is removed, even if its process ends.
    pub(crate) is_frozen: bool,
    file_name: Arc<str>,
}

impl EntryName {
    /// Composes the name of an entry that was given this position.
    pub(crate) fn compose(position: EntryPosition, part: Part, entry: &Entry) -> Self {
        let EntryPosition { token, rank } = position;
        let is_frozen = matches!(entry.lifetime, Lifetime::Persistent { .. });
        let rank = if rank == 0 { String::new() } else { format!("_{rank:016x}") };
        let frozen = if is_frozen { FROZEN } else { "" };
        let (at, mode) = (part_mark(part), mode_mark(entry.mode));
        let mut file_name =
            format!("{:020}{rank}-{}-{mode}{at}{frozen}-{}-", token.as_u64(), entry.ticket, entry.owner.pid);
        encode_cut(&entry.owner.host, HOST_BYTES_MAX, &mut file_name);
        file_name.push('-');
        encode_cut(&entry.owner.command, COMMAND_BYTES_MAX, &mut file_name);
        caller_marks::push(&entry.caller, &mut file_name);
        Self { position, ticket: entry.ticket, part, mode: entry.mode, is_frozen, file_name: file_name.into() }
    }

    /// Reads a file name; `None` if it is not a contender's.
    pub(crate) fn parse(file_name: &str) -> Option<Self> {
        let mut parts = file_name.splitn(6, '-');
        let position = parse_position(parts.next()?)?;
        let ticket = Ticket::parse(parts.next()?)?;
        let (mode, part, is_frozen) = parse_what(parts.next()?)?;
        let _pid: u32 = parts.next().filter(|digits| is_number(digits, digits.len()))?.parse().ok()?;
        let (_host, _command) = (parts.next()?, parts.next()?);
        Some(Self { position, ticket, part, mode, is_frozen, file_name: file_name.into() })
    }

    pub(crate) const fn token(&self) -> FencingToken {
        self.position.token
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

    pub(crate) fn owner(&self) -> Option<Owner> {
        let mut parts = self.file_name.splitn(6, '-').skip(3);
        let pid = parts.next()?.parse().ok()?;
        let (host, rest) = (parts.next()?, parts.next()?);
        let (command, _marks) = rest.split_once('-').unwrap_or((rest, ""));
        Some(Owner::new(decode(host), pid, decode(command)))
    }

    /// Reads whose it is. A process is its host and pid here. What outlives its process is of no caller.
    pub(crate) fn caller(&self) -> Caller {
        if self.is_frozen {
            return Caller::default();
        }
        let marks = self.file_name.splitn(7, '-').nth(6);
        let mut caller = marks.map(caller_marks::parse).unwrap_or_default();
        caller.process = self.owner().map(|owner| ProcessId::on_host(&owner.host, owner.pid));
        caller
    }
}

/// The mark of a contender that outlives its process.
const FROZEN: &str = "+frozen";

/// The mode as it stands in names. A contender that waits for permits is a `gate` there, and its queue `@gate`: other
/// versions of this program read them.
const fn mode_mark(mode: Mode) -> &'static str {
    match mode {
        Mode::Acquire => "gate",
        other => other.as_str(),
    }
}

fn parse_mode(text: &str) -> Option<Mode> {
    match text {
        "gate" => Some(Mode::Acquire),
        other => Mode::from_name(other).filter(|mode| *mode != Mode::Acquire),
    }
}

/// The mark of a part of a lock; the plain queue has none.
const fn part_mark(part: Part) -> &'static str {
    match part {
        Part::Line => "",
        Part::Waiters => "@gate",
        Part::Permits => "@permits",
    }
}

fn parse_position(text: &str) -> Option<EntryPosition> {
    let (number, rank) = match text.split_once('_') {
        None => (text, 0),
        Some((number, rank)) if rank.len() == RANK_DIGITS && is_hexadecimal(rank) => {
            (number, u64::from_str_radix(rank, 16).ok().filter(|rank| *rank > 0)?)
        }
        Some(_) => return None,
    };
    let number = Some(number).filter(|digits| is_number(digits, NUMBER_DIGITS))?;
    Some(EntryPosition { token: FencingToken::new(number.parse().ok()?, 0)?, rank })
}

fn parse_what(text: &str) -> Option<(Mode, Part, bool)> {
    let (text, is_frozen) = text.strip_suffix(FROZEN).map_or((text, false), |text| (text, true));
    let (mode, part) = [Part::Waiters, Part::Permits]
        .into_iter()
        .find_map(|part| Some((text.strip_suffix(part_mark(part))?, part)))
        .unwrap_or((text, Part::Line));
    Some((parse_mode(mode)?, part, is_frozen))
}

fn is_number(text: &str, digits: usize) -> bool {
    !text.is_empty() && text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
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

/// Decodes for display: what is not properly encoded stays as it is, control characters are replaced.
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
    use std::time::Duration;

    use lockkeeper_core::Flow;
    use proptest::prelude::*;

    use super::*;

    fn entry(host: &str, command: &str) -> Entry {
        Entry::new(Ticket::from_bits(7), Mode::Mutex, Arc::new(Owner::new(host, 4121, command)))
    }

    fn tail(number: u64) -> EntryPosition {
        EntryPosition::tail(FencingToken::new(number, 0).unwrap())
    }

    fn compose(number: u64, host: &str, command: &str) -> EntryName {
        EntryName::compose(tail(number), Part::Line, &entry(host, command))
    }

    #[test]
    fn a_name_says_place_ticket_mode_and_owner() {
        let name = compose(42, "web-3", "backup.sh");
        assert_eq!(name.as_str(), "00000000000000000042-00000000000000000000000000000007-mutex-4121-web%2D3-backup.sh");
        assert_eq!(EntryName::parse(name.as_str()), Some(name.clone()));
        assert_eq!(name.owner(), Some(Owner::new("web-3", 4121, "backup.sh")));
    }

    #[test]
    fn a_name_says_whose_it_is_behind_the_command() {
        let mut entry = entry("web-3", "backup.sh");
        entry.caller.flow = Flow::parse("t17");
        entry.caller.until_unix = Some(Duration::from_millis(1_750_000_000_123));
        let name = EntryName::compose(tail(42), Part::Line, &entry);
        assert!(name.as_str().ends_with("-4121-web%2D3-backup.sh-t17+u1977420dc7b"), "{}", name.as_str());
        let read = EntryName::parse(name.as_str()).unwrap();
        assert_eq!(read.owner(), Some(Owner::new("web-3", 4121, "backup.sh")));
        entry.caller.process = Some(ProcessId::on_host("web-3", 4121));
        assert_eq!(read.caller(), entry.caller);
    }

    /// As versions before the marks wrote it: the command is longer than it is cut to now.
    #[test]
    fn a_name_without_marks_is_of_a_known_process_and_nothing_else() {
        let command = "c".repeat(84);
        let name = compose(42, "h", "c").as_str().replace("-h-c", &format!("-h-{command}"));
        let read = EntryName::parse(&name).unwrap();
        let owner = Owner::new("h", 4121, command);
        let mut expected = Caller::default();
        expected.process = Some(ProcessId::on_host("h", 4121));
        assert_eq!((read.owner(), read.caller()), (Some(owner), expected));
    }

    #[test]
    fn what_is_frozen_is_of_no_caller() {
        let mut entry = entry("h", "c");
        entry.lifetime = Lifetime::Persistent { reason: "moving house".into() };
        assert_eq!(EntryName::compose(tail(42), Part::Line, &entry).caller(), Caller::default());
    }

    #[test]
    fn names_sort_as_their_numbers_do() {
        assert!(compose(9, "z", "z").as_str() < compose(10, "a", "a").as_str());
        assert!(compose(99, "z", "z").as_str() < compose(i64::MAX as u64, "a", "a").as_str());
    }

    #[test]
    fn every_mode_part_rank_and_bond_is_read_back() {
        let modes = ["mutex", "read", "write", "exclusive", "acquire", "permit", "candidate", "member"];
        for mode in modes.map(|name| Mode::from_name(name).unwrap()) {
            for part in [Part::Line, Part::Waiters, Part::Permits] {
                for (position, bond) in [
                    (tail(42), Lifetime::Session),
                    (tail(42).behind(None).unwrap(), Lifetime::Persistent { reason: "moving house".into() }),
                ] {
                    let mut entry = entry("h", "c");
                    (entry.mode, entry.lifetime) = (mode, bond);
                    let name = EntryName::compose(position, part, &entry);
                    assert_eq!(EntryName::parse(name.as_str()), Some(name));
                }
            }
        }
    }

    #[test]
    fn a_waiter_for_permits_keeps_the_name_that_earlier_versions_read() {
        let mut entry = entry("h", "c");
        entry.mode = Mode::Acquire;
        let name = EntryName::compose(tail(42), Part::Waiters, &entry);
        assert!(name.as_str().contains("-gate@gate-"), "{name:?}");
        assert_eq!(EntryName::parse(&name.as_str().replace("-gate@", "-acquire@")), None);
    }

    #[test]
    fn a_contender_right_behind_another_stands_ahead_of_all_that_came_before() {
        let anchor = tail(42);
        let mut behind = vec![anchor, tail(43)];
        for _ in 0..10_000 {
            let new = anchor.behind(Some(behind[1])).expect("there is room");
            assert!(anchor < new && new < behind[1]);
            behind.insert(1, new);
        }
        let mut within = anchor;
        for _ in 0..8 {
            let new = within.behind(Some(tail(43))).expect("there is room");
            assert!(within < new && new < tail(43));
            within = new;
        }
        let (mut next, mut fitted) = (None, 0);
        while let Some(new) = anchor.behind(next) {
            (next, fitted) = (Some(new), fitted + 1);
            assert!(anchor < new && fitted < 1_000_000);
        }
    }

    #[test]
    fn names_of_one_token_sort_as_their_ranks_do() {
        let name = |position| EntryName::compose(position, Part::Line, &entry("h", "c"));
        let second = tail(42).behind(None).unwrap();
        let first = tail(42).behind(Some(second)).unwrap();
        let names = [tail(42), first, second, tail(43)].map(name);
        assert!(names.is_sorted_by(|earlier, later| earlier.as_str() < later.as_str()));
    }

    #[test]
    fn other_file_names_are_not_contenders() {
        let good = compose(42, "h", "c").as_str().to_owned();
        for wrong in [
            String::new(),
            ".enter".to_owned(),
            "readme-for-the-next-one-x-y".to_owned(),
            good.replace("-mutex-", "-m-"),
            good.replace("-mutex-", "-mutex@line-"),
            good.replacen("42-", "42_0000000000000000-", 1),
            good.replacen("42-", "42_1-", 1),
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
            let owner = Arc::new(Owner::new(host.clone(), u32::MAX, command.clone()));
            let mut entry = Entry::new(Ticket::from_bits(7), Mode::Candidate, owner);
            entry.lifetime = Lifetime::Persistent { reason: "".into() };
            entry.caller.flow = Flow::parse("t99999999999");
            entry.caller.within = Some(Ticket::from_bits(u128::MAX).head());
            entry.caller.until_unix = Caller::until_of_ms(9_999_999_999_999);
            entry.caller.may_ignore = true;
            let name = EntryName::compose(tail(i64::MAX as u64).behind(None).unwrap(), Part::Permits, &entry);
            prop_assert!(name.as_str().len() <= 255);
            let owner = EntryName::parse(name.as_str()).unwrap().owner().unwrap();
            prop_assert!(host.starts_with(&owner.host) && command.starts_with(&owner.command));
            if host.len() <= 21 { prop_assert_eq!(owner.host, host); }
            if command.len() <= 12 { prop_assert_eq!(owner.command, command); }
        }
    }
}
