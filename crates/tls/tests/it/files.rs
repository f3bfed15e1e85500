//! Files that the settings name: each that cannot be used is named, and what can be used is handed on whole.

use std::fs;
use std::path::PathBuf;

use lockkeeper_core::{Advice, ErrorKind};

use crate::{authority, identity, material, trusting};

#[test]
fn a_file_that_cannot_be_used_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let broken = write("broken.pem", "-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n");
    let hollow = write("hollow.pem", "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n");
    let empty = write("empty.pem", "no PEM at all\n");
    let secret = "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGVsbG8=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let secret = write("secret.pem", secret);
    let large = write("large.pem", "");
    fs::File::options().write(true).open(&large).unwrap().set_len(5 << 20).unwrap();
    let absent = folder.path().join("absent.pem");
    let (ours, other) = (authority(), authority());
    let [ca, cert, key] = ["ca", "client", "client-key"].map(|name| ours.file(name));
    let other_key = other.file("client-key");
    for (query, named, words) in [
        (trusting(&broken), &broken, "is not a file in PEM form"),
        (trusting(&hollow), &hollow, "cannot be trusted as an authority"),
        (trusting(&empty), &empty, "holds no certificate in PEM form"),
        (trusting(&absent), &absent, "cannot be read"),
        (trusting(&large), &large, "is longer than 4194304 bytes"),
        (trusting(folder.path()), &folder.path().to_owned(), "cannot be read"),
        (trusting(&key), &key, "holds no certificate in PEM form"),
        (identity(&absent, &key), &absent, "cannot be read"),
        (identity(&cert, &absent), &absent, "cannot be read"),
        (identity(&cert, &cert), &cert, "holds no usable private key"),
        (identity(&cert, &secret), &secret, "without a password"),
        (identity(&hollow, &key), &hollow, "is not the certificate of the key in"),
        (identity(&cert, &other_key), &cert, "is not the certificate of the key in"),
        (identity(&cert, &other_key), &other_key, "is not the certificate of the key in"),
    ] {
        let query = if query.starts_with("ca=") { query } else { format!("{query}&{}", trusting(&ca)) };
        let error = material(&query).expect_err(&query);
        let told = format!("{error:#}");
        assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidConfig, Advice::Permanent), "{told}");
        assert!(told.contains(&named.display().to_string()) && told.contains(words), "{query}: {told}");
        assert!(!told.contains('\n'), "{told}");
    }
}

#[test]
fn clients_of_others_get_what_the_files_hold() {
    let ours = authority();
    let [ca, cert, key] = ["ca", "client", "client-key"].map(|name| ours.file(name));
    let found = material(&format!("{}&{}&server_name=a.example", trusting(&ca), identity(&cert, &key))).unwrap();
    assert_eq!(found.authorities().len(), 1);
    let shown = found.identity().expect("an identity");
    assert_eq!(shown.cert_pem(), fs::read(&cert).unwrap());
    assert_eq!(shown.key_pem(), fs::read(&key).unwrap());
    assert_eq!(found.server_name().map(|name| name.to_str()).as_deref(), Some("a.example"));
    assert!(found.config().alpn_protocols.is_empty());
    let base64 = String::from_utf8_lossy(shown.key_pem()).lines().nth(1).expect("a line of the key").to_owned();
    let debug = format!("{found:?}");
    assert!(!debug.contains(&base64) && !debug.contains("[45, 45"), "{debug}");
}

#[test]
fn without_a_file_the_authorities_of_the_system_are_trusted() {
    match material("") {
        Ok(found) => assert!(!found.authorities().is_empty()),
        // A machine may have none.
        Err(error) => assert!(format!("{error:#}").contains("`ca=FILE`"), "{error:#}"),
    }
}
