//! The spans of waits and holds, as a program collects them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex as StdMutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{self, Subscriber};
use tracing::{Event, Metadata};
use tracing_core::span::Current;

use super::*;
use crate::tests::{keepers, service};

/// A span that was collected.
struct Told {
    metadata: &'static Metadata<'static>,
    fields: Fields,
    follows: Vec<u64>,
}

#[derive(Clone, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

/// Collects the library's spans, numbered from 1.
#[derive(Clone, Default)]
struct Collected {
    spans: Arc<StdMutex<Vec<Told>>>,
    entered: Arc<StdMutex<Vec<u64>>>,
}

impl Subscriber for Collected {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "lockkeeper" && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut told = Told { metadata: attributes.metadata(), fields: Fields::default(), follows: Vec::new() };
        attributes.record(&mut told.fields);
        let mut spans = self.spans.lock().unwrap();
        spans.push(told);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut self.spans.lock().unwrap()[span.into_u64() as usize - 1].fields);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.spans.lock().unwrap()[span.into_u64() as usize - 1].follows.push(follows.into_u64());
    }

    fn event(&self, _event: &Event<'_>) {}

    fn enter(&self, span: &Id) {
        self.entered.lock().unwrap().push(span.into_u64());
    }

    fn exit(&self, _span: &Id) {
        self.entered.lock().unwrap().pop();
    }

    fn current_span(&self) -> Current {
        match self.entered.lock().unwrap().last() {
            Some(&span) => Current::new(Id::from_u64(span), self.spans.lock().unwrap()[span as usize - 1].metadata),
            None => Current::none(),
        }
    }
}

/// Returns the spans that are made while `work` goes on: their names and fields, and which they follow from.
fn spans(work: impl AsyncFnOnce()) -> Vec<(&'static str, BTreeMap<&'static str, String>, Vec<u64>)> {
    let collected = Collected::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    subscriber::with_default(collected.clone(), || runtime.block_on(work()));
    let told = |told: &Told| (told.metadata.name(), told.fields.0.clone(), told.follows.clone());
    collected.spans.lock().unwrap().iter().map(told).collect()
}

#[test]
fn a_wait_says_for_whom_and_the_hold_follows_from_it_and_says_that_it_was_lost() {
    let mut tokens = Vec::new();
    let mut first = String::new();
    let spans = spans(async || {
        let [ann, bob] = keepers(&service());
        let guard = ann.mutex("door").unwrap().lock().await.unwrap();
        first = guard.hold().contender().to_string();
        let waiting = tokio::spawn(bob.mutex("door").unwrap().lock_owned());
        tokio::time::sleep(2 * OWNER_AFTER).await;
        tokens.push(guard.fencing_token().to_string());
        drop(guard);
        let guard = waiting.await.unwrap().unwrap();
        tokens.push(guard.fencing_token().to_string());
        bob.testing().unwrap().expire_session();
        guard.release().await.unwrap_err();
    });
    let names: Vec<_> = spans.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, [WAIT, "lockkeeper.hold", WAIT, "lockkeeper.hold"]);
    let (wait, hold) = (&spans[2].1, &spans[3].1);
    assert_eq!((wait["lock"].as_str(), wait["mode"].as_str(), wait["ahead"].as_str()), ("door", "mutex", "1"));
    assert_eq!((&wait["waited_for"], wait["contender"].is_empty()), (&first, false));
    assert_eq!(wait["owner"], lockkeeper_core::Owner::this_process().to_string());
    assert_eq!((&hold["token"], hold["lost"].as_str()), (&tokens[1], "the service ended the session"));
    assert_eq!((spans[1].1.get("lost"), &spans[1].2, &spans[3].2), (None, &vec![1], &vec![3]));
}

#[test]
fn a_wait_that_is_short_asks_for_no_owner() {
    let spans = spans(async || {
        let service = service();
        let guard = service.keeper().mutex("door").unwrap().lock().await.unwrap();
        let mutex = service.keeper().mutex("door").unwrap();
        assert!(mutex.lock_timeout(OWNER_AFTER / 2).await.unwrap().is_none());
        drop(guard);
    });
    let wait = &spans[2].1;
    assert!(wait.contains_key("waited_for") && !wait.contains_key("owner"), "{wait:?}");
}
