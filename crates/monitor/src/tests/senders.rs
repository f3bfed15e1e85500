//! Several monitors of one service over virtual time: each alert is told once when it begins and once when it ends,
//! whichever monitor sends.

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper::{Mode, QueueName};

use super::scene::{cut_off, line, moment as at, name, told};
use crate::alerts::{Alert, AlertNotes, Desk, NotesError, Thresholds, is_of_service};
use crate::collect::{MonitorState, ServiceFreshness};

const SERVICE: &str = "zk://h";
const RECEIVER: &str = "webhook";

/// More than the notes of these tests need.
const ROOM: usize = 64 * 1024;

fn said(alert: &Alert) -> String {
    format!("{:?}", alert.about)
}

/// One monitor: what it sees, and what it tells.
struct Monitor {
    state: MonitorState,
    desk: Desk,
    /// What its state file has, and after how many changes it was written.
    file: (u64, Vec<u8>),
    leads: bool,
}

/// A service, its monitors, and what their receiver was told.
struct Scene {
    second: u64,
    queues: BTreeMap<&'static str, (String, usize)>,
    monitors: Vec<Option<Monitor>>,
    /// What the sender has noted at the service.
    notes: Option<Vec<u8>>,
    is_reachable: bool,
    /// A monitor that alone cannot reach it.
    cut_off: Option<usize>,
    is_receiver_up: bool,
    told: Vec<String>,
}

impl Scene {
    fn new() -> Self {
        let (queues, monitors) = (BTreeMap::new(), vec![None, None]);
        let (notes, cut_off, told) = (None, None, Vec::new());
        Self { second: 0, queues, monitors, notes, is_reachable: true, cut_off, is_receiver_up: true, told }
    }

    /// A monitor that leads.
    fn of_one() -> Self {
        let mut scene = Self::new();
        scene.start(0, None);
        scene.lead(0);
        scene
    }

    /// The same, and another one.
    fn of_two() -> Self {
        let mut scene = Self::of_one();
        scene.start(1, None);
        scene
    }

    /// Starts a monitor, with what its state file has.
    fn start(&mut self, number: usize, file: Option<&[u8]>) {
        let mut desk = Desk::new([RECEIVER.to_owned()]);
        if let Some(file) = file {
            desk.restore(AlertNotes::decode(file, SERVICE).unwrap(), at(self.second));
        }
        desk.follow();
        let mut state = MonitorState::default();
        state.freshness = ServiceFreshness::Fresh(None);
        let file = (u64::MAX, Vec::new());
        self.monitors[number] = Some(Monitor { state, desk, file, leads: false });
    }

    /// Kills a monitor; returns what its state file has.
    fn kill(&mut self, number: usize) -> Vec<u8> {
        self.monitors[number].take().unwrap().file.1
    }

    fn lead(&mut self, number: usize) {
        let left = self.notes.as_ref().map(|notes| AlertNotes::decode(notes, SERVICE).unwrap());
        let monitor = self.monitors[number].as_mut().unwrap();
        monitor.desk.lead(left, at(self.second));
        monitor.leads = true;
    }

    /// Ends the lead of a monitor that lives on.
    fn depose(&mut self, number: usize) {
        let monitor = self.monitors[number].as_mut().unwrap();
        monitor.desk.follow();
        monitor.leads = false;
    }

    fn queue(&mut self, lock: &'static str, holder: &str, waiters: usize) {
        self.queues.insert(lock, (holder.to_owned(), waiters));
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.second += 1;
            for number in 0..self.monitors.len() {
                self.tick(number);
            }
        }
    }

    /// A second of a monitor: it sees, judges, notes, and tells.
    fn tick(&mut self, number: usize) {
        let now = at(self.second);
        let is_reachable = self.is_reachable && self.cut_off != Some(number);
        let Some(monitor) = &mut self.monitors[number] else { return };
        let is_fresh = matches!(monitor.state.freshness, ServiceFreshness::Fresh(_));
        if is_reachable {
            monitor.state.freshness = ServiceFreshness::Fresh(None);
            for (lock, (holder, waiters)) in &self.queues {
                let queue = line(holder, Mode::Mutex, *waiters);
                monitor.state.model.see(&name(lock), queue, Some(now.boot), now);
            }
        } else if is_fresh {
            monitor.state.freshness = cut_off(now);
        }
        monitor.desk.judge(&monitor.state, now, |_| Thresholds::default());
        if monitor.desk.changes() != monitor.file.0 {
            if monitor.leads && is_reachable {
                let notes = monitor.desk.notes_for_others(now);
                monitor.desk.hear(notes.note.unwrap());
                self.notes = Some(notes.encode(SERVICE, ROOM, said));
            }
            let text = monitor.desk.notes(now).encode(SERVICE, ROOM, said);
            monitor.desk.written(now.boot);
            monitor.file = (monitor.desk.changes(), text);
        }
        self.tell(number);
        // The others hear of the note.
        let note = self.notes.as_ref().and_then(|notes| AlertNotes::decode(notes, SERVICE).unwrap().note);
        if let (Some(note), true) = (note, self.is_reachable) {
            let reached = self.monitors.iter_mut().enumerate().filter(|(number, _)| self.cut_off != Some(*number));
            reached.filter_map(|(_, monitor)| monitor.as_mut()).for_each(|monitor| monitor.desk.hear(note));
        }
    }

    fn tell(&mut self, number: usize) {
        let now = at(self.second);
        let desk = &mut self.monitors[number].as_mut().unwrap().desk;
        let sends = desk.sends();
        let outbox = desk.outbox(RECEIVER).unwrap();
        while let Some((number, news)) = outbox.due(now.boot, |news| sends || is_of_service(news)) {
            if !self.is_receiver_up {
                outbox.failed(now.boot);
                return;
            }
            let (word, alert) = told(news);
            let began = match alert.outage {
                Some(outage) => format!("{}.{}", outage.note, outage.number),
                None => (alert.began_unix.as_secs() - 1_000_000).to_string(),
            };
            let lock = alert.about.lock().map_or("", QueueName::as_str);
            self.told.push(format!("{} {lock} of {began} {word}", alert.about.rule()));
            outbox.told(number);
        }
    }
}

/// Counts each line once that was told; a receiver knows by its key what it was told of already.
fn once(told: &[String]) -> BTreeSet<&str> {
    told.iter().map(String::as_str).collect()
}

#[test]
fn what_was_left_to_be_told_at_a_restart_is_told_though_the_service_has_lost_the_notes() {
    let mut scene = Scene::of_one();
    scene.is_receiver_up = false;
    scene.queue("held", "h", 1);
    scene.pass(305);
    let file = scene.kill(0);
    (scene.notes, scene.is_receiver_up) = (None, true);
    scene.start(0, Some(&file));
    scene.pass(3);
    assert!(scene.told.is_empty(), "another monitor may tell it");
    scene.lead(0);
    scene.pass(70);
    assert_eq!(scene.told, ["held held of 302 raised"]);
}

#[test]
fn in_an_hour_with_flapping_outages_restarts_and_other_senders_each_alert_is_raised_once_and_ended_once() {
    let mut scene = Scene::of_two();
    scene.queue("held", "first", 1);
    scene.queue("flaps", "h", 30);
    scene.pass(305);
    assert_eq!(scene.told, ["waiters flaps of 1 raised", "held flaps of 302 raised", "held held of 302 raised"]);
    // The number of waiters goes up and down; meanwhile the sender is killed, and the other one goes on in its place.
    for (at, waiters) in [11, 7, 12, 8].into_iter().cycle().take(200).enumerate() {
        scene.queue("flaps", "h", waiters);
        scene.pass(4);
        match at {
            50 => drop(scene.kill(0)),
            52 => scene.lead(1),
            80 => scene.start(0, None),
            _ => {}
        }
    }
    assert_eq!(scene.told.len(), 3, "{:?}", scene.told);
    scene.queue("flaps", "h", 12);
    // For half an hour the webhook is down, from now on.
    scene.is_receiver_up = false;
    let down = scene.second;
    // A holder goes while no monitor runs; the one that is started again knows of it by its file, and leads.
    let file = scene.kill(1);
    scene.kill(0);
    scene.queue("held", "second", 0);
    scene.queue("many", "h", 20);
    scene.pass(20);
    scene.start(1, Some(&file));
    scene.lead(1);
    scene.start(0, None);
    scene.pass(60);
    // The service is gone for five minutes, and nothing else is told of meanwhile.
    scene.is_reachable = false;
    scene.queue("many", "h", 0);
    scene.queue("more", "h", 20);
    scene.pass(300);
    let waiting = scene.monitors[1].as_mut().unwrap().desk.outbox(RECEIVER).unwrap().untold().len();
    assert_eq!(waiting, 3, "the end of `held`, the begin of `many`, and the outage");
    scene.is_reachable = true;
    scene.pass(60);
    // Another change of the sender, with all that is still to be told.
    scene.depose(1);
    scene.lead(0);
    scene.pass(30);
    scene.queue("flaps", "other", 0);
    scene.queue("more", "other", 0);
    scene.pass(down + 1_800 - scene.second);
    assert_eq!(scene.told.len(), 3, "{:?}", scene.told);
    scene.is_receiver_up = true;
    scene.pass(3_600 - scene.second);
    let told = once(&scene.told);
    let of_locks = |line: &&str| !line.starts_with("unreachable");
    let all = scene.told.iter().map(String::as_str);
    assert_eq!(told.iter().copied().filter(of_locks).count(), all.filter(of_locks).count(), "{:?}", scene.told);
    let about: Vec<_> = told.iter().filter_map(|line| line.strip_suffix(" raised")).collect();
    let over: Vec<_> = told.iter().filter_map(|line| line.strip_suffix(" ended")).collect();
    assert_eq!(about, over, "each one that began has ended");
    let rules: Vec<_> = about.iter().map(|line| line.split_once(" of ").unwrap().0).collect();
    assert_eq!(rules, ["held flaps", "held held", "unreachable ", "waiters flaps", "waiters many", "waiters more"]);
}

#[test]
fn two_outages_are_never_one_though_a_monitor_that_was_cut_off_alone_was_restarted_between_them() {
    let mut scene = Scene::of_two();
    scene.pass(2);
    scene.queue("a", "h", 20);
    scene.pass(20);
    scene.told.clear();
    let outage = |scene: &mut Scene| {
        scene.cut_off = Some(1);
        scene.pass(40);
        scene.cut_off = None;
        scene.pass(20);
        let mut told = std::mem::take(&mut scene.told);
        told.retain(|line| line.starts_with("unreachable"));
        let raised = told[0].strip_suffix(" raised").expect("it begins").to_owned();
        assert_eq!(told, [format!("{raised} raised"), format!("{raised} ended")]);
        raised
    };
    // It has heard of a note that was written while it ran, and counts the outages since.
    let mut outages = BTreeSet::from([outage(&mut scene), outage(&mut scene)]);
    assert!(outages.iter().all(|outage| outage.contains('.')), "{outages:?}");
    // The note is the same afterwards, and how many were told of since is not known without a file.
    scene.kill(1);
    scene.start(1, None);
    scene.pass(2);
    outages.extend([outage(&mut scene), outage(&mut scene)]);
    assert_eq!(outages.len(), 4, "{outages:?}");
    let file = scene.kill(1);
    scene.start(1, Some(&file));
    scene.pass(2);
    outages.insert(outage(&mut scene));
    assert_eq!(outages.len(), 5, "{outages:?}");
}

#[test]
fn an_outage_that_goes_on_over_a_restart_with_a_file_is_the_same() {
    let mut scene = Scene::of_one();
    scene.pass(2);
    scene.is_reachable = false;
    scene.pass(40);
    let file = scene.kill(0);
    scene.start(0, Some(&file));
    scene.monitors[0].as_mut().unwrap().state.freshness = ServiceFreshness::Nothing;
    scene.pass(5);
    scene.is_reachable = true;
    scene.pass(20);
    assert_eq!(scene.told, ["unreachable  of 1.1 raised", "unreachable  of 1.1 ended"]);
}

#[test]
fn after_a_restart_with_a_file_alone_what_went_on_is_not_raised_again_and_what_is_over_is_ended() {
    let mut scene = Scene::of_one();
    scene.queue("a", "goes on", 1);
    scene.queue("b", "goes", 1);
    scene.pass(310);
    let file = scene.kill(0);
    scene.notes = None;
    scene.told.clear();
    scene.queue("b", "other", 1);
    scene.pass(5);
    scene.start(0, Some(&file));
    scene.lead(0);
    scene.pass(60);
    assert_eq!(scene.told, ["held b of 302 ended"], "what was seen of the other hold is short, and it is the same");
    scene.queue("a", "other", 1);
    scene.pass(1);
    assert_eq!(scene.told[1..], ["held a of 302 ended"]);
}

#[test]
fn what_a_killed_sender_may_have_told_is_told_again_as_the_same() {
    let mut scene = Scene::of_two();
    scene.queue("a", "h", 20);
    scene.pass(11);
    assert_eq!(scene.told, ["waiters a of 1 raised"]);
    // It is killed before it has noted that this was taken.
    scene.kill(0);
    scene.lead(1);
    scene.pass(1);
    assert_eq!(scene.told, ["waiters a of 1 raised", "waiters a of 1 raised"]);
    scene.pass(5);
    scene.kill(1);
    scene.start(0, None);
    scene.lead(0);
    scene.pass(60);
    assert_eq!(scene.told.len(), 2, "it is noted by now");
}

#[test]
fn notes_that_cannot_be_gone_on_with_say_why_and_long_ones_leave_out_what_is_to_be_told_first() {
    let mut scene = Scene::of_one();
    scene.is_receiver_up = false;
    scene.queue("a", "h", 20);
    scene.queue("b", "h", 20);
    scene.pass(20);
    let text = scene.kill(0);
    let whole = AlertNotes::decode(&text, SERVICE).unwrap();
    assert_eq!((whole.firing.len(), whole.untold[RECEIVER].len()), (2, 2));
    let short = whole.encode(SERVICE, text.len() - 1, said);
    let short = AlertNotes::decode(&short, SERVICE).unwrap();
    assert_eq!((short.firing.len(), short.untold[RECEIVER].len()), (2, 1));
    assert!(AlertNotes::decode(&whole.encode(SERVICE, 0, said), SERVICE).unwrap().firing.is_empty());
    let refusal = |text: &[u8]| AlertNotes::decode(text, SERVICE).unwrap_err();
    assert!(matches!(refusal(&text[..text.len() - 1]), NotesError::Damaged(_)));
    assert!(matches!(refusal(b""), NotesError::Damaged(_)));
    for version in [0, 4] {
        assert_eq!(refusal(format!("{{\"version\":{version}}}").as_bytes()), NotesError::Version(version));
    }
    let old = String::from_utf8(text.clone()).unwrap().replacen("\"version\":3", "\"version\":1", 1);
    assert_eq!(AlertNotes::decode(old.as_bytes(), SERVICE).unwrap().firing.len(), 2);
    let other = String::from_utf8(text.clone()).unwrap().replace("\"waiters\"", "\"weather\"");
    assert!(matches!(refusal(other.as_bytes()), NotesError::Damaged(_)));
    assert_eq!(AlertNotes::decode(&text, "file:/x").unwrap_err(), NotesError::Service(SERVICE.to_owned()));
}
