//! Many runs for one slot after the other, as cron starts them on many machines, while some are killed or stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_conformance::{Random, SEED_VARIABLE, seed};
use rustix::process::Signal;

use super::{Place, Running, eventually, now};

/// What a run does for its slot; a kill may come before it, within it and behind it.
const WORK: &str = r#"
    echo "$LOCKKEEPER_SLOT begun $LOCKKEEPER_TOKEN" >> log
    sleep 0.05
    echo "$LOCKKEEPER_SLOT ended $LOCKKEEPER_TOKEN" >> log"#;

/// How many runs of a hundred are killed, …
const KILLED_PERCENT: u64 = 30;

/// … and how many are stopped for a while.
const STOPPED_PERCENT: u64 = 10;

/// Within what time after the start of all that happens, in milliseconds.
const STRUCK_WITHIN_MS: u64 = 400;

/// For how long a run is stopped, in milliseconds: often for longer than its session lasts.
const STOPPED_MS_MAX: u64 = 6_000;

/// What happens to a run, at these milliseconds after the start of all.
#[derive(Clone, Copy)]
struct Deed {
    at_ms: u64,
    run: usize,
    signal: Signal,
}

/// How often the work of each slot was begun and ended.
type Counts = BTreeMap<String, [usize; 2]>;

/// Asserts that the work of no slot is begun twice, or with `--retry-failed`, that the work of each slot is done.
pub(crate) fn play(place: &Place, [runs, slots]: [usize; 2]) {
    let seed = seed();
    println!("again: {SEED_VARIABLE}={seed}");
    let mut random = Random::new(seed);
    for mode in [&[][..], &["--retry-failed"]] {
        place.write("log", "");
        for slot in 0..slots {
            one_slot(place, mode, &format!("{}-{slot}", mode.len()), runs, &mut random);
        }
        let counts = counts(&place.read("log"));
        let is_wrong = |[begun, ended]: [usize; 2]| if mode.is_empty() { begun > 1 } else { ended == 0 };
        let wrong: Counts =
            counts.iter().filter(|(_, counts)| is_wrong(**counts)).map(|(s, c)| (s.clone(), *c)).collect();
        assert!(wrong.is_empty(), "with {mode:?}, seed {seed}: {wrong:?}");
        assert!(mode.is_empty() || counts.len() == slots, "with {mode:?}, seed {seed}: {counts:?}");
    }
}

fn one_slot(place: &Place, options: &[&str], slot: &str, count: usize, random: &mut Random) {
    let line = [&["--quiet", "--slot", slot], options].concat();
    let mut runs: Vec<Running> = (0..count).map(|_| place.start(&line, WORK)).collect();
    let mut deeds = Vec::new();
    // One is left alone, so that the work can be done.
    for run in 1..count {
        let (fate, at_ms) = (random.below(100), random.below(STRUCK_WITHIN_MS));
        if fate < KILLED_PERCENT {
            deeds.push(Deed { at_ms, run, signal: Signal::KILL });
        } else if fate < KILLED_PERCENT + STOPPED_PERCENT {
            deeds.push(Deed { at_ms, run, signal: Signal::STOP });
            deeds.push(Deed { at_ms: at_ms + random.below(STOPPED_MS_MAX), run, signal: Signal::CONT });
        }
    }
    deeds.sort_by_key(|deed| deed.at_ms);
    let begun_at = now();
    for deed in deeds {
        let due = begun_at + Duration::from_millis(deed.at_ms);
        let run = &mut runs[deed.run];
        // It may end before.
        eventually("it is time, or the run is over", || (now() >= due || run.is_over()).then_some(()));
        if !run.is_over() {
            run.send(deed.signal);
        }
    }
    for run in runs {
        run.end();
    }
}

fn counts(log: &str) -> Counts {
    let mut counts = Counts::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [slot, what, _] = words[..] else { panic!("{line:?}") };
        counts.entry(slot.to_owned()).or_default()[usize::from(what == "ended")] += 1;
    }
    counts
}
