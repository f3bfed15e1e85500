//! Programs that lock without a library known here, beside ours on Apache ZooKeeper: a queue whose nodes have other
//! names, and a lock that is one ephemeral node. What `docs/mixed-fleets.md` says of them, line by line.

use std::time::Duration;

use lockkeeper_conformance::{SOON, answered, soon, until};
use lockkeeper_core::{Advice, ErrorKind};
use lockkeeper_recipes::{Guard, Keeper, kind};
use lockkeeper_zk_proto::message::ErrorCode;
use lockkeeper_zookeeper::{Client, NewNode};

use crate::support::{Bench, Make};

/// How long a contender must have been kept out: lists and watches take a few milliseconds.
const KEPT_OUT: Duration = Duration::from_millis(300);

/// How often the server looks for empty containers: at once, where a real one takes a minute.
const REAPING_INTERVAL: Duration = Duration::from_millis(100);

/// How a raw queue finds out which contender is first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reads {
    /// By the number at the end of every name.
    Numbers,
    /// By every name as a whole, as text.
    WholeNames,
    /// By names that begin as its own do.
    OwnNames,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Entry {
    Entered,
    KeptOut,
    Refused,
}

use Entry::{Entered, KeptOut, Refused};

struct Raw {
    client: Client,
    path: String,
    prefix: &'static str,
    reads: Reads,
    name: String,
}

impl Raw {
    /// Joins the queue at `path`, whose nodes are named `prefix` and a number.
    async fn join(bench: &Bench, path: &str, prefix: &'static str, reads: Reads) -> Self {
        let client = bench.operator().await;
        for parent in ["/locks", path] {
            let made = client.create(NewNode::persistent(parent)).await;
            assert!(made.as_ref().err().is_none_or(|error| error.code() == Some(ErrorCode::NodeExists)), "{made:?}");
        }
        let made = client.create(NewNode::ephemeral_sequential(format!("{path}/{prefix}"))).await.unwrap();
        let name = made.path.rsplit('/').next().unwrap().to_owned();
        Self { client, path: path.to_owned(), prefix, reads, name }
    }

    async fn is_first(&self) -> bool {
        let (names, _) = self.client.get_children(&self.path).await.unwrap();
        let number = |name: &String| name[name.len() - 10..].to_owned();
        let first = match self.reads {
            Reads::Numbers => names.iter().min_by_key(|name| number(name)),
            Reads::WholeNames => names.iter().min(),
            Reads::OwnNames => names.iter().filter(|name| name.starts_with(self.prefix)).min(),
        };
        first == Some(&self.name)
    }

    async fn enters(&self) {
        until("the raw contender is first", async || self.is_first().await).await;
    }

    /// Waits for a while to be first, or for as long as anything may take if that is expected.
    async fn tries(&self, expected: Entry) -> Entry {
        if expected == Entered {
            self.enters().await;
            return Entered;
        }
        let entered = tokio::time::timeout(KEPT_OUT, self.enters()).await;
        if entered.is_ok() { Entered } else { KeptOut }
    }

    async fn leave(self) {
        self.client.delete(&format!("{}/{}", self.path, self.name), None).await.unwrap();
        self.client.close().await.unwrap();
    }
}

fn ours(bench: &Bench, settings: &str) -> Keeper {
    bench.neighbour(settings).keeper
}

async fn take(keeper: &Keeper, path: &str) -> Guard<kind::Mutex> {
    soon("our grant", keeper.mutex(path).unwrap().lock()).await.unwrap()
}

/// Tries for a while to have the lock, or for as long as anything may take if that is expected, and gives it back.
async fn tries(keeper: &Keeper, path: &str, expected: Entry) -> Entry {
    let (mutex, tried_for) = (keeper.mutex(path).unwrap(), if expected == Entered { SOON } else { KEPT_OUT });
    let trying = async || match mutex.lock_timeout(tried_for).await {
        Err(error) if !error.is_transient() => Ok(Err(error)),
        outcome => outcome.map(Ok),
    };
    match answered(trying).await {
        Ok(Some(guard)) => {
            guard.release().await.unwrap();
            Entered
        }
        Ok(None) => KeptOut,
        Err(error) => {
            assert_eq!((error.kind(), error.advice()), (ErrorKind::ForeignContender, Advice::Permanent), "{error}");
            Refused
        }
    }
}

#[tokio::test]
async fn a_raw_queue_and_ours_meet_as_the_table_says() {
    let Some(bench) = Bench::start(Make::Apache).await else { return };
    // What happens to ours when the raw one holds, and to the raw one when ours holds.
    let table = [
        ("", Reads::Numbers, Refused, KeptOut),
        ("", Reads::WholeNames, Refused, KeptOut),
        ("", Reads::OwnNames, Refused, Entered),
        ("?foreign=wait", Reads::Numbers, KeptOut, KeptOut),
        ("?foreign=wait", Reads::WholeNames, KeptOut, KeptOut),
        ("?foreign=wait", Reads::OwnNames, KeptOut, Entered),
        ("?foreign=ignore", Reads::Numbers, Entered, KeptOut),
        ("?foreign=ignore", Reads::WholeNames, Entered, KeptOut),
        ("?foreign=ignore", Reads::OwnNames, Entered, Entered),
    ];
    for (number, (settings, reads, ours_second, raw_second)) in table.into_iter().enumerate() {
        let (keeper, path) = (ours(&bench, settings), format!("/locks/table-{number}"));
        let raw = Raw::join(&bench, &path, "seq-", reads).await;
        raw.enters().await;
        assert_eq!(tries(&keeper, &path, ours_second).await, ours_second, "ours behind {reads:?} with {settings:?}");
        let is_alone = async || raw.client.get_children(&path).await.unwrap().0 == [raw.name.clone()];
        until("nothing of ours is left", is_alone).await;
        raw.leave().await;

        let guard = take(&keeper, &path).await;
        let raw = Raw::join(&bench, &path, "seq-", reads).await;
        assert_eq!(raw.tries(raw_second).await, raw_second, "{reads:?} behind ours with {settings:?}");
        assert!(guard.hold().is_held(), "a holder is not disturbed");
        guard.release().await.unwrap();
        raw.enters().await;
        raw.leave().await;
    }
}

#[tokio::test]
async fn a_raw_queue_that_goes_by_whole_names_waits_for_ours_and_ours_for_it() {
    let Some(bench) = Bench::start(Make::Apache).await else { return };
    let (keeper, path) = (ours(&bench, "?foreign=wait"), "/locks/stuck");
    let first = Raw::join(&bench, path, "seq-", Reads::WholeNames).await;
    let second = Raw::join(&bench, path, "seq-", Reads::WholeNames).await;
    let mut waiting = queued(&bench, &keeper, path, 3).await;
    first.leave().await;
    assert_eq!(second.tries(KeptOut).await, KeptOut, "`_c_` comes before `seq-` as text");
    assert!(tokio::time::timeout(KEPT_OUT, &mut waiting).await.is_err(), "and ours came after it");
    second.leave().await;
    let guard = soon("our turn", waiting).await.unwrap();
    // And with a name that comes before ours as text, it does not see that ours holds.
    let unseeing = Raw::join(&bench, path, "Seq-", Reads::WholeNames).await;
    assert_eq!(unseeing.tries(Entered).await, Entered);
    unseeing.leave().await;
    guard.release().await.unwrap();
}

/// Has ours queue up as the one with this number; the task ends with its guard.
async fn queued(
    bench: &Bench,
    keeper: &Keeper,
    path: &str,
    number: usize,
) -> tokio::task::JoinHandle<Guard<kind::Mutex>> {
    let mutex = keeper.mutex(path).unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await.unwrap() });
    until("ours is in the queue", async || bench.ephemerals_under(path).await == number).await;
    waiting
}

#[tokio::test]
async fn a_lock_of_one_node_at_our_path_keeps_us_out_with_an_error_and_ours_keeps_it_out() {
    let Some(bench) = Bench::reaping_every(Make::Apache, REAPING_INTERVAL).await else { return };
    let simple = bench.operator().await;
    for settings in ["", "?foreign=wait", "?foreign=ignore"] {
        let keeper = ours(&bench, settings);
        soon("the simple lock", simple_lock(&simple, "/lock")).await;
        assert_eq!(tries(&keeper, "/lock", Refused).await, Refused, "{settings:?}");
        let error = keeper.mutex("/lock").unwrap().try_lock().await.unwrap_err();
        let said = lines_of(&error);
        assert!(said.contains("/lock") && said.contains("ephemeral"), "{said}");
        simple.delete("/lock", None).await.unwrap();

        let guard = take(&keeper, "/lock").await;
        let refused = simple.create(NewNode::ephemeral("/lock")).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::NodeExists));
        guard.release().await.unwrap();
        // Our container is deleted some time after it is empty.
        soon("the simple lock", simple_lock(&simple, "/lock")).await;
        simple.delete("/lock", None).await.unwrap();
    }
}

/// Makes the node as soon as it is not there.
async fn simple_lock(client: &Client, path: &str) {
    until("the node can be made", async || client.create(NewNode::ephemeral(path)).await.is_ok()).await;
}

fn lines_of(error: &lockkeeper_core::Error) -> String {
    let sources = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_lock_of_one_node_below_our_path_is_passed_over_with_any_setting() {
    let Some(bench) = Bench::start(Make::Apache).await else { return };
    let simple = bench.operator().await;
    for (number, settings) in ["", "?foreign=wait", "?foreign=ignore"].into_iter().enumerate() {
        let (keeper, path) = (ours(&bench, settings), format!("/below-{number}"));
        let guard = take(&keeper, &path).await;
        let node = format!("{path}/lock");
        simple.create(NewNode::ephemeral(node.as_str())).await.expect("ours does not keep it out");
        guard.release().await.unwrap();
        assert_eq!(tries(&keeper, &path, Entered).await, Entered, "nor does it keep ours out, with {settings:?}");
        simple.delete(&node, None).await.unwrap();
    }
}
