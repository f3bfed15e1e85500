//! Contenders, promises and findings in the formats of serde: the names and words of the command's JSON.
//!
//! Times are in milliseconds since 1970-01-01 UTC, under names that say so: how long ago that is only a reader with a
//! clock knows. Nothing of these is read back: a service alone says what its locks are.

use std::fmt::Display;
use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::capabilities::{Capabilities, Exclusion, Fencing, Removal, StoppedHolder};
use crate::contender::{Answers, ContenderId, ContenderInfo, Mode, Owner, Revocation};
use crate::finding::{Finding, Severity};

impl Serialize for ContenderInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("ContenderInfo", 17)?;
        fields.serialize_field("mode", &self.mode)?;
        fields.serialize_field("id", &self.id)?;
        fields.serialize_field("token", &self.token)?;
        fields.serialize_field("session", &self.session)?;
        fields.serialize_field("owner", &self.owner)?;
        fields.serialize_field("label", &self.label)?;
        fields.serialize_field("ticket", &text(self.ticket))?;
        fields.serialize_field("process", &text(self.caller.process))?;
        fields.serialize_field("flow", &text(self.caller.flow))?;
        fields.serialize_field("within", &text(self.caller.within))?;
        fields.serialize_field("until_unix_ms", &self.caller.until_unix.map(millis))?;
        fields.serialize_field("since_unix_ms", &self.since_unix.map(millis))?;
        fields.serialize_field("granted_unix_ms", &self.granted_unix.map(millis))?;
        fields.serialize_field("frozen", &self.frozen)?;
        fields.serialize_field("kept", &self.is_kept())?;
        fields.serialize_field("revocation", &self.revocation)?;
        fields.serialize_field("answers", &self.answers)?;
        fields.end()
    }
}

impl Serialize for Owner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Owner", 3)?;
        fields.serialize_field("host", &self.host)?;
        fields.serialize_field("pid", &self.pid)?;
        fields.serialize_field("command", &self.command)?;
        fields.end()
    }
}

impl Serialize for Revocation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Revocation", 2)?;
        fields.serialize_field("why", &self.why)?;
        fields.serialize_field("within_ms", &self.within.map(millis))?;
        fields.end()
    }
}

impl Serialize for Capabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Capabilities", 7)?;
        fields.serialize_field("backend", self.backend)?;
        fields.serialize_field("exclusion", &self.exclusion)?;
        fields.serialize_field("fencing", &self.fencing)?;
        fields.serialize_field("stopped_holder", &self.stopped_holder)?;
        fields.serialize_field("removal", &self.removal)?;
        fields.serialize_field("kinds", &self.modes.words().collect::<Vec<_>>())?;
        fields.serialize_field("conditions", self.conditions)?;
        fields.end()
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Finding", 3)?;
        fields.serialize_field("severity", &self.severity)?;
        fields.serialize_field("what", &self.what)?;
        fields.serialize_field("cure", &self.cure)?;
        fields.end()
    }
}

impl Serialize for ContenderId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for Severity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Answers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Yes => "yes",
            Self::Unknown => "unknown",
            Self::No => "no",
        })
    }
}

impl Serialize for Exclusion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Process => "process",
            Self::Machine => "machine",
            Self::Timed => "timed",
            Self::BestEffort => "best-effort",
        })
    }
}

impl Serialize for Fencing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Process => "process",
            Self::Service => "service",
            Self::Clock => "clock",
        })
    }
}

impl Serialize for StoppedHolder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Keeps => "keeps",
            Self::Expires => "expires",
        })
    }
}

impl Serialize for Removal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Told => "told",
            Self::Noticed => "noticed",
        })
    }
}

fn text(part: Option<impl Display>) -> Option<String> {
    part.map(|part| part.to_string())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;
    use crate::caller::{Flow, FlowKind, ProcessId, TicketHead};
    use crate::contender::Ticket;
    use crate::modes::Modes;
    use crate::token::FencingToken;

    #[test]
    fn a_contender_has_the_names_of_the_commands_json() {
        let mut holder = ContenderInfo::new(ContenderId::new("c1"), Mode::Exclusive);
        let unknown = to_value(&holder).unwrap();
        for field in ["token", "session", "owner", "label", "ticket", "process", "since_unix_ms", "revocation"] {
            assert!(unknown[field].is_null(), "{field}");
        }
        assert_eq!((&unknown["kept"], &unknown["answers"]), (&json!(false), &json!("unknown")));
        holder.ticket = Some(Ticket::from_bits(0x6b65_7074));
        holder.token = FencingToken::new(i64::MAX.cast_unsigned(), 0);
        holder.session = Some("s1".to_owned());
        holder.owner = Some(Owner::new("web-3", 4121, "backup.sh"));
        holder.label = Some("here".to_owned());
        holder.caller.process = ProcessId::parse("00000000000000ab");
        holder.caller.flow = Flow::new(FlowKind::Task, 7);
        holder.caller.within = TicketHead::parse("0123456789abcdef");
        holder.caller.until_unix = Some(Duration::from_millis(1_750_000_000_250));
        holder.since_unix = Some(Duration::from_secs(1_750_000_000));
        holder.granted_unix = Some(Duration::from_secs(1_750_000_001));
        holder.frozen = Some("upgrade".to_owned());
        holder.revocation = Some(Revocation::new(Some("deploy".to_owned()), Some(Duration::from_secs(2))));
        holder.answers = Answers::No;
        let expected = json!({
            "mode": "exclusive", "id": "c1", "token": "9223372036854775807", "session": "s1",
            "owner": {"host": "web-3", "pid": 4121, "command": "backup.sh"}, "label": "here",
            "ticket": "0000000000000000000000006b657074", "process": "00000000000000ab", "flow": "t7",
            "within": "0123456789abcdef", "until_unix_ms": 1_750_000_000_250_u64,
            "since_unix_ms": 1_750_000_000_000_u64, "granted_unix_ms": 1_750_000_001_000_u64, "frozen": "upgrade",
            "kept": true, "revocation": {"why": "deploy", "within_ms": 2000}, "answers": "no",
        });
        assert_eq!(to_value(&holder).unwrap(), expected);
    }

    #[test]
    fn the_promises_of_a_service_are_the_words_of_the_command() {
        let promises =
            Capabilities::new("redis", Exclusion::BestEffort, Fencing::Clock, StoppedHolder::Expires, Removal::Noticed)
                .carrying(Modes::MUTEX.with(Modes::ELECTION))
                .on_condition(&["no replica is promoted"]);
        let expected = json!({
            "backend": "redis", "exclusion": "best-effort", "fencing": "clock", "stopped_holder": "expires",
            "removal": "noticed", "kinds": ["mutex", "election"], "conditions": ["no replica is promoted"],
        });
        assert_eq!(to_value(promises).unwrap(), expected);
        let words = to_value((
            [Exclusion::Process, Exclusion::Machine, Exclusion::Timed],
            [Fencing::Process, Fencing::Service],
            (StoppedHolder::Keeps, Removal::Told),
            Answers::Yes,
        ));
        let expected = json!([["process", "machine", "timed"], ["process", "service"], ["keeps", "told"], "yes"]);
        assert_eq!(words.unwrap(), expected);
    }

    #[test]
    fn a_finding_says_how_much_it_matters_what_it_is_and_what_to_do() {
        let finding = Finding::new(Severity::Warning, "the clock jumps", "keep it").leaving(Exclusion::BestEffort);
        let expected = json!({"severity": "warning", "what": "the clock jumps", "cure": "keep it"});
        assert_eq!(to_value(finding).unwrap(), expected);
    }
}
