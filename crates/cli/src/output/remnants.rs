//! Output of `gc`: the remnants on a service, and what became of each.

use lockkeeper::{Remnant, RemnantKind};
use serde::Serialize;

use super::{OrderCommands, one_line, shell_line};

/// What the removal of an empty queue of ZooKeeper's does to programs with kazoo: a lock object of it makes the queue's
/// node once in its life.
const KAZOO_NOTE: &str = "note: a program with kazoo must make its lock objects of these queues anew after the \
                          removal: each acquire of an old one fails with NoNodeError\n";

#[derive(Debug, Serialize)]
pub(crate) struct Remnants {
    service: String,
    remnants: Vec<RemnantRow>,
}

#[derive(Debug, Serialize)]
struct RemnantRow {
    kind: &'static str,
    lock: Option<String>,
    place: String,
    outcome: RemnantOutcome,
    #[serde(skip)]
    remnant: Remnant,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RemnantOutcome {
    /// It would be removed, if that was asked for; or there was no try.
    Listed,
    /// It is not removed without `--force`.
    NeedsForce,
    Removed,
    /// It is not as it was when it was listed: a client uses it, or has removed it.
    Left,
    Failed,
}

impl Remnants {
    /// Describes what was found, and what is meant for each kind.
    pub(crate) fn new(service: String, found: Vec<Remnant>, meant: impl Fn(RemnantKind) -> RemnantOutcome) -> Self {
        let left = |remnant: Remnant| RemnantRow {
            kind: remnant.kind.as_str(),
            lock: remnant.lock.as_ref().map(|lock| lock.as_str().to_owned()),
            place: remnant.place.clone(),
            outcome: meant(remnant.kind),
            remnant,
        };
        Self { service, remnants: found.into_iter().map(left).collect() }
    }

    /// Returns what is to be removed, with what becomes of it.
    pub(crate) fn listed(&mut self) -> impl Iterator<Item = (&Remnant, &mut RemnantOutcome)> {
        let listed = self.remnants.iter_mut().filter(|left| left.outcome == RemnantOutcome::Listed);
        listed.map(|left| (&left.remnant, &mut left.outcome))
    }

    /// Returns it as text, a line each, behind the service.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![one_line(&self.service)];
        lines.extend(self.remnants.iter().map(RemnantRow::line));
        if self.remnants.is_empty() {
            lines.push("nothing is left behind".to_owned());
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }

    /// Says how what is listed is removed, and what comes of that; empty if there is nothing to remove.
    pub(crate) fn order(&self, orders: &OrderCommands) -> String {
        let (listed, forced) = (self.count(RemnantOutcome::Listed), self.count(RemnantOutcome::NeedsForce));
        let mut text = String::new();
        let is_empty_queue = |left: &RemnantRow| left.remnant.kind == RemnantKind::Empty;
        if self.service.starts_with("zk") && self.remnants.iter().any(is_empty_queue) {
            text += KAZOO_NOTE;
        }
        if listed > 0 {
            let order = shell_line(&orders.order_without_lock(&["gc", "--yes"]));
            text += &format!("to remove {listed}:\n    {order}\n");
        }
        if forced > 0 {
            let order = shell_line(&orders.order_without_lock(&["gc", "--yes", "--force"]));
            text += &format!("to remove {}, also where the owner is not known:\n    {order}\n", listed + forced);
        }
        text
    }

    pub(crate) fn outcome(&self) -> String {
        let mut text = String::new();
        for left in self.remnants.iter().filter(|left| left.outcome == RemnantOutcome::Left) {
            text += &format!("{}\n", one_line(&format!("left, since it is not as it was: {}", left.place)));
        }
        let counts = [
            (RemnantOutcome::Removed, "removed"),
            (RemnantOutcome::Left, "left"),
            (RemnantOutcome::NeedsForce, "left without --force"),
            (RemnantOutcome::Failed, "failed"),
            (RemnantOutcome::Listed, "not tried"),
        ];
        let told: Vec<_> = counts
            .into_iter()
            .map(|(outcome, word)| (outcome, self.count(outcome), word))
            .filter(|&(outcome, count, _)| outcome == RemnantOutcome::Removed || count > 0)
            .map(|(_, count, word)| format!("{count} {word}"))
            .collect();
        text + &told.join(", ") + "\n"
    }

    fn count(&self, outcome: RemnantOutcome) -> usize {
        self.remnants.iter().filter(|left| left.outcome == outcome).count()
    }
}

impl RemnantRow {
    fn line(&self) -> String {
        let what = match self.remnant.kind {
            RemnantKind::Dead => "a dead contender",
            RemnantKind::Empty => "an empty queue",
            RemnantKind::Unbound => "a contender without a session and without a reason",
            _ => self.kind,
        };
        let lock = self.lock.as_deref().unwrap_or("a lock of an unknown name");
        let force = if self.outcome == RemnantOutcome::NeedsForce { " (only with --force)" } else { "" };
        one_line(&format!("  {lock}: {what}, {}{force}", self.place))
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper::QueueName;

    use super::*;

    fn remnants() -> Remnants {
        let lock = |name| QueueName::new(name).ok();
        let found = vec![
            Remnant::new(RemnantKind::Dead, "/x/1", ()).of_lock(lock("my door")),
            Remnant::new(RemnantKind::Empty, "/x/\u{1b}[2J\n\u{202e}", ()),
            Remnant::new(RemnantKind::Unbound, "/x/3", ()).of_lock(lock("<b>gate</b>\u{202e}")),
        ];
        Remnants::new("zk://h1".to_owned(), found, |kind| match kind {
            RemnantKind::Unbound => RemnantOutcome::NeedsForce,
            _ => RemnantOutcome::Listed,
        })
    }

    #[test]
    fn what_is_left_is_a_line_each_and_the_order_that_removes_it_follows() {
        let remnants = remnants();
        assert_eq!(
            remnants.text() + &remnants.order(&OrderCommands::new(None, None)),
            "zk://h1\n\
             \u{20} my door: a dead contender, /x/1\n\
             \u{20} a lock of an unknown name: an empty queue, /x/\\u{1b}[2J\\n\\u{202e}\n\
             \u{20} <b>gate</b>\\u{202e}: a contender without a session and without a reason, /x/3 \
             (only with --force)\n\
             note: a program with kazoo must make its lock objects of these queues anew after the removal: each \
             acquire of an old one fails with NoNodeError\n\
             to remove 2:\n\
             \u{20}   lockkeeper gc --yes\n\
             to remove 3, also where the owner is not known:\n\
             \u{20}   lockkeeper gc --yes --force\n"
        );
    }

    #[test]
    fn what_became_of_it_is_counted() {
        let mut remnants = remnants();
        for ((_, outcome), became) in remnants.listed().zip([RemnantOutcome::Removed, RemnantOutcome::Left]) {
            *outcome = became;
        }
        assert_eq!(
            remnants.outcome(),
            "left, since it is not as it was: /x/\\u{1b}[2J\\n\\u{202e}\n1 removed, 1 left, 1 left without --force\n"
        );
        let json = serde_json::to_value(&remnants).unwrap();
        assert_eq!(
            json["remnants"][0],
            serde_json::json!({
                "kind": "dead", "lock": "my door", "place": "/x/1", "outcome": "removed"
            })
        );
        assert_eq!(json["remnants"][1]["lock"], serde_json::Value::Null);
        assert_eq!(json["remnants"][2]["outcome"], "needs-force");
    }
}
