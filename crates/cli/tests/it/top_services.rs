//! `top` on each service, on a real terminal: the list, a queue in order, and the terminal that is left when the
//! service is lost.

use crate::crossing::place_of;
use crate::services::{self, Service, on_each};
use crate::support::{Holder, Place, Running};
use crate::top::{Top, row_of};

/// A queue of three that `top` shows in order, and at the head of the screen how it is followed; `None` where there is
/// no terminal to look at, and the test is skipped.
pub(crate) fn shows_a_queue(place: &Place, how: &str) -> Option<(Top, Holder, [Running; 2])> {
    let holder = place.hold("nightly");
    let first = place.queue(&[], "nightly");
    let top = Top::start(place)?;
    let is_listed = |waiting: &str| {
        let row = ["nightly", "mutex", waiting];
        top.until("it is listed", |screen| row_of(screen, "nightly").is_some_and(|words| words[..3] == row))
    };
    let screen = is_listed("1");
    assert!(screen.lines().next().unwrap().contains(how), "{screen}");
    let second = place.queue(&[], "nightly");
    is_listed("2");
    top.press("Down");
    top.press("Enter");
    let processes = [("1", "holds", holder.process.id()), ("2", "waits", first.id()), ("3", "waits", second.id())];
    top.until("the queue is shown in order", |screen| {
        let queue = screen.lines().skip_while(|line| !line.contains("STATE")).skip(1);
        let is_shown = |(line, (position, state, process)): &(&str, (&str, &str, u32))| {
            line.split_whitespace().take(2).eq([*position, *state]) && line.contains(&format!(" pid {process} "))
        };
        queue.zip(processes).filter(is_shown).count() == processes.len()
    });
    Some((top, holder, [first, second]))
}

/// Asserts that the list and a queue are shown and followed, and that a lost service is told while what was known stays
/// and the terminal is left usable.
async fn is_shown(service: Service, server: services::Server) {
    let how = if service == Service::PostgreSql { "looked at each " } else { " live" };
    let Some((top, mut holder, _waiters)) = shows_a_queue(&place_of(&server.url()), how) else { return };
    drop(server);
    let screen = top.shows("stale for ");
    assert!(screen.contains(" holds "), "what was known stays: {screen}");
    top.type_text("q");
    top.assert_left_usable(0);
    holder.process.kill();
}

on_each! { is_shown:
    ZooKeeper "top" queues_are_shown_and_a_loss_is_told_on_zookeeper;
    Etcd "etcd" queues_are_shown_and_a_loss_is_told_on_etcd;
    Redis "redis" queues_are_shown_and_a_loss_is_told_on_redis;
    PostgreSql "postgres" queues_are_shown_and_a_loss_is_told_on_postgresql;
}
