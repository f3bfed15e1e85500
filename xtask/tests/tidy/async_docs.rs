//! Public asynchronous calls say what a caller must know before it drops or repeats them.

use crate::assert_none;
use crate::sources::{Source, sources};

/// The heads of such a call's documentation, in this order.
const HEADS: [&str; 4] = ["# Errors", "# Cancellation", "# Ordering", "# On connection loss"];

/// The crates whose users await our calls; test crates are left out.
const CRATES: [&str; 5] =
    ["crates/core/", "crates/file/", "crates/lockkeeper/", "crates/zookeeper/", "crates/zk-server/"];

/// Whether a line declares a public asynchronous function, or a trait's method that gives a boxed future.
fn is_public_async(line: &str) -> bool {
    let line = line.trim_start();
    let is_method = line.starts_with("fn ") && line.contains("-> BoxFuture<") && line.ends_with(';');
    let gives_future = line.starts_with("pub fn ") && line.contains("-> impl Future");
    line.starts_with("pub async fn ") || is_method || gives_future
}

fn undocumented(source: &Source) -> Vec<String> {
    let lines: Vec<_> = source.text.lines().collect();
    let missing = |number: usize| {
        let is_above = |line: &&&str| line.trim_start().starts_with("///") || line.trim_start().starts_with("#[");
        let above: Vec<_> = lines[..number].iter().rev().take_while(is_above).collect();
        let heads: Vec<_> = above.iter().rev().filter_map(|line| line.trim_start().strip_prefix("/// ")).collect();
        let mut rest = heads.iter();
        HEADS.iter().find(|head| !rest.any(|line| line == *head)).map(|head| (number, *head))
    };
    let calls = (0..lines.len()).filter(|&number| is_public_async(lines[number]));
    calls
        .filter_map(missing)
        .map(|(number, head)| format!("{}:{}: the documentation lacks `{head}`, in its place", source.path, number + 1))
        .collect()
}

fn is_ours(source: &Source) -> bool {
    let path = source.path.as_str();
    path.ends_with(".rs") && path.contains("/src/") && CRATES.iter().any(|name| path.starts_with(name))
}

#[test]
fn public_async_calls_are_documented_under_all_four_heads() {
    let sources = sources();
    let ours: Vec<_> = sources.iter().filter(|source| is_ours(source)).collect();
    let calls = ours.iter().flat_map(|source| source.text.lines()).filter(|line| is_public_async(line)).count();
    assert!(calls > 10, "only {calls} public asynchronous calls were found");
    assert_none(&ours.into_iter().flat_map(undocumented).collect::<Vec<_>>());
}

#[test]
fn a_head_that_is_missing_or_out_of_its_place_is_found() {
    let documented = |heads: &[&str]| {
        let docs: String = heads.iter().map(|head| format!("    /// {head}\n")).collect();
        let text = format!("{docs}    #[must_use]\n    pub async fn lock(&self) {{}}\n");
        undocumented(&Source { path: "x.rs".to_owned(), text })
    };
    assert!(documented(&HEADS).is_empty());
    assert_eq!(documented(&HEADS[..3]).len(), 1);
    assert_eq!(documented(&[HEADS[1], HEADS[0], HEADS[2], HEADS[3]]).len(), 1);
}
