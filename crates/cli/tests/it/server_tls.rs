//! A server that speaks TLS: its settings, and clients that it serves and refuses.

use crate::support::Place;

#[cfg(feature = "tls")]
mod served {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::Command;

    use lockkeeper_faults::authority::{Authority, CertificateFiles};
    use lockkeeper_faults::ports::ReservedPort;

    use super::Place;
    use crate::server::Server;
    use crate::support::finish;

    const NAME: &str = "zk.example";

    /// The files of an authority, as their owner keeps them.
    fn certificates(authority: &Authority) -> CertificateFiles {
        let certificates = authority.server_certificate_files();
        fs::set_permissions(&certificates.key, Permissions::from_mode(0o600)).unwrap();
        certificates
    }

    fn text(path: &Path) -> &str {
        path.to_str().unwrap()
    }

    #[test]
    fn locks_are_taken_over_tls_by_clients_with_a_certificate_and_by_no_others() {
        let (place, authority) = (Place::new(), Authority::new(NAME).unwrap());
        let CertificateFiles { cert, key, ca } = certificates(&authority);
        let options = ["--tls-cert", text(&cert), "--tls-key", text(&key), "--tls-ca", text(&ca)];
        let by_options = Server::start(&place, &options);
        // A pair may come from two places.
        let told = format!("listen = '127.0.0.1:0'\ntls_cert = '{}'\ntls_ca = '{}'", text(&cert), text(&ca));
        let file = place.file("server.toml", &format!("[server]\n{told}"));
        let by_both = Server::start_as_told(&place, &["--config", text(&file), "--tls-key", text(&key)]);
        for server in [by_options, by_both] {
            assert!(server.url().starts_with("zk+tls://127.0.0.1:"), "{}", server.url());
            let trusting = format!("{}?ca={}&server_name={NAME}", server.url(), text(&ca));
            let (client, client_key) = (authority.file("client"), authority.file("client-key"));
            let known = format!("{trusting}&cert={}&key={}", text(&client), text(&client_key));
            let run = |url: &str, wait| place.run(&["run", "--connect", url, "-w", wait, "job", "--", "echo", "ran"]);
            let ended = run(&known, "2m");
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "ran\n"), "{ended:?}");
            let plain = server.url().replace("zk+tls", "zk");
            for stranger in [&trusting, &plain] {
                let ended = run(stranger, "2s");
                assert!(ended.code != Some(0) && ended.stdout.is_empty(), "{stranger}: {ended:?}");
            }
            assert_eq!(server.stop(), Some(0));
        }
    }

    #[test]
    fn the_commands_of_the_document_give_a_server_and_a_client_that_is_served() {
        let (place, authority) = (Place::new(), Authority::new("127.0.0.1").unwrap());
        let CertificateFiles { cert, key, ca } = certificates(&authority);
        let folder = tempfile::tempdir().unwrap();
        let (client, client_key) = (authority.file("client"), authority.file("client-key"));
        let files = [(&cert, "server"), (&key, "server-key"), (&ca, "clients"), (&ca, "ca")];
        for (from, name) in files.into_iter().chain([(&client, "client"), (&client_key, "client-key")]) {
            fs::copy(from, folder.path().join(format!("{name}.pem"))).unwrap();
        }
        let port = ReservedPort::take().unwrap();
        let section = include_str!("../../../../docs/server.md").split("## Who may reach it").nth(1).unwrap();
        let block = section.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
        let commands: Vec<Command> = block
            .lines()
            .map(|line| {
                let line =
                    line.replace("2281", &port.number().to_string()).replacen("lockkeeper", "exec \"$LOCKKEEPER\"", 1);
                let mut command = Command::new("sh");
                place.surround(command.args(["-euc", &line]).current_dir(folder.path()));
                command.env("HOST", "127.0.0.1").env("DATA", folder.path().join("data"));
                command
            })
            .collect();
        let [serving, mut asking] = <[Command; 2]>::try_from(commands).unwrap();
        let server = Server::of(serving);
        let ended = finish(&mut asking);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        assert_eq!(server.stop(), Some(0));
    }

    #[test]
    fn a_server_beyond_loopback_is_warned_of_unless_it_asks_for_certificates() {
        let (place, authority) = (Place::new(), Authority::new(NAME).unwrap());
        let CertificateFiles { cert, key, ca } = certificates(&authority);
        let options = ["--listen", "0.0.0.0:0", "--tls-cert", text(&cert), "--tls-key", text(&key)];
        let server = Server::start_as_told(&place, &options);
        assert!(server.line("lockkeeper: warning: ").contains("--tls-ca"));
        assert_eq!(server.stop(), Some(0));
        let server = Server::start_as_told(&place, &[&options[..], &["--tls-ca", text(&ca)]].concat());
        let (code, lines) = server.stop_and_listen();
        assert_eq!((code, lines.len()), (Some(0), 1), "{lines:?}");
    }

    #[test]
    fn files_that_cannot_be_used_are_refused_in_one_line_that_names_them() {
        let (place, authority) = (Place::new(), Authority::new(NAME).unwrap());
        let CertificateFiles { cert, key, ca } = certificates(&authority);
        let expired = authority.file("expired");
        let garbled = place.file("garbled.pem", "no certificate");
        let refused = |options: &[&str], words: &[&str]| {
            place.run(&[&["server", "--listen", "127.0.0.1:0"], options].concat()).assert_refused(125, words);
        };
        let (cert, key, ca) = (text(&cert), text(&key), text(&ca));
        refused(&["--tls-cert", cert], &["--tls-cert without --tls-key"]);
        refused(&["--tls-key", key], &["--tls-key without --tls-cert"]);
        refused(&["--tls-ca", ca], &["--tls-ca without --tls-cert"]);
        refused(&["--tls-cert", text(&expired), "--tls-key", key], &[text(&expired), "expired"]);
        refused(&["--tls-cert", text(&garbled), "--tls-key", key], &[text(&garbled), "no certificate"]);
        refused(&["--tls-cert", cert, "--tls-key", key, "--tls-ca", text(&garbled)], &[text(&garbled)]);
        refused(&["--tls-cert", cert, "--tls-key", "/no/such"], &["TLS", "/no/such"]);
        fs::set_permissions(key, Permissions::from_mode(0o644)).unwrap();
        refused(&["--tls-cert", cert, "--tls-key", key], &[key, "chmod o-rwx"]);
        let file = place.file("bad.toml", "[server]\ntls_key = 'key.pem'");
        refused(&["--config", text(&file)], &["server.tls_key", "from the root"]);
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn a_build_without_tls_says_so_and_serves_no_client_in_the_clear() {
    let place = Place::new();
    let options = ["server", "--listen", "127.0.0.1:0", "--tls-cert", "/no/such", "--tls-key", "/no/such"];
    place.run(&options).assert_refused(125, &["built without the feature `tls`"]);
}
