//! Commands that show a certificate, and ends of a connection of which one speaks TLS.

use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::etcd;
use lockkeeper_faults::redis::{Server, Setup};

use crate::services::Service;
use crate::site::{BRIEFLY, SETTINGS, Site, assert_refused};

/// What the server's certificate is for.
const NAME: &str = "service.example";

/// The files of the authority to trust, and of our certificate and its key.
fn papers(authority: &Authority) -> [String; 3] {
    ["ca", "client", "client-key"].map(|name| authority.file(name).display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_over_tls_to_redis_with_a_certificate_count_without_losing_one() {
    if !Service::Redis.can_start() {
        return;
    }
    let authority = Authority::new(NAME).expect("an authority");
    let secured = Setup::new().tls(authority.server_papers()).start().await.expect("a server");
    let plain = Server::standalone().await.expect("a server");
    let others = Authority::new(NAME).expect("another authority");
    let other = others.file("ca").display().to_string();
    let [ca, cert, key] = papers(&authority);
    let files = format!("ca={ca}&cert={cert}&key={key}&server_name={NAME}");
    let site = Site::of(&format!("redis+tls://{}?{SETTINGS}&{files}", secured.address()));
    site.fifty_count("Redis, with a certificate");
    for (url, word) in [
        (format!("redis+tls://{}?{BRIEFLY}&ca={ca}&server_name={NAME}", secured.address()), "`cert` and `key`"),
        (
            format!("redis+tls://{}?ca={other}&cert={cert}&key={key}&server_name={NAME}", secured.address()),
            "`ca` names the authority to trust",
        ),
        (
            format!("redis+tls://{}?ca={ca}&cert={cert}&key={key}&server_name=elsewhere.example", secured.address()),
            "not for the name `elsewhere.example`",
        ),
        (format!("redis://{}?{BRIEFLY}", secured.address()), "`redis+tls:`"),
        (format!("redis+tls://{}?{BRIEFLY}&{files}", plain.address()), "`redis:`"),
    ] {
        assert_refused(&url, &[word]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_over_tls_to_etcd_with_a_certificate_count_without_losing_one() {
    if !Service::Etcd.can_start() {
        return;
    }
    let authority = Authority::new(NAME).expect("an authority");
    let server = etcd::Server::over_tls(authority.server_papers()).await.expect("a server");
    let [ca, cert, key] = papers(&authority);
    let files = format!("ca={ca}&cert={cert}&key={key}&server_name={NAME}");
    Site::of(&format!("etcd+tls://{}?{SETTINGS}&{files}", server.address())).fifty_count("etcd, with a certificate");
}
