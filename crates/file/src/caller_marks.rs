//! The caller of a contender, as its file name says it: marks behind the command, each if it is known.
//!
//! `w<16 hexadecimal digits>` is the head of the enclosing contender's ticket, `u<11 hexadecimal digits>` when the
//! caller gives up, in milliseconds since 1970, `i` that it may not hear of a request to give up, and anything else the
//! flow of control. A `+` stands between two. A mark that is not understood is left out: other versions may write
//! others.

use std::fmt::Write as _;

use lockkeeper_core::{Caller, Flow, TicketHead};

/// The most bytes that the marks add to a name: a dash, 17 (the enclosing contender), 12 (the flow of control), 12 (the
/// end of the wait), 1 (that requests may not be heard), and three plus signs.
pub(crate) const MARKS_BYTES_MAX: usize = 46;

/// That a request to give up may not be heard.
const MAY_IGNORE: &str = "i";

/// The width of the end of a wait, in hexadecimal digits.
const UNTIL_DIGITS: usize = 11;

/// Appends the marks to a name, after a dash; nothing if nothing is known.
pub(crate) fn push(caller: &Caller, name: &mut String) {
    let mut before = '-';
    let mut push = |mark: std::fmt::Arguments<'_>| {
        // Writing to a string never fails.
        let _ = write!(name, "{before}{mark}");
        before = '+';
    };
    if let Some(within) = caller.within {
        push(format_args!("w{within}"));
    }
    if let Some(flow) = caller.flow {
        push(format_args!("{flow}"));
    }
    if let Some(ms) = caller.until_ms() {
        push(format_args!("u{ms:011x}"));
    }
    if caller.may_ignore {
        push(format_args!("{MAY_IGNORE}"));
    }
}

/// Reads the marks behind the dash. The process is not among them.
pub(crate) fn parse(marks: &str) -> Caller {
    let mut caller = Caller::default();
    for mark in marks.split('+') {
        if let Some(head) = mark.strip_prefix('w') {
            caller.within = caller.within.or_else(|| TicketHead::parse(head));
        } else if let Some(digits) = mark.strip_prefix('u') {
            caller.until_unix = caller.until_unix.or_else(|| Caller::until_of_ms(parse_until(digits)?));
        } else if mark == MAY_IGNORE {
            caller.may_ignore = true;
        } else {
            caller.flow = caller.flow.or_else(|| Flow::parse(mark));
        }
    }
    caller
}

fn parse_until(digits: &str) -> Option<u64> {
    let is_ours = digits.len() == UNTIL_DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(digits, 16).ok().filter(|_| is_ours)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_core::{FlowKind, Ticket};
    use proptest::prelude::*;

    use super::*;

    fn marks(caller: &Caller) -> String {
        let mut marks = String::new();
        push(caller, &mut marks);
        marks
    }

    #[test]
    fn what_is_known_is_marked_in_few_bytes_and_read_back() {
        let mut caller = Caller::default();
        assert_eq!(marks(&caller), "");
        caller.flow = Flow::new(FlowKind::OwnerKey, 3);
        assert_eq!(marks(&caller), "-k3");
        caller.until_unix = Some(Duration::from_millis(1_750_000_000_123));
        assert_eq!(marks(&caller), "-k3+u1977420dc7b");
        caller.within = Some(Ticket::from_bits(7 << 64).head());
        assert_eq!(marks(&caller), "-w0000000000000007+k3+u1977420dc7b");
        assert_eq!(parse(&marks(&caller)[1..]), caller);
        caller.flow = Flow::new(FlowKind::Task, 99_999_999_999);
        caller.until_unix = Some(Duration::from_millis(9_999_999_999_999));
        caller.may_ignore = true;
        assert_eq!(marks(&caller).len(), MARKS_BYTES_MAX);
        assert_eq!(parse(&marks(&caller)[1..]), caller);
    }

    #[test]
    fn a_mark_that_is_not_understood_costs_the_others_nothing() {
        for (text, flow) in
            [("", None), ("x", None), ("w7+u9+t4", Flow::parse("t4")), ("t4+later+t5+", Flow::parse("t4"))]
        {
            let mut expected = Caller::default();
            expected.flow = flow;
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_marks_make_the_reader_panic(text in "[wukhti0-9a-f+é]{0,60}") {
            let read = parse(&text);
            prop_assert_eq!(parse(marks(&read).trim_start_matches('-')), read);
        }
    }
}
