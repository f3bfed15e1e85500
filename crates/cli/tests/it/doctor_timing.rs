//! `doctor`: what it finds of times on real servers. A session timeout that is too short for the way to the service, or
//! for the service's own pace; and a server that is too old to tell of all locks, or has a known fault.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::zookeeper::{Server, Setup};
use serde_json::Value;

use crate::services::{self, Service, on_each};
use crate::support::Place;

/// What `doctor` finds that has these words: its severity and what it says.
fn found(url: &str, words: &str) -> (String, String) {
    // It ends by the timeouts of the URL, which are long where the way is.
    let ended = Place::new().run(&["doctor", "--json", "--connect", url]);
    assert!(ended.stderr.is_empty(), "{ended:?}");
    let diagnosis = ended.json();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let findings = diagnosis["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| text(finding, "what").contains(words));
    let found = found.unwrap_or_else(|| panic!("nothing says {words:?}: {diagnosis}"));
    assert!(!text(found, "cure").is_empty(), "{found}");
    (text(found, "severity"), text(found, "what"))
}

on_each! { half_take_longer:
    Etcd "etcd" on_etcd_a_slow_way_is_found;
    Redis "redis" on_redis_a_slow_way_is_found;
    PostgreSql "postgres" on_postgresql_a_slow_way_is_found;
    MariaDb "mysql" on_mariadb_a_slow_way_is_found;
}

/// A session timeout of two seconds is too short where a round trip takes 180 ms.
async fn half_take_longer(_: Service, server: services::Server) {
    // Tables are made while the way is short.
    assert_eq!(Place::new().run(&["setup", "--connect", &server.url()]).code, Some(0));
    let (proxy, url) = server.proxied().await;
    proxy.set_delay(Duration::from_millis(90));
    let timeouts = "session_timeout=2s&connect_timeout=60s&operation_timeout=60s";
    let (severity, what) = found(&format!("{url}?{timeouts}"), "half of the requests take longer than ");
    assert!(severity == "warning" && what.contains("every "), "{what}");
}

async fn zookeeper(setup: Setup) -> Option<Server> {
    if !Service::ZooKeeper.can_start() {
        return None;
    }
    Some(Server::standalone(setup).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn on_zookeeper_a_timeout_that_few_round_trips_fit_into_is_found() {
    let Some(server) = zookeeper(Setup::new()).await else { return };
    let proxy = Proxy::start(server.address()).await.unwrap();
    proxy.set_delay(Duration::from_millis(800));
    let url = format!("zk://{}?session_timeout=6s&connect_timeout=60s", proxy.address());
    let (severity, what) = found(&url, "a round trip took ");
    assert!(severity == "warning" && what.ends_with("and the session timeout is 6s"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_zookeeper_a_timeout_of_less_than_two_ticks_is_found() {
    let Some(server) = zookeeper(Setup::new().entry("minSessionTimeout", "1000")).await else { return };
    let (severity, what) =
        found(&format!("zk://{}?session_timeout=3900ms", server.address()), "less than two ticks of ");
    assert!(severity == "warning" && what.starts_with("the session timeout is 3.9s"), "{what}");
    assert!(what.ends_with("(2s each)"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_zookeeper_a_timeout_that_is_not_granted_is_found() {
    let Some(server) = zookeeper(Setup::new()).await else { return };
    let url = format!("zk://{}?session_timeout=90s", server.address());
    let (severity, what) = found(&url, "grants a session timeout of 40s instead of 90s");
    assert_eq!(severity, "warning", "{what}");
}

/// Passes a server's words on as an older release would say them: another digit behind the first part of its version.
fn as_an_older_release(server: SocketAddr, version: &'static str, digit: u8) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let pass_on = move |mut from: TcpStream, mut to: TcpStream, is_answer: bool| {
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let passed = &mut buffer[..length];
                let told = passed.windows(version.len()).position(|words| words == version.as_bytes());
                if let (Some(at), true) = (told, is_answer) {
                    passed[at + version.len()] = digit;
                }
                if to.write_all(passed).is_err() {
                    break;
                }
            }
            // The other side may have gone first.
            let _ = to.shutdown(Shutdown::Write);
        });
    };
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(server) else { return };
            pass_on(client.try_clone().unwrap(), server.try_clone().unwrap(), false);
            pass_on(server, client, true);
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn on_zookeeper_a_release_without_recursive_watches_is_found() {
    let Some(server) = zookeeper(Setup::new()).await else { return };
    let url = format!("zk://{}", as_an_older_release(server.address(), "Zookeeper version: 3.", b'5'));
    let (severity, what) = found(&url, " which has no recursive watches: ");
    assert!(severity == "note" && what.contains(" runs 3.5."), "{what}");
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn on_etcd_a_timeout_that_is_not_granted_is_found() {
    if !Service::Etcd.can_start() {
        return;
    }
    let server = lockkeeper_faults::etcd::Server::standalone_of_long_leases().await.unwrap();
    let granted = "grants a session timeout of 8s instead of 5s";
    let (severity, what) = found(&format!("etcd://{}?session_timeout=5s", server.address()), granted);
    assert_eq!(severity, "warning", "{what}");
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread")]
async fn on_redis_a_release_that_can_crash_is_found() {
    let Some(server) = Service::Redis.start().await else { return };
    // The answer to `HELLO` has the version behind its name and its length: 7.0.15 is Debian's, which does not crash.
    let relay = as_an_older_release(server.address(), "version\r\n$6\r\n7.0.", b'0');
    let (severity, what) = found(&format!("redis://{relay}"), "Redis 7.0.5 can crash");
    assert_eq!(severity, "warning", "{what}");
}
