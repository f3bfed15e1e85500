//! Many commands on an ensemble of three, while one of its servers is killed and restarted.

use lockkeeper_faults::zookeeper::Ensemble;
use lockkeeper_faults::{figures, long, wait};

use crate::site::{COUNT, NOTE, Running, SOON, Site, can_start, nodes, setup};
use crate::support::now;

/// Long enough for an election, and for commands that are started fifty at once.
const SETTINGS: &str = "?session_timeout=30s&tick=500ms";

/// How many commands count at once.
const COUNTING: u32 = 50;

/// How often in a row, on the same ensemble, in the long run.
const ROUNDS_LONG: u32 = 10;

/// How many have counted when a server is killed, and how many more must count without it.
const BEFORE: u32 = 5;

/// How many are served in order.
const IN_ORDER: usize = 20;

/// Which server is killed.
#[derive(Clone, Copy)]
enum Victim {
    Leader,
    Follower,
}

impl Victim {
    async fn kill(self, ensemble: &mut Ensemble) -> usize {
        let index = match self {
            Self::Leader => ensemble.leader().await.unwrap(),
            Self::Follower => ensemble.follower().await.unwrap(),
        };
        ensemble.server_mut(index).kill();
        index
    }
}

async fn ensemble() -> Ensemble {
    Ensemble::start(3, setup()).await.expect("an ensemble")
}

fn site(ensemble: &Ensemble) -> Site {
    Site::new(&ensemble.connect_string(), SETTINGS)
}

fn counted(site: &Site) -> Option<u32> {
    // Empty for a moment while it is written.
    site.read("counter").trim().parse().ok()
}

async fn until_counted(site: &Site, number: u32) {
    let reached = async || counted(site).filter(|&counted| counted >= number);
    wait::until(&format!("counting up to {number}"), SOON, reached).await.unwrap();
}

async fn restart(ensemble: &mut Ensemble, index: usize, site: &Site) {
    ensemble.server_mut(index).start().unwrap();
    ensemble.server_mut(index).serving().await.unwrap();
    site.write("restarted", "");
}

async fn assert_nothing_left(ensemble: &Ensemble, site: &Site) {
    site.assert_nothing_left();
    let leader = ensemble.leader().await.unwrap();
    assert_eq!(nodes(&ensemble.servers()[leader]).await, [""; 0]);
}

async fn fifty_count(victim: Victim) {
    let mut ensemble = ensemble().await;
    for _ in 0..long::rounds(ROUNDS_LONG) {
        fifty_count_once(&mut ensemble, victim).await;
    }
}

async fn fifty_count_once(ensemble: &mut Ensemble, victim: Victim) {
    let site = site(ensemble);
    site.write("counter", "0\n");
    let begun = now();
    let gate = (COUNTING / 2).to_string();
    let commands: Vec<Running> =
        (0..COUNTING).map(|_| site.start(&["-q"], "count", COUNT, std::slice::from_ref(&gate))).collect();
    until_counted(&site, BEFORE).await;
    let index = victim.kill(ensemble).await;
    let killed_at = counted(&site);
    until_counted(&site, COUNTING / 2).await;
    restart(ensemble, index, &site).await;
    site.succeed(commands);
    assert_eq!(counted(&site), Some(COUNTING));
    let took = begun.elapsed().as_secs_f64();
    figures::tell(&format!(
        "fleet: {COUNTING} counted in {took:.1} s, none lost; a server was killed at {killed_at:?}"
    ));
    assert_nothing_left(ensemble, &site).await;
}

async fn twenty_are_served_in_order(victim: Victim) {
    let mut ensemble = ensemble().await;
    for _ in 0..long::rounds(ROUNDS_LONG) {
        twenty_are_served_in_order_once(&mut ensemble, victim).await;
    }
}

async fn twenty_are_served_in_order_once(ensemble: &mut Ensemble, victim: Victim) {
    let site = site(ensemble);
    let middle = (IN_ORDER / 2).to_string();
    let begun = now();
    let holder = site.place.hold("order");
    let mut commands = Vec::new();
    let mut killed = None;
    for number in 0..IN_ORDER {
        if number == IN_ORDER / 2 {
            killed = Some(victim.kill(ensemble).await);
        }
        commands.push(site.join("order", number + 1, NOTE, &[number.to_string(), middle.clone()]));
    }
    holder.end();
    let half: String = (0..IN_ORDER / 2).map(|number| format!("{number}\n")).collect();
    let served =
        async || site.notes().join("served").exists().then(|| site.read("served")).filter(|served| *served == half);
    wait::until("the first half", SOON, served).await.unwrap();
    restart(ensemble, killed.expect("one was killed"), &site).await;
    site.succeed(commands);
    let expected: String = (0..IN_ORDER).map(|number| format!("{number}\n")).collect();
    assert_eq!(site.read("served"), expected);
    let took = begun.elapsed().as_secs_f64();
    figures::tell(&format!("fleet: {IN_ORDER} were served in order in {took:.1} s, with the leader killed meanwhile"));
    assert_nothing_left(ensemble, &site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_without_losing_one_while_a_follower_is_killed_and_restarted() {
    if can_start("fleet::fifty_commands_count_without_losing_one_while_a_follower_is_killed_and_restarted") {
        fifty_count(Victim::Follower).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_without_losing_one_while_the_leader_is_killed_and_restarted() {
    if can_start("fleet::fifty_commands_count_without_losing_one_while_the_leader_is_killed_and_restarted") {
        fifty_count(Victim::Leader).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_commands_are_served_in_the_order_they_joined_while_the_leader_is_killed_and_restarted() {
    if can_start("fleet::twenty_commands_are_served_in_the_order_they_joined_while_the_leader_is_killed_and_restarted")
    {
        twenty_are_served_in_order(Victim::Leader).await;
    }
}
