//! The data of our nodes, which says who their owner is: compact JSON, for people and for `show`.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_core::{Answers, Caller, Entry, FencingToken, Flow, Owner, ProcessId, Revocation, TicketHead};
use lockkeeper_session::{Ask, Record, WORD_BYTES_MAX, shortened};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What Curator's `Revoker` writes into a contender's node to ask its owner to give up.
pub(super) const REVOKE: &[u8] = b"__REVOKE__";

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct ContenderData {
    host: String,
    pid: u32,
    command: String,
    /// Milliseconds since 1970, by the owner's clock.
    since: u64,
    /// Why the lock is frozen, if this contender freezes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) frozen: Option<String>,
    /// The grant of the token that the contender shares with the one whose place it stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grant: Option<u64>,
    /// Its number among the contenders that were made in one transaction; the first has none.
    #[serde(default, skip_serializing_if = "is_first")]
    turn: u32,
    /// That its owner is asked to give up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoke: Option<Ask>,
    /// Whose it is, more closely, and what other versions and other programs have written; it stays when the data is
    /// written again. A key of another form than ours counts as absent, and costs the contender nothing else.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_first(turn: &u32) -> bool {
    *turn == 0
}

/// The group for the data of most nodes, in bytes, so that it is allocated once.
const USUAL_BYTES: usize = 256;

impl ContenderData {
    /// Describes an entry that is about to be made. `shared` is the token of the contender whose place it is to share;
    /// `turn` tells it from the others of its transaction.
    pub(super) fn of(entry: &Entry, since_unix: Duration, shared: Option<FencingToken>, turn: u32) -> Self {
        let Record { host, pid, command, since, frozen, .. } = Record::of(entry, since_unix);
        Self {
            host,
            pid,
            command,
            since,
            frozen,
            grant: shared.map(FencingToken::as_u64),
            turn: shared.map_or(turn, FencingToken::turn),
            revoke: None,
            others: caller_keys(&entry.caller),
        }
    }

    /// Reads a contender's node, if it is one of ours.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        serde_json::from_slice(data).ok()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(USUAL_BYTES);
        serde_json::to_writer(&mut bytes, self).expect("strings and numbers are JSON");
        bytes
    }

    pub(super) fn owner(&self) -> Owner {
        Owner::new(self.host.as_str(), self.pid, self.command.as_str())
    }

    pub(super) fn caller(&self) -> Caller {
        let text = |key| self.others.get(key).and_then(Value::as_str);
        let mut caller = Caller::default();
        caller.process = text("proc").and_then(ProcessId::parse);
        caller.flow = text("flow").and_then(Flow::parse);
        caller.within = text("within").and_then(TicketHead::parse);
        caller.until_unix = self.others.get("until").and_then(Value::as_u64).and_then(Caller::until_of_ms);
        caller.may_ignore = text("answers") == Some("unknown");
        caller
    }

    pub(super) const fn since_unix(&self) -> Duration {
        Duration::from_millis(self.since)
    }

    /// Whether its owner receives requests to give up: other programs that write such data may say that they do not.
    pub(super) fn answers(&self) -> Answers {
        match self.others.get("answers").and_then(Value::as_str) {
            Some("no") => Answers::No,
            _ => Answers::of(&self.caller()),
        }
    }

    /// Whether it stands in another's place, and has its token.
    pub(super) const fn shares_place(&self) -> bool {
        self.grant.is_some()
    }

    /// Its token, if its node was made by this transaction.
    pub(super) fn token(&self, czxid: i64) -> Option<FencingToken> {
        let made_by = || u64::try_from(czxid).ok();
        self.grant.or_else(made_by).and_then(|grant| FencingToken::new(grant, self.turn))
    }

    /// Asks the owner to give up, in place of an earlier request. What else is written there stays.
    #[must_use]
    pub(super) fn with_request(self, revocation: &Revocation) -> Self {
        Self { revoke: Some(Ask::of(revocation)), ..self }
    }
}

/// Whose a contender is, each part if it is known. All of them add at most 118 bytes to the node.
fn caller_keys(caller: &Caller) -> BTreeMap<String, Value> {
    let keys = [
        ("proc", caller.process.map(|process| process.to_string().into())),
        ("flow", caller.flow.map(|flow| flow.to_string().into())),
        ("within", caller.within.map(|within| within.to_string().into())),
        ("until", caller.until_ms().map(Value::from)),
        ("answers", caller.may_ignore.then(|| "unknown".into())),
    ];
    keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Reads a request to give up from a contender's node: Curator's, or one of ours.
pub(super) fn read_request(data: &[u8]) -> Option<Revocation> {
    match data {
        REVOKE => Some(Revocation::default()),
        data => ContenderData::read(data)?.revoke.map(Ask::revocation),
    }
}

/// Reads what another client has written into its node, such as its address; it may be anything.
pub(super) fn label(data: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(data).ok().filter(|text| !text.is_empty() && data != REVOKE)?;
    Some(shortened(text, WORD_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_core::{Lifetime, Mode, Ticket};

    use super::*;

    fn entry(owner: Owner) -> Entry {
        Entry::new(Ticket::from_bits(1), Mode::Mutex, Arc::new(owner))
    }

    #[test]
    fn an_owner_is_compact_json_and_read_back() {
        let owner = Owner::new("web-3", 4121, "backup.sh");
        let since = Duration::from_millis(1_750_000_000_123);
        let data = ContenderData::of(&entry(owner.clone()), since, None, 0);
        let text = r#"{"host":"web-3","pid":4121,"command":"backup.sh","since":1750000000123}"#;
        assert_eq!(String::from_utf8(data.to_bytes()).unwrap(), text);
        let read = ContenderData::read(text.as_bytes()).unwrap();
        assert_eq!((read.owner(), read.since_unix(), &read), (owner, since, &data));
        assert_eq!(ContenderData::read(b"127.0.0.1"), None);
        assert_eq!(ContenderData::read(REVOKE), None);
    }

    #[test]
    fn a_long_word_is_cut_between_characters() {
        let data = ContenderData::of(&entry(Owner::new("é".repeat(300), 1, "")), Duration::ZERO, None, 0);
        assert_eq!(data.owner().host, "é".repeat(100));
    }

    #[test]
    fn a_freeze_a_shared_place_and_a_request_are_kept_with_the_owner() {
        let mut frozen = entry(Owner::new("web-3", 1, "x"));
        frozen.lifetime = Lifetime::Persistent { reason: "schema change".into() };
        let token = FencingToken::new(77, 0).unwrap();
        let data = ContenderData::of(&frozen, Duration::ZERO, Some(token), 0);
        let asked = data.with_request(&Revocation::new(Some("deploy".to_owned()), Some(Duration::from_secs(30))));
        let text = concat!(
            r#"{"host":"web-3","pid":1,"command":"x","since":0,"frozen":"schema change","grant":77,"#,
            r#""revoke":{"why":"deploy","within_ms":30000}}"#
        );
        assert_eq!(String::from_utf8(asked.to_bytes()).unwrap(), text);
        let read = ContenderData::read(text.as_bytes()).unwrap();
        assert_eq!((read.frozen.as_deref(), read.token(99)), (Some("schema change"), Some(token)));
        let again = read.with_request(&Revocation::default());
        assert_eq!(read_request(&again.to_bytes()), Some(Revocation::default()), "the last request counts");
        let within = Revocation::new(Some("deploy".to_owned()), Some(Duration::from_secs(30)));
        assert_eq!(read_request(text.as_bytes()), Some(within));
    }

    #[test]
    fn a_request_keeps_whose_it_is_and_what_another_version_has_written() {
        let text = concat!(
            r#"{"host":"h","pid":1,"command":"c","since":0,"flow":"t3","later":{"a":[1]},"#,
            r#""proc":"00000000000000ab","trace":"x","until":1750000000123}"#
        );
        let read = ContenderData::read(text.as_bytes()).unwrap();
        assert_eq!(read.caller().flow, Flow::parse("t3"));
        assert_eq!(String::from_utf8(read.to_bytes()).unwrap(), text);
        let asked = ContenderData::read(&read.with_request(&Revocation::default()).to_bytes()).unwrap();
        assert_eq!((asked.caller(), &asked.others), (read_again(text).caller(), &read_again(text).others));
        assert_eq!(asked.others.keys().collect::<Vec<_>>(), ["flow", "later", "proc", "trace", "until"]);
    }

    #[test]
    fn all_that_is_known_of_a_caller_is_written_in_few_bytes_and_read_back() {
        let mut entry = entry(Owner::new("h", 1, "c"));
        let bare = ContenderData::of(&entry, Duration::ZERO, None, 0);
        assert_eq!(bare.caller(), Caller::default());
        entry.caller.process = ProcessId::parse("0123456789abcdef");
        entry.caller.flow = Flow::parse("t99999999999");
        entry.caller.within = Some(Ticket::from_bits(u128::MAX).head());
        entry.caller.until_unix = Some(Duration::from_millis(9_999_999_999_999));
        entry.caller.may_ignore = true;
        let bytes = ContenderData::of(&entry, Duration::ZERO, None, 0).to_bytes();
        assert_eq!(bytes.len() - bare.to_bytes().len(), 118);
        assert_eq!(ContenderData::read(&bytes).unwrap().caller(), entry.caller);
    }

    #[test]
    fn what_others_have_written_of_a_caller_in_another_form_counts_as_absent() {
        for (keys, kept) in [
            (r#""proc":7,"flow":["t1"],"within":null,"until":"soon""#, None),
            (r#""proc":"x","flow":"t","within":"0","until":-1"#, None),
            (r#""proc":{},"flow":"k3","within":true,"until":99999999999999"#, Flow::parse("k3")),
        ] {
            let read = read_again(&format!(r#"{{"host":"h","pid":1,"command":"c","since":0,{keys}}}"#));
            let mut expected = Caller::default();
            expected.flow = kept;
            assert_eq!((read.owner(), read.caller()), (Owner::new("h", 1, "c"), expected), "{keys}");
        }
    }

    fn read_again(text: &str) -> ContenderData {
        ContenderData::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn those_of_one_transaction_are_told_apart_by_their_turn() {
        let data = |turn| ContenderData::of(&entry(Owner::new("h", 1, "c")), Duration::ZERO, None, turn);
        let text = String::from_utf8(data(2).to_bytes()).unwrap();
        assert!(text.ends_with(r#""since":0,"turn":2}"#), "{text}");
        assert_eq!(data(2).token(9), FencingToken::new(9, 2));
        assert_eq!(data(0).token(9), FencingToken::new(9, 0));
    }

    #[test]
    fn what_another_client_has_written_is_its_label_as_far_as_it_is_text() {
        assert_eq!(label(b"127.0.0.1").as_deref(), Some("127.0.0.1"));
        assert_eq!(label("é".repeat(300).as_bytes()), Some("é".repeat(100)));
        for none in [&b""[..], REVOKE, b"\xff\xfe"] {
            assert_eq!(label(none), None);
        }
    }

    #[test]
    fn curators_request_says_neither_why_nor_when() {
        assert_eq!(read_request(REVOKE), Some(Revocation::default()));
        assert_eq!(read_request(b"127.0.0.1"), None);
        let data = ContenderData::of(&entry(Owner::new("h", 1, "c")), Duration::ZERO, None, 0);
        assert_eq!(read_request(&data.to_bytes()), None);
    }
}
