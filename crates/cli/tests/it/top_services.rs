//! `top` on each service, on a real terminal: the list, a queue in order, and the terminal that is left when the
//! service is lost.

use crate::crossing::place_of;
use crate::services::{self, Service, on_each};
use crate::top::{Top, row_of};

/// Asserts that the list and a queue are shown and followed, and that a lost service is told while what was known stays
/// and the terminal is left usable.
async fn is_shown(service: Service, mut server: services::Server) {
    // What the head of the screen says of how it is followed.
    let how = if service == Service::PostgreSql { "looked at each " } else { " live" };
    let place = place_of(&server.url());
    let mut holder = place.hold("nightly");
    let first = place.queue(&[], "nightly");
    let Some(top) = Top::start(&place) else { return };
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
        queue
            .zip(processes)
            .filter(|(line, (position, state, process))| {
                line.split_whitespace().take(2).eq([*position, *state]) && line.contains(&format!(" pid {process} "))
            })
            .count()
            == processes.len()
    });
    server.kill();
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
