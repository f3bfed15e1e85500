//! Commands that show a certificate.

use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::etcd::Server;

use crate::access::{SETTINGS, fifty_count};
use crate::site::can_start;

/// What the server's certificate is for.
const NAME: &str = "etcd.example";

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_over_tls_with_a_certificate_count_without_losing_one() {
    if !can_start("tls::fifty_commands_over_tls_with_a_certificate_count_without_losing_one") {
        return;
    }
    let authority = Authority::new(NAME).expect("an authority");
    let server = Server::over_tls(authority.server_papers()).await.expect("a server");
    let [ca, cert, key] = ["ca", "client", "client-key"].map(|name| authority.file(name).display().to_string());
    let files = format!("ca={ca}&cert={cert}&key={key}&server_name={NAME}");
    fifty_count(&format!("etcd+tls://{}?{SETTINGS}&{files}", server.address()), "with a certificate");
}
