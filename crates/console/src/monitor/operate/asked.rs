//! From the words of a page or of a program to an order.

use std::time::Duration;

use lockkeeper::{ContenderId, FencingToken, QueueName};
use serde::Deserialize;

use crate::args::{FreezableKind, reason};
use crate::ordering::{OperatorOrder, SeenContender};

/// How long a freeze that is ordered here may wait for the lock: longer waits are the command's matter.
pub(super) const FREEZE_WAIT_MAX: Duration = Duration::from_secs(3_600);

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum OrderWord {
    Revoke,
    Break,
    Freeze,
    Thaw,
}

impl OrderWord {
    /// Returns it as the command for it is called.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Revoke => "revoke",
            Self::Break => "break",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
        }
    }
}

/// An order as it is asked for, of a lock that has its own place in a request.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct OrderRequest {
    pub(super) order: OrderWord,
    /// The contender that was seen.
    pub(super) contender: Option<String>,
    pub(super) token: Option<String>,
    pub(super) reason: Option<String>,
    /// How long a freeze waits, in milliseconds.
    pub(super) wait_ms: Option<u64>,
    /// As what a freeze is to take a lock whose queue does not tell.
    pub(super) kind: Option<FreezableKind>,
}

impl OrderRequest {
    /// Returns the order.
    /// Fails with what is missing or too much.
    pub(super) fn order(&self) -> Result<OperatorOrder, String> {
        let reason = self.reason.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let reason = reason.map(reason_of).transpose()?;
        let is_freeze = self.order == OrderWord::Freeze;
        if !is_freeze && self.wait_ms.is_some() {
            return Err(format!("A {} does not wait: leave `wait_ms` out.", self.order.as_str()));
        }
        if !is_freeze && self.kind.is_some() {
            return Err(format!("A {} needs no kind of lock: leave `kind` out.", self.order.as_str()));
        }
        match self.order {
            OrderWord::Revoke => Ok(OperatorOrder::Revoke { holder: self.seen()?, reason }),
            OrderWord::Break => match self.seen()? {
                holder @ SeenContender { token: Some(_), .. } => Ok(OperatorOrder::Break { holder }),
                _ => Err("A break needs the token of the holder that was seen.".to_owned()),
            },
            OrderWord::Thaw => Ok(OperatorOrder::Thaw { freezer: self.seen()? }),
            OrderWord::Freeze => {
                if self.contender.is_some() || self.token.is_some() {
                    return Err("A freeze is meant for the lock, and for no contender of it.".to_owned());
                }
                let wait = Duration::from_millis(self.wait_ms.unwrap_or_default());
                if wait > FREEZE_WAIT_MAX {
                    let most = FREEZE_WAIT_MAX.as_secs();
                    return Err(format!("A freeze waits {most} s at most here; `lockkeeper freeze` waits for longer."));
                }
                let reason = reason.ok_or("A freeze needs a reason, which waiters are shown.")?;
                Ok(OperatorOrder::Freeze { reason, wait, kind: self.kind.map(FreezableKind::of_lock) })
            }
        }
    }

    fn seen(&self) -> Result<SeenContender, String> {
        let Some(id) = self.contender.as_deref().filter(|id| !id.is_empty()) else {
            return Err(format!("A {} needs the contender that was seen.", self.order.as_str()));
        };
        let token = self.token.as_deref().filter(|token| !token.is_empty()).map(str::parse::<FencingToken>);
        let token = token.transpose().map_err(|error| format!("Invalid token: {error}."))?;
        Ok(SeenContender { id: ContenderId::new(id), token })
    }
}

fn reason_of(text: &str) -> Result<String, String> {
    reason(text).map_err(|what| format!("Invalid reason: {what}."))
}

pub(super) fn lock(name: &str) -> Result<QueueName, String> {
    QueueName::new(name).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(json: &str) -> Result<OperatorOrder, String> {
        serde_json::from_str::<OrderRequest>(json).map_err(|error| error.to_string())?.order()
    }

    #[test]
    fn orders_are_read_with_the_contender_that_was_seen() {
        let seen = |token: Option<u64>| SeenContender {
            id: ContenderId::new("c-1"),
            token: token.map(|token| token.to_string().parse().unwrap()),
        };
        for (json, order) in [
            (r#"{"order":"revoke","contender":"c-1"}"#, OperatorOrder::Revoke { holder: seen(None), reason: None }),
            (
                r#"{"order":"revoke","contender":"c-1","token":"7","reason":" why "}"#,
                OperatorOrder::Revoke { holder: seen(Some(7)), reason: Some("why".to_owned()) },
            ),
            (r#"{"order":"break","contender":"c-1","token":"7"}"#, OperatorOrder::Break { holder: seen(Some(7)) }),
            (r#"{"order":"thaw","contender":"c-1","token":"7"}"#, OperatorOrder::Thaw { freezer: seen(Some(7)) }),
            (
                r#"{"order":"freeze","reason":"moving","wait_ms":1500}"#,
                OperatorOrder::Freeze { reason: "moving".to_owned(), wait: Duration::from_millis(1_500), kind: None },
            ),
            (
                r#"{"order":"freeze","reason":"moving","kind":"rwlock"}"#,
                OperatorOrder::Freeze {
                    reason: "moving".to_owned(),
                    wait: Duration::ZERO,
                    kind: Some(lockkeeper::LockKind::ReadWrite),
                },
            ),
        ] {
            assert_eq!(asked(json), Ok(order), "{json}");
        }
    }

    #[test]
    fn what_is_missing_or_too_much_is_said() {
        for (json, what) in [
            (r#"{"order":"revoke"}"#, "needs the contender"),
            (r#"{"order":"revoke","contender":""}"#, "needs the contender"),
            (r#"{"order":"break","contender":"c-1"}"#, "needs the token"),
            (r#"{"order":"break","contender":"c-1","token":"x"}"#, "Invalid token"),
            (r#"{"order":"thaw"}"#, "needs the contender"),
            (r#"{"order":"thaw","contender":"c-1","wait_ms":1}"#, "does not wait"),
            (r#"{"order":"thaw","contender":"c-1","kind":"mutex"}"#, "needs no kind"),
            (r#"{"order":"freeze","reason":"x","kind":"barrier"}"#, "unknown variant"),
            (r#"{"order":"freeze"}"#, "needs a reason"),
            (r#"{"order":"freeze","reason":" "}"#, "needs a reason"),
            (r#"{"order":"freeze","reason":"a\nb"}"#, "control character"),
            (r#"{"order":"freeze","reason":"x","contender":"c-1"}"#, "for no contender"),
            (r#"{"order":"freeze","reason":"x","wait_ms":3600001}"#, "3600 s at most"),
            (r#"{"order":"stop"}"#, "unknown variant"),
            (r#"{"order":"thaw","contender":"c-1","force":true}"#, "unknown field"),
        ] {
            let refusal = asked(json).expect_err(json);
            assert!(refusal.contains(what), "{json}: {refusal}");
        }
    }
}
