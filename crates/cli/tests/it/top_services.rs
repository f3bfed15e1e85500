//! `top` on each service, on a real terminal: the list, a queue in order, and the terminal that is left when the
//! service is lost.

use lockkeeper_faults::zookeeper;

use crate::crossing::place_of;
use crate::support::{Place, TestChild};
use crate::top::{Top, is_possible, row_of, waiter};

/// Asserts that the list and a queue are shown and followed, and that a lost service is told while what was known stays
/// and the terminal is left usable. `how` is what the head of the screen says of a service that is followed so.
fn is_shown(place: &Place, how: &str, lose: impl FnOnce()) {
    let holder = place.hold("nightly");
    let first = waiter(place, "nightly");
    let top = Top::start(place);
    let is_listed = |waiting: &str| {
        let row = ["nightly", "mutex", waiting];
        top.until("it is listed", |screen| row_of(screen, "nightly").is_some_and(|words| words[..3] == row))
    };
    let screen = is_listed("1");
    assert!(screen.lines().next().unwrap().contains(how), "{screen}");
    let second = waiter(place, "nightly");
    is_listed("2");
    top.press("Down");
    top.press("Enter");
    let processes = [("1", "holds", holder.process.id()), ("2", "waits", first.0.id()), ("3", "waits", second.0.id())];
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
    lose();
    let screen = top.shows("stale for ");
    assert!(screen.contains(" holds "), "what was known stays: {screen}");
    top.type_text("q");
    top.assert_left_usable(0);
    drop((TestChild(holder.process), first, second));
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_shown_and_a_loss_is_told_on_zookeeper() {
    let test = "top_services::queues_are_shown_and_a_loss_is_told_on_zookeeper";
    if !is_possible(test) || !zookeeper::availability().or_skip(test) {
        return;
    }
    let mut server = zookeeper::Server::standalone(zookeeper::Setup::new()).await.unwrap();
    is_shown(&place_of(&format!("zk://{}", server.address())), " live", || server.kill());
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn queues_are_shown_and_a_loss_is_told_on_etcd() {
    use lockkeeper_faults::etcd;
    let test = "top_services::queues_are_shown_and_a_loss_is_told_on_etcd";
    if !is_possible(test) || !etcd::availability().or_skip(test) {
        return;
    }
    let mut server = etcd::Server::standalone().await.unwrap();
    is_shown(&place_of(&format!("etcd://{}", server.address())), " live", || server.kill());
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread")]
async fn queues_are_shown_and_a_loss_is_told_on_redis() {
    use lockkeeper_faults::redis;
    let test = "top_services::queues_are_shown_and_a_loss_is_told_on_redis";
    if !is_possible(test) || !redis::availability().or_skip(test) {
        return;
    }
    let mut server = redis::Server::standalone().await.unwrap();
    is_shown(&place_of(&format!("redis://{}", server.address())), " live", || server.kill());
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn queues_are_shown_and_a_loss_is_told_on_postgresql() {
    use lockkeeper_faults::postgres;
    let test = "top_services::queues_are_shown_and_a_loss_is_told_on_postgresql";
    if !is_possible(test) || !postgres::availability().or_skip(test) {
        return;
    }
    let mut server = postgres::Server::standalone().await.unwrap();
    is_shown(&place_of(&server.url("postgres")), "looked at each ", || server.kill());
}
