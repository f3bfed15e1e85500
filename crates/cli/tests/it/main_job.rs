//! The main job: real commands, in real processes, one at a time and in their order.

use crate::support::Place;

/// How many processes count at once.
const PROCESSES: usize = 50;

/// How often in a row.
const ROUNDS: usize = 20;

/// How many commands are watched in their order.
const QUEUE: usize = 20;

/// Reads, waits for the disk and writes: without exclusion, hardly any of fifty survives.
const COUNT: &str = "read number < counter; sync counter; echo $((number + 1)) > counter";

#[test]
fn fifty_processes_count_without_losing_one_twenty_times_in_a_row() {
    for round in 0..ROUNDS {
        let place = Place::new();
        place.write("counter", "0\n");
        let processes: Vec<_> = (0..PROCESSES).map(|_| place.start(&[], COUNT)).collect();
        for process in processes {
            let ended = process.end();
            assert_eq!(ended.code, Some(0), "round {round}: {ended:?}");
        }
        assert_eq!(place.read("counter").trim(), PROCESSES.to_string(), "round {round}");
        place.assert_nothing_left();
    }
}

#[test]
fn twenty_commands_are_served_in_the_order_they_joined() {
    let place = Place::new();
    let holder = place.hold("x");
    let mut waiting = Vec::new();
    for number in 0..QUEUE {
        waiting.push(place.start(&["-q"], &format!("echo {number} >> served")));
        place.until_contenders("x", number + 2);
    }
    holder.end();
    for run in waiting {
        assert_eq!(run.end().code, Some(0));
    }
    let expected: String = (0..QUEUE).map(|number| format!("{number}\n")).collect();
    assert_eq!(place.read("served"), expected);
    place.assert_nothing_left();
}
