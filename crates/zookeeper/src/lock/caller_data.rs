//! Whose a contender is, as its node's JSON says it: `proc`, `flow`, `within` and `until`, each if it is known.
//!
//! All four add at most 98 bytes to the node. Other programs may write them too, in any form: a key of another
//! form counts as absent, and costs the contender nothing else.

use std::fmt::Display;

use lockkeeper_core::{Caller, Flow, ProcessId, TicketHead};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct CallerData {
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "text", deserialize_with = "process")]
    proc: Option<ProcessId>,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "text", deserialize_with = "flow")]
    flow: Option<Flow>,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "text", deserialize_with = "head")]
    within: Option<TicketHead>,
    /// Milliseconds since 1970, by the caller's clock.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "millis")]
    until: Option<u64>,
}

impl CallerData {
    pub(super) fn of(caller: &Caller) -> Self {
        let Caller { process: proc, flow, within, .. } = *caller;
        Self { proc, flow, within, until: caller.until_ms() }
    }

    pub(super) fn caller(&self) -> Caller {
        let mut caller = Caller::default();
        (caller.process, caller.flow, caller.within) = (self.proc, self.flow, self.within);
        caller.until_unix = self.until.and_then(Caller::until_of_ms);
        caller
    }
}

#[expect(clippy::ref_option, reason = "serde passes references")]
fn text<T: Display, S: Serializer>(part: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match part {
        Some(part) => serializer.collect_str(part),
        None => serializer.serialize_none(),
    }
}

fn process<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ProcessId>, D::Error> {
    read(deserializer, |value| ProcessId::parse(value.as_str()?))
}

fn flow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Flow>, D::Error> {
    read(deserializer, |value| Flow::parse(value.as_str()?))
}

fn head<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TicketHead>, D::Error> {
    read(deserializer, |value| TicketHead::parse(value.as_str()?))
}

fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    read(deserializer, Value::as_u64)
}

/// Reads a value of any form; `None` if it has not the form that is asked for.
fn read<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    part: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>, D::Error> {
    Value::deserialize(deserializer).map(|value| part(&value))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_core::{FlowKind, Ticket};

    use super::*;

    /// The most bytes that the keys add: 26 (`proc`), 22 (`flow`), 28 (`within`) and 22 (`until`).
    const CALLER_BYTES_MAX: usize = 98;

    fn full() -> Caller {
        let mut caller = Caller::default();
        caller.process = ProcessId::parse("0123456789abcdef");
        caller.flow = Flow::new(FlowKind::Task, 99_999_999_999);
        caller.within = Some(Ticket::from_bits(u128::MAX).head());
        caller.until_unix = Some(Duration::from_millis(9_999_999_999_999));
        caller
    }

    #[test]
    fn all_four_are_written_in_few_bytes_and_read_back() {
        let text = serde_json::to_string(&CallerData::of(&full())).unwrap();
        let expected = concat!(
            r#"{"proc":"0123456789abcdef","flow":"t99999999999","within":"ffffffffffffffff","#,
            r#""until":9999999999999}"#
        );
        assert_eq!(text, expected);
        // In the node a comma stands before the first one too, and no braces.
        assert_eq!(text.len() - 1, CALLER_BYTES_MAX);
        assert_eq!(serde_json::from_str::<CallerData>(&text).unwrap().caller(), full());
        assert_eq!(serde_json::to_string(&CallerData::of(&Caller::default())).unwrap(), "{}");
        assert_eq!(serde_json::from_str::<CallerData>("{}").unwrap().caller(), Caller::default());
    }

    #[test]
    fn what_others_have_written_in_another_form_counts_as_absent() {
        for (keys, kept) in [
            (r#"{"proc":7,"flow":["t1"],"within":null,"until":"soon"}"#, None),
            (r#"{"proc":"x","flow":"t","within":"0","until":-1}"#, None),
            (r#"{"proc":{},"flow":"k3","within":true,"until":99999999999999}"#, Flow::parse("k3")),
        ] {
            let mut expected = Caller::default();
            expected.flow = kept;
            assert_eq!(serde_json::from_str::<CallerData>(keys).unwrap().caller(), expected, "{keys}");
        }
    }
}
