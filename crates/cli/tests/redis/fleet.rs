//! Many commands on one server.

use lockkeeper_faults::redis::{Flush, Release, Setup, availability_of};

use crate::machine::{NOTE, Site};
use crate::site::{SETTINGS, can_start, fifty_count};

/// How many are served in order.
const IN_ORDER: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_without_losing_one_on_each_release() {
    for release in Release::ALL {
        let test = format!("fleet::fifty_commands_count_without_losing_one_on_each_release, {release:?}");
        if !availability_of(release).or_skip(&test) {
            continue;
        }
        let server = Setup::new().release(release).start().await.expect("a server");
        fifty_count(&format!("redis://{}?{SETTINGS}", server.address()), &format!("{release:?}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_commands_are_served_in_the_order_they_joined_though_the_server_is_killed_and_restarted() {
    if !can_start(
        "fleet::twenty_commands_are_served_in_the_order_they_joined_though_the_server_is_killed_and_restarted",
    ) {
        return;
    }
    let mut server = Setup::new().append_only(Flush::Always).start().await.expect("a server");
    let site = Site::of(&format!("redis://{}?{SETTINGS}", server.address()));
    let holder = site.place.hold("order");
    let join = |number: usize| site.join("order", number + 1, NOTE, &[number.to_string(), "never".to_owned()]);
    let mut commands: Vec<_> = (0..IN_ORDER / 2).map(join).collect();
    server.kill();
    server.start().expect("it starts again");
    server.serving().await.expect("it serves again");
    commands.extend((IN_ORDER / 2..IN_ORDER).map(join));
    holder.end();
    site.succeed(commands);
    let expected: String = (0..IN_ORDER).map(|number| format!("{number}\n")).collect();
    assert_eq!(site.read("served"), expected);
    site.assert_nothing_left();
}
