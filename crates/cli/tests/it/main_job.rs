//! The main job: real commands, in real processes, one at a time and in their order.

use std::process::{Child, Stdio};

use crate::support::{Place, eventually, wait};

/// How many processes count at once.
const PROCESSES: usize = 50;

/// How often in a row.
const ROUNDS: usize = 20;

/// How many commands are watched in their order.
const QUEUE: usize = 20;

/// Reads, waits for the disk and writes: without exclusion, hardly any of fifty survives.
const COUNT: &str = r#"read number < "$1"; sync "$1"; echo $((number + 1)) > "$1""#;

#[test]
fn fifty_processes_count_without_losing_one_twenty_times_in_a_row() {
    for round in 0..ROUNDS {
        let place = Place::new();
        let counter = place.file("counter", "0\n");
        let counter = counter.to_str().unwrap();
        let start = |_| {
            let arguments = ["run", "count", "--", "sh", "-c", COUNT, "sh", counter];
            let mut command = place.command(&arguments);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let processes: Vec<Child> = (0..PROCESSES).map(start).collect();
        for process in processes {
            let ended = wait(process);
            assert_eq!(ended.code, Some(0), "round {round}: {ended:?}");
        }
        let counted = std::fs::read_to_string(counter).unwrap();
        assert_eq!(counted.trim(), PROCESSES.to_string(), "round {round}");
        assert_nothing_left(&place);
    }
}

#[test]
fn twenty_commands_are_served_in_the_order_they_joined() {
    let place = Place::new();
    let served = place.file("served", "");
    let holder = place.hold("order");
    let mut waiting = Vec::new();
    for number in 0..QUEUE {
        let script = r#"echo "$1" >> "$2""#;
        let number_text = number.to_string();
        let arguments = ["run", "-q", "order", "--", "sh", "-c", script, "sh", &number_text, served.to_str().unwrap()];
        let child = place.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        waiting.push(child);
        eventually("it has joined", || (place.contenders("order") == number + 2).then_some(()));
    }
    holder.end();
    for child in waiting {
        assert_eq!(wait(child).code, Some(0));
    }
    let expected: String = (0..QUEUE).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(served).unwrap(), expected);
    assert_nothing_left(&place);
}

#[test]
fn a_killed_waiter_in_the_middle_disturbs_no_other() {
    let place = Place::new();
    let holder = place.hold("middle");
    let start = |number: usize| {
        let child = place
            .command(&["run", "-q", "middle", "--", "true"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        eventually("it has joined", || (place.contenders("middle") == number + 2).then_some(()));
        child
    };
    let (first, mut second, third) = (start(0), start(1), start(2));
    second.kill().unwrap();
    second.wait().unwrap();
    holder.end();
    assert_eq!(wait(first).code, Some(0));
    assert_eq!(wait(third).code, Some(0));
    assert_nothing_left(&place);
}

/// Not even the directories of the queues are left, only the counter is.
fn assert_nothing_left(place: &Place) {
    let queues: Vec<_> = std::fs::read_dir(place.locks().join("queues")).unwrap().collect();
    assert!(queues.is_empty(), "left behind: {queues:?}");
}
