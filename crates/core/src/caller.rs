//! The caller behind a contender: the process, the flow of control in it, the contender that it is nested in, and when
//! its caller gives up.
//!
//! By these, contenders of different locks are known to be of one flow of control: that is what a search for deadlocks
//! needs. All of it is optional and for display; no lock is granted or refused by it. It is looked up once, when a call
//! begins (`calling` in the recipes), and stored with the entry, at no further request. Each text form is of a fixed or
//! bounded length, and is written and read here alone. What other programs have written may be anything, so a text of
//! another form reads as `None`.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

/// The length of a process's text form, in bytes.
const PROCESS_BYTES: usize = 16;

/// The length of the text form of a ticket's head, in bytes.
const TICKET_HEAD_BYTES: usize = 16;

/// The greatest number of a flow of control, so that its text form has at most 12 bytes: a letter and eleven digits.
const FLOW_NUMBER_MAX: u64 = 99_999_999_999;

/// The latest end of a wait that is stored, in milliseconds since 1970: in the year 2286.
const UNTIL_MS_MAX: u64 = 9_999_999_999_999;

/// Whose an entry is, as far as it is known when it is made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Caller {
    /// The process.
    pub process: Option<ProcessId>,
    /// The flow of control within the process.
    pub flow: Option<Flow>,
    /// The nearest enclosing contender: the one that its caller holds meanwhile.
    pub within: Option<TicketHead>,
    /// When the caller gives up waiting, in time since 1970-01-01 UTC by its clock, in milliseconds.
    pub until_unix: Option<Duration>,
    /// Whether a request to give up may meet no listener: what holds by itself, and was not told to answer.
    pub may_ignore: bool,
}

impl Caller {
    /// Returns when the caller gives up, in milliseconds, if that can be stored: a number of at most 13 digits. A later
    /// end is none.
    pub fn until_ms(&self) -> Option<u64> {
        self.until_unix.and_then(|until| u64::try_from(until.as_millis()).ok()).filter(|&ms| ms <= UNTIL_MS_MAX)
    }

    /// Reads such a number.
    pub fn until_of_ms(ms: u64) -> Option<Duration> {
        (ms <= UNTIL_MS_MAX).then(|| Duration::from_millis(ms))
    }
}

/// A process, by a number that it chose at random. A process and its fork have different ones.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProcessId(u64);

impl ProcessId {
    /// Returns this process's number; `None` if the system provides no randomness.
    pub fn this_process() -> Option<Self> {
        /// The number, and the process that chose it.
        static CHOSEN: Mutex<Option<(u32, ProcessId)>> = Mutex::new(None);
        let pid = std::process::id();
        let mut chosen = CHOSEN.lock();
        if let Some((_, process)) = chosen.filter(|&(by, _)| by == pid) {
            return Some(process);
        }
        let process = Self(getrandom::u64().ok()?);
        *chosen = Some((pid, process));
        Some(process)
    }

    /// Derives the number of a process from its host and its pid, for services that store nothing else of it: the same
    /// two have the same number everywhere.
    pub fn on_host(host: &str, pid: u32) -> Self {
        // FNV-1a, which does not change from release to release as the standard library's hash may.
        let bytes = host.bytes().chain(pid.to_be_bytes());
        Self(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        parse_hexadecimal(text, PROCESS_BYTES).map(Self)
    }
}

/// One flow of control within a process. It does one thing after the other: while it waits, what it holds stays held.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Flow {
    kind: FlowKind,
    number: u64,
}

/// What a flow of control is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum FlowKind {
    /// An owner key.
    OwnerKey,
    /// A thread that waits itself, also for the root future of a runtime.
    Thread,
    /// A task of tokio.
    Task,
}

impl FlowKind {
    const fn letter(self) -> char {
        match self {
            Self::OwnerKey => 'k',
            Self::Thread => 'h',
            Self::Task => 't',
        }
    }
}

impl Flow {
    /// Makes the flow with this number among those of its kind; `None` if the number is too great to be stored.
    pub const fn new(kind: FlowKind, number: u64) -> Option<Self> {
        if number > FLOW_NUMBER_MAX { None } else { Some(Self { kind, number }) }
    }

    /// Returns what it is.
    pub const fn kind(self) -> FlowKind {
        self.kind
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        let kinds = [FlowKind::OwnerKey, FlowKind::Thread, FlowKind::Task];
        let kind = kinds.into_iter().find(|kind| text.starts_with(kind.letter()))?;
        let digits = Some(&text[1..]).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        // Each number has one text form, so that equal flows have equal texts.
        let is_short = !digits.starts_with('0') || digits == "0";
        Self::new(kind, digits.parse().ok().filter(|_| is_short)?)
    }
}

/// The first half of a [`Ticket`](crate::Ticket): enough to find the contender, and short enough for a file's name.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TicketHead(u64);

impl TicketHead {
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        parse_hexadecimal(text, TICKET_HEAD_BYTES).map(Self)
    }
}

/// Reads a number of this many hexadecimal digits, written as we write it.
fn parse_hexadecimal(text: &str, digits: usize) -> Option<u64> {
    let is_ours = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(text, 16).ok().filter(|_| is_ours)
}

/// 16 hexadecimal digits.
impl fmt::Display for ProcessId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// `k5`: an owner key; `h2`: a thread; `t17`: a task.
impl fmt::Display for Flow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.kind.letter(), self.number)
    }
}

/// 16 hexadecimal digits: the first half of the ticket's.
impl fmt::Display for TicketHead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ProcessId({self})")
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Flow({self})")
    }
}

impl fmt::Debug for TicketHead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TicketHead({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_part_has_a_short_text_that_reads_back() {
        let flow = |kind, number| Flow::new(kind, number).unwrap();
        let flows = [(FlowKind::OwnerKey, 5, "k5"), (FlowKind::Thread, 0, "h0"), (FlowKind::Task, 17, "t17")];
        for (kind, number, text) in flows {
            assert_eq!(flow(kind, number).to_string(), text);
            assert_eq!(Flow::parse(text), Some(flow(kind, number)));
        }
        let longest = flow(FlowKind::Task, FLOW_NUMBER_MAX);
        assert_eq!(longest.to_string().len(), 12);
        assert_eq!(Flow::parse(&longest.to_string()), Some(longest));
        assert_eq!(Flow::new(FlowKind::Task, FLOW_NUMBER_MAX + 1), None);
        let process = ProcessId(0xab);
        assert_eq!(process.to_string(), "00000000000000ab");
        assert_eq!(ProcessId::parse("00000000000000ab"), Some(process));
        let head = TicketHead(0x0123_4567_89ab_cdef);
        assert_eq!(head.to_string(), "0123456789abcdef");
        assert_eq!(TicketHead::parse("0123456789abcdef"), Some(head));
    }

    #[test]
    fn what_others_have_written_in_another_form_reads_as_nothing() {
        for wrong in ["", "k", "5", "k5 ", "x5", "k-1", "k+1", "k05", "t100000000000", "t99999999999999999999", "é5"] {
            assert_eq!(Flow::parse(wrong), None, "{wrong:?}");
        }
        for wrong in ["", "ab", "00000000000000AB", "+0000000000000ab", "0000000000000000ab", "ééééééééé"] {
            assert_eq!((ProcessId::parse(wrong), TicketHead::parse(wrong)), (None, None), "{wrong:?}");
        }
    }

    #[test]
    fn the_end_of_a_wait_is_stored_in_milliseconds_unless_it_is_too_far_away() {
        let until = |until_unix| Caller { until_unix: Some(until_unix), ..Caller::default() }.until_ms();
        let last = Duration::from_millis(UNTIL_MS_MAX);
        assert_eq!((until(last), Caller::until_of_ms(UNTIL_MS_MAX)), (Some(UNTIL_MS_MAX), Some(last)));
        assert_eq!((until(last + Duration::from_millis(1)), Caller::until_of_ms(UNTIL_MS_MAX + 1)), (None, None));
        assert_eq!(until(Duration::MAX), None);
    }

    #[test]
    fn a_process_keeps_its_number() {
        let chosen = ProcessId::this_process();
        assert!(chosen.is_some());
        assert_eq!(ProcessId::this_process(), chosen);
    }

    #[test]
    fn a_process_is_derived_from_its_host_and_pid() {
        let process = ProcessId::on_host("web-3", 4121);
        assert_ne!(process, ProcessId::on_host("web-3", 4122));
        assert_ne!(process, ProcessId::on_host("web-4", 4121));
        // Other processes derive it too, so it must not change.
        assert_eq!(ProcessId::on_host("", 0).to_string(), "4d25767f9dce13f5");
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_panic_and_what_is_read_is_written_the_same(
            text in "[kht]?\\PC{0,20}|[kht][0-9]{0,13}|[0-9a-f]{16}",
        ) {
            for read in [
                Flow::parse(&text).map(|flow| flow.to_string()),
                ProcessId::parse(&text).map(|process| process.to_string()),
                TicketHead::parse(&text).map(|head| head.to_string()),
            ].into_iter().flatten() {
                prop_assert_eq!(&read, &text);
            }
        }
    }
}
