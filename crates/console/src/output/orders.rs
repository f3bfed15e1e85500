//! The outcome of an operator's orders, as `revoke`, `break`, `freeze` and `thaw` print it.

use serde::Serialize;

use super::text::one_line;
use super::who::ContenderView;

/// What an order has done to a lock.
#[derive(Debug, Serialize)]
pub struct OrderReport {
    name: String,
    service: String,
    #[serde(flatten)]
    deed: Deed,
}

/// What was done; in JSON, by its fields.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Deed {
    /// Holders were asked to give it up.
    Revoked {
        /// Those who were asked.
        asked: Vec<ContenderView>,
        /// Whether all of them have, by now.
        given_up: bool,
    },
    /// A holder has lost it.
    Broken {
        /// The former holder.
        broken: ContenderView,
    },
    /// All contenders are kept out.
    Frozen {
        /// The contender that freezes it.
        frozen: ContenderView,
    },
    /// Contenders may take it again.
    Thawed {
        /// What had frozen it or waited to.
        thawed: Vec<ContenderView>,
    },
}

impl OrderReport {
    /// Describes a deed at a lock of a service.
    pub fn new(name: &str, service: String, deed: Deed) -> Self {
        Self { name: name.to_owned(), service, deed }
    }

    /// Returns it as text.
    pub fn text(&self) -> String {
        let Self { name, service, deed } = self;
        let names = |list: &[ContenderView]| list.iter().map(ContenderView::name).collect::<Vec<_>>().join(", ");
        let done = match deed {
            Deed::Revoked { asked, .. } if asked.is_empty() => ": there is no holder to ask".to_owned(),
            Deed::Revoked { asked, given_up } => {
                let so_far = if *given_up { "; it was given up" } else { "" };
                let asked: Vec<_> = asked.iter().map(|who| who.name() + who.unheard()).collect();
                format!(": asked {} to give it up{so_far}", asked.join(", "))
            }
            Deed::Broken { broken } => format!(" is broken; it was held by {}", broken.in_full()),
            Deed::Frozen { frozen } => {
                format!(" is frozen until `lockkeeper thaw`: {}", frozen.frozen().unwrap_or_default())
            }
            Deed::Thawed { thawed } if thawed.is_empty() => " is not frozen".to_owned(),
            Deed::Thawed { thawed } => {
                let reasons: Vec<_> = thawed.iter().filter_map(ContenderView::frozen).collect();
                format!(" is thawed; it was frozen by {}: {}", names(thawed), reasons.join("; "))
            }
        };
        one_line(&format!("{name} ({service}){done}")) + "\n"
    }
}
