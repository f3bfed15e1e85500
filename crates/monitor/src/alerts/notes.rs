//! A monitor's notes of its alerts beyond its own life, as a text: a JSON object of a version.
//!
//! Pure: where the text is kept, the command knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use lockkeeper::{ContenderId, QueueName};
use serde::{Deserialize, Serialize};

use super::episode::{Alert, AlertNews, Outage};
use super::findings::{About, AlertFinding, Rule};

/// The version of the text that is written. Since version 2 there are the rules `lost` and `jeopardy`, since version
/// 3 `breach`.
const VERSION: u64 = 3;

/// The oldest version that is read: what it says, each later one says in the same words.
const VERSION_MIN: u64 = 1;

/// How much is kept of what was said of an alert, in characters: a line that an operator reads.
const SAID_MAX: usize = 500;

/// What is known of the alerts of a service.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AlertNotes {
    /// The number of the last note for all monitors, if one was heard of.
    pub note: Option<u64>,
    /// How many outages were seen since that note.
    pub outages: u64,
    /// Whether those are all since that note.
    pub is_counted: bool,
    /// The alerts that are not over.
    pub firing: Vec<NotedAlert>,
    /// What each receiver is still to be told, and since when, in time since 1970-01-01 UTC.
    pub untold: BTreeMap<String, Vec<(Duration, AlertNews)>>,
}

/// An alert, as it is noted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NotedAlert {
    /// The alert.
    pub alert: Alert,
    /// Whether receivers were told that it has begun, or are about to be.
    pub is_told: bool,
}

/// Why a text is none that can be gone on with.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NotesError {
    /// It is not one of ours, or is not whole.
    Damaged(String),
    /// It is of another version of the program.
    Version(u64),
    /// It is of the alerts of another service, which is named.
    Service(String),
}

impl fmt::Display for NotesError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(why) => write!(formatter, "is damaged: {why}"),
            Self::Version(version) => {
                write!(formatter, "is of version {version}, and this program reads {VERSION_MIN} to {VERSION}")
            }
            Self::Service(service) => write!(formatter, "is of another service, {service}"),
        }
    }
}

impl std::error::Error for NotesError {}

/// What is read before all else, whatever the version.
#[derive(Deserialize)]
struct Head {
    version: u64,
}

#[derive(Deserialize, Serialize)]
struct NotesJson {
    version: u64,
    service: String,
    note: Option<u64>,
    outages: u64,
    #[serde(default)]
    is_counted: bool,
    firing: Vec<AlertText>,
    untold: BTreeMap<String, Vec<NewsText>>,
}

#[derive(Deserialize, Serialize)]
struct AlertText {
    rule: String,
    /// The contenders that it is about, each with its lock; of a lock alone the contender is empty.
    about: Vec<(String, String)>,
    began_ms: u64,
    said: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outage: Option<(u64, u64)>,
    is_told: bool,
}

#[derive(Deserialize, Serialize)]
struct NewsText {
    since_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
    alert: AlertText,
}

impl AlertNotes {
    /// Writes them as a text of at most so many bytes. Where there is no room, first the oldest news go that are still
    /// to be told, and then alerts that are not over. `say` says in a line what is wrong.
    pub fn encode(&self, service: &str, bytes_max: usize, say: impl Fn(&Alert) -> String) -> Vec<u8> {
        let text_of = |alert: &Alert, is_told| AlertText::new(alert, &say(alert), is_told);
        let news = |(since, news): &(Duration, AlertNews)| match news {
            AlertNews::Raised(alert) => {
                NewsText { since_ms: millis(*since), ended_ms: None, alert: text_of(alert, true) }
            }
            AlertNews::Ended(alert) => NewsText {
                since_ms: millis(*since),
                ended_ms: alert.ended_unix.map(millis),
                alert: text_of(alert, true),
            },
        };
        let untold = self.untold.iter().map(|(receiver, all)| (receiver.clone(), all.iter().map(news).collect()));
        let mut text = NotesJson {
            version: VERSION,
            service: service.to_owned(),
            note: self.note,
            outages: self.outages,
            is_counted: self.is_counted,
            firing: self.firing.iter().map(|noted| text_of(&noted.alert, noted.is_told)).collect(),
            untold: untold.collect(),
        };
        loop {
            let bytes = serde_json::to_vec(&text).expect("it is made of texts and numbers");
            if bytes.len() <= bytes_max || text.is_short() {
                return bytes;
            }
            text.shorten();
        }
    }

    /// Reads a text about this service.
    ///
    /// # Errors
    ///
    /// What is wrong with it. Nothing of it is read then.
    pub fn decode(bytes: &[u8], service: &str) -> Result<Self, NotesError> {
        let damaged = |error: serde_json::Error| NotesError::Damaged(error.to_string());
        let Head { version } = serde_json::from_slice(bytes).map_err(damaged)?;
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(NotesError::Version(version));
        }
        let text: NotesJson = serde_json::from_slice(bytes).map_err(damaged)?;
        if text.service != service {
            return Err(NotesError::Service(text.service));
        }
        let noted = |text: AlertText| Ok(NotedAlert { is_told: text.is_told, alert: text.alert(None)? });
        let news = |text: NewsText| {
            let since = Duration::from_millis(text.since_ms);
            let ended = text.ended_ms.map(Duration::from_millis);
            let alert = text.alert.alert(ended)?;
            Ok((since, if ended.is_some() { AlertNews::Ended(alert) } else { AlertNews::Raised(alert) }))
        };
        let untold = text.untold.into_iter().map(|(receiver, all)| {
            let all = all.into_iter().map(news).collect::<Result<Vec<_>, _>>()?;
            Ok((receiver, all))
        });
        Ok(Self {
            note: text.note,
            outages: text.outages,
            is_counted: text.is_counted,
            firing: text.firing.into_iter().map(noted).collect::<Result<_, _>>()?,
            untold: untold.collect::<Result<_, _>>()?,
        })
    }
}

impl NotesJson {
    /// Whether there is nothing to leave out.
    fn is_short(&self) -> bool {
        self.firing.is_empty() && self.untold.values().all(Vec::is_empty)
    }

    /// Leaves out a part.
    fn shorten(&mut self) {
        /// Which part goes at a time, so that a few rounds are enough.
        const SHARE: usize = 4;
        let longest = self.untold.values_mut().max_by_key(|all| all.len()).filter(|all| !all.is_empty());
        if let Some(longest) = longest {
            longest.drain(..longest.len().div_ceil(SHARE));
        } else {
            self.firing.truncate(self.firing.len() - self.firing.len().div_ceil(SHARE));
        }
    }
}

impl AlertText {
    fn new(alert: &Alert, said: &str, is_told: bool) -> Self {
        let about = match &alert.about {
            About::Deadlock(core) => core.iter().map(|(lock, id)| (lock.as_str().to_owned(), id.to_string())).collect(),
            About::Held(lock, id) | About::Jeopardy(lock, id) => vec![(lock.as_str().to_owned(), id.to_string())],
            About::Waiters(lock) | About::Lost(lock) | About::Breach(lock) => {
                vec![(lock.as_str().to_owned(), String::new())]
            }
            About::Unreachable => Vec::new(),
        };
        Self {
            rule: alert.about.rule().as_str().to_owned(),
            about,
            began_ms: millis(alert.began_unix),
            said: said.chars().take(SAID_MAX).collect(),
            outage: alert.outage.map(|outage| (outage.note, outage.number)),
            is_told,
        }
    }

    fn alert(self, ended_unix: Option<Duration>) -> Result<Alert, NotesError> {
        let outage = self.outage.map(|(note, number)| Outage { note, number });
        let (finding, began_unix) = (AlertFinding::Said(self.said), Duration::from_millis(self.began_ms));
        let about = about(&self.rule, self.about)?;
        Ok(Alert { about, finding, began_unix, ended_unix, outage })
    }
}

fn about(rule: &str, about: Vec<(String, String)>) -> Result<About, NotesError> {
    let damaged = |what: String| NotesError::Damaged(what);
    let found = Rule::ALL.into_iter().find(|known| known.as_str() == rule);
    let rule = found.ok_or_else(|| damaged(format!("there is no rule {rule:?}")))?;
    let named = about.into_iter().map(|(lock, id)| match QueueName::new(&lock) {
        Ok(lock) => Ok((lock, ContenderId::new(id))),
        Err(error) => Err(damaged(error.to_string())),
    });
    let named = named.collect::<Result<BTreeSet<_>, _>>()?;
    let first = named.first().cloned();
    match (rule, first) {
        (Rule::Deadlock, Some(_)) => Ok(About::Deadlock(named)),
        (Rule::Held, Some((lock, id))) => Ok(About::Held(lock, id)),
        (Rule::Waiters, Some((lock, _))) => Ok(About::Waiters(lock)),
        (Rule::Lost, Some((lock, _))) => Ok(About::Lost(lock)),
        (Rule::Breach, Some((lock, _))) => Ok(About::Breach(lock)),
        (Rule::Jeopardy, Some((lock, id))) => Ok(About::Jeopardy(lock, id)),
        (Rule::Unreachable, _) => Ok(About::Unreachable),
        (_, None) => Err(damaged(format!("an alert of the rule {rule} is about no lock"))),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
