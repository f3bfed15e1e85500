//! Two commands that wait for each other: how they come to that, and what must be found of them.

use std::process::Command;
use std::time::{Duration, Instant};

use lockkeeper_faults::{figures, long};
use serde_json::{Value, json};

use crate::support::{Ended, Place, Running, finish, now};

/// How long a deadlock may stand until it is known to an operator who asks; judged in the long run.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

/// How often what may be late is tried in the long run, since other tests use the machine too.
pub(crate) const TRIES_MAX: usize = 3;

/// Notes that it runs, waits until all do, and runs a command under another lock.
const NOTE_AND_NEST: &str = r#"
    notes=$1 number=$2
    shift 2
    echo $$ > "$notes/$number"
    while [ ! -e "$notes/go" ]; do sleep 0.01; done
    "$LOCKKEEPER" run "$@" -- true"#;

/// The options of a `run`, with the lock as the last one.
pub(crate) type Claim<'a> = &'a [&'a str];

pub(crate) fn lock_of<'a>(claim: Claim<'a>) -> &'a str {
    claim.last().unwrap()
}

/// The machine of a test, which uses the service of this URL. Sessions outlive a moment in which the machine stands
/// still, unless the URL says otherwise.
pub(crate) fn place_of(url: &str) -> Place {
    let settings = if url.contains('?') { "" } else { "?session_timeout=40s" };
    Place::of(&format!("{url}{settings}"))
}

/// Has `deadlocks` look; again, if the long run judges how long that takes and it took too long. Returns what was
/// printed, and how long it took.
pub(crate) fn looked_in_time(place: &Place) -> (Ended, Duration) {
    let mut tries = 0;
    loop {
        let begun = now();
        let ended = place.run(&["deadlocks", "--json"]);
        let took = now() - begun;
        tries += 1;
        if !long::is_asked_for() || took < KNOWN_WITHIN {
            return (ended, took);
        }
        assert!(tries < TRIES_MAX, "{took:?}");
    }
}

/// Two commands, each with a lock, whose commands ask for a lock of the other's.
pub(crate) struct Crossing {
    pub(crate) place: Place,
    /// No wait began before this.
    pub(crate) began: Instant,
    /// The command that holds each lock.
    pub(crate) runs: Vec<(String, Running)>,
}

impl Crossing {
    /// Two commands that hold the door and the gate, and ask for the other's.
    pub(crate) fn door_and_gate(place: Place) -> Self {
        Self::new(place, [[&["door"], &["gate"]], [&["gate"], &["door"]]])
    }

    /// Has each hold the first lock, and ask for the second one when both hold.
    pub(crate) fn new(place: Place, claims: [[Claim<'_>; 2]; 2]) -> Self {
        let mut crossing = Self { place, began: now(), runs: Vec::new() };
        let place = &crossing.place;
        // Of a crossing that was there before.
        let _ = std::fs::remove_file(place.notes().join("go"));
        for (number, [held, wanted]) in claims.into_iter().enumerate() {
            let mut command = place.command(&["run", "-q"]);
            command.args(held).args(["--", "sh", "-c", NOTE_AND_NEST, "sh"]);
            command.arg(place.notes()).arg(number.to_string()).arg("-q").args(wanted);
            crossing.runs.push((lock_of(held).to_owned(), Running::start(&mut command)));
            place.note(&number.to_string());
        }
        crossing.began = now();
        place.write("go", "");
        for [held, _] in claims {
            place.until_contenders(lock_of(held), 2);
        }
        crossing
    }

    /// Asserts that one deadlock is known in time; returns it.
    pub(crate) fn known(&self, who: &str) -> Value {
        let (ended, took) = looked_in_time(&self.place);
        assert_eq!((ended.code, &*ended.stderr), (Some(1), ""), "{ended:?}");
        let found = ended.json();
        figures::tell(&format!("deadlocks, {who}: known after {:.2} s", took.as_secs_f64()));
        let deadlock = the_one(&found);
        assert_eq!((&deadlock["verdict"], &deadlock["certainty"]), (&json!("known"), &json!("same-owner")), "{found}");
        deadlock
    }

    /// Asserts that its chain is that of the two, each of which waits for what the other holds. What else is so of a
    /// link, of the waiter of the other one, and of the process that is ahead in the link, the caller says.
    pub(crate) fn assert_chain(&self, deadlock: &Value, mut is_so: impl FnMut(&Value, &Value, u32)) {
        let chain = deadlock["chain"].as_array().unwrap();
        assert_eq!((chain.len(), deadlock["core"].as_array().unwrap().len()), (2, 4), "{deadlock}");
        for (lock, run) in &self.runs {
            let at = chain.iter().position(|link| link["lock"] == **lock).expect("its lock is in the chain");
            let (link, next) = (&chain[at], &chain[1 - at]);
            assert_eq!(link["ahead"]["owner"]["pid"], run.id(), "{deadlock}");
            is_so(link, &next["waiter"], run.id());
        }
    }

    /// The same of commands, each of which waits under what it holds: in these states, by its lock.
    pub(crate) fn assert_nested(&self, deadlock: &Value, states: [(&str, &str); 2]) {
        self.assert_chain(deadlock, |link, waiter, _| {
            let (_, state) = states.iter().find(|(lock, _)| link["lock"] == **lock).expect("it has a state");
            assert_eq!((&link["state"], &link["joined"]), (&json!(state), &json!("within")), "{deadlock}");
            assert_eq!(waiter["within"], link["ahead"]["ticket"].as_str().unwrap()[..16], "{deadlock}");
            assert_eq!((&waiter["owner"]["command"], &link["ahead"]["answers"]), (&json!("true"), &json!("yes")));
        });
    }

    /// Gives the order that is printed as the way out, in a shell.
    pub(crate) fn take_way_out(&self, text: &str) {
        let orders: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("    ")).collect();
        let [order] = orders[..] else { panic!("{text}") };
        let given = finish(&mut shell(&self.place, order));
        assert_eq!(given.code, Some(0), "{order}: {given:?}");
    }

    /// Asserts that the two have ended with these codes, the least first, by the way out.
    pub(crate) fn assert_over(mut self, codes: [i32; 2]) {
        let mut ended: Vec<_> = self.runs.iter_mut().map(|(_, run)| run.code()).collect();
        ended.sort_unstable();
        assert_eq!(ended, codes.map(Some));
        let looked = self.place.printed(&["deadlocks"]);
        assert!(looked.ends_with("\nno deadlock\n"), "{looked:?}");
    }
}

/// A shell that reads a line in which `lockkeeper` is the command under test.
pub(crate) fn shell(place: &Place, line: &str) -> Command {
    let mut shell = Command::new("sh");
    place.surround(shell.args(["-c", line]));
    shell
}

pub(crate) fn the_one(found: &Value) -> Value {
    let deadlocks = found["deadlocks"].as_array().unwrap();
    assert_eq!(deadlocks.len(), 1, "{found:#}");
    deadlocks[0].clone()
}
