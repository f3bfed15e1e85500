//! Tests of URLs: what is read, what is refused, and what is shown.

use proptest::prelude::*;

use super::*;

fn url(text: &str) -> ServiceUrl {
    ServiceUrl::parse(text).unwrap()
}

#[test]
fn several_hosts_ports_and_addresses_are_read() {
    let url = url("zk+tls://h1:2181,[::1]:99,h3/chroot/deep");
    assert_eq!(url.scheme(), "zk+tls");
    let hosts: Vec<_> = url.hosts().iter().map(|host| (host.name.as_str(), host.port)).collect();
    assert_eq!(hosts, [("h1", Some(2181)), ("::1", Some(99)), ("h3", None)]);
    assert_eq!(url.path(), "/chroot/deep");
    assert_eq!(url.to_string(), "zk+tls://h1:2181,[::1]:99,h3/chroot/deep");
}

#[test]
fn schemes_of_other_clients_that_mean_the_same_are_those_of_ours() {
    for (theirs, ours) in [
        ("postgresql://h/app", "postgres://h/app"),
        ("postgresql+tls://h", "postgres+tls://h"),
        ("rediss://h", "redis+tls://h"),
        ("valkey://h/1", "redis://h/1"),
        ("valkeys://h", "redis+tls://h"),
        ("valkey+sentinel://h/main", "redis+sentinel://h/main"),
        ("ZooKeeper://h1,h2/app", "zk://h1,h2/app"),
        ("postgresqlx://h", "postgresqlx://h"),
    ] {
        assert_eq!(url(theirs).to_string(), ours);
    }
}

#[test]
fn a_socket_and_the_zone_of_an_address_are_read_from_their_escapes_and_written_with_them() {
    for (text, name, port, shown) in [
        ("postgres://ann@%2Frun%2Fpg:5433/app", "/run/pg", Some(5433), "postgres://ann@%2Frun%2Fpg:5433/app"),
        ("redis://%2Frun%2Fa%20b%3A%2C%25.sock", "/run/a b:,%.sock", None, "redis://%2Frun%2Fa%20b%3A%2C%25.sock"),
        ("zk://[fe80::1%25lo]:1", "fe80::1%lo", Some(1), "zk://[fe80::1%25lo]:1"),
        ("zk://[fe80::1%lo]", "fe80::1%lo", None, "zk://[fe80::1%25lo]"),
        ("zk://[fe80::1%25]", "fe80::1%25", None, "zk://[fe80::1%2525]"),
    ] {
        let url = url(text);
        let [host] = url.hosts() else { panic!("{text}") };
        assert_eq!((host.name.as_str(), host.port, host.is_socket()), (name, port, name.starts_with('/')), "{text}");
        assert_eq!((url.to_string().as_str(), ServiceUrl::parse(shown).unwrap()), (shown, url.clone()));
    }
}

#[test]
fn paths_of_this_machine_are_taken_as_they_are() {
    assert_eq!(url("file:./x/../y").path(), "./x/../y");
    assert_eq!(url("file:/var/lib/x").path(), "/var/lib/x");
    assert_eq!(url("file:///var/lib/x").path(), "/var/lib/x");
    assert_eq!(url("file:/a%20b%3Fc%25").path(), "/a b?c%");
    assert_eq!(url("memory:").path(), "");
}

#[test]
fn a_password_is_read_and_never_shown() {
    let url = url("postgres://ann:s%40crt@db:5432/app");
    assert_eq!((url.user(), url.password()), (Some("ann"), Some("s@crt")));
    for shown in [url.to_string(), format!("{url:?}")] {
        assert!(!shown.contains("crt"), "{shown}");
    }
}

#[test]
fn a_password_with_marks_that_end_the_hosts_is_refused_and_nothing_of_it_is_quoted() {
    for text in [
        "zk://ann:1234/Sc0tt@h",
        "zk://ann:1234?Sc0tt@h",
        "zk://ann:1234/Sc0tt?x=y@h",
        "zk://ann:1234?Sc0tt=1&Sc0tt=2@h",
        "zk+tls://ann:1234/Sc0tt@h:port/x",
        "zk://ann:1234/Sc0tt@h;h2 h3",
        "zk://ann:12%34/Sc0tt@h",
        "zk://ann:1234@h1,bob:Sc0tt@h2",
        "zk://h1,ann:1234@h2",
        "zk://h1:2181,ann:1234@h2",
        "zk://ann:12@34@h",
        "zk://ann:12,34@h",
    ] {
        let error = ServiceUrl::parse(text).expect_err(text).to_string();
        assert!(error.contains("%40"), "{text}: {error}");
        for part in ["ann", "1234", "Sc0tt"] {
            assert!(!error.contains(part), "{text}: {error}");
        }
    }
    let url = url("zk://ann:1234%2FSc0tt%40h@h/a%40b?base=/x%40y");
    assert_eq!((url.password(), url.path(), url.query("base")), (Some("1234/Sc0tt@h"), "/a@b", Some("/x@y")));
    assert_eq!(url.to_string(), "zk://ann:***@h/a%40b?base=/x%40y");
}

#[test]
fn credentials_given_apart_from_the_url_need_no_escapes_and_are_not_shown_either() {
    let url = url("zk://h1,h2/app").with_user("a@b:c/d,e").with_password("1234/Sc0tt?@h");
    assert_eq!((url.user(), url.password()), (Some("a@b:c/d,e"), Some("1234/Sc0tt?@h")));
    assert_eq!(url.to_string(), "zk://a%40b%3Ac%2Fd%2Ce:***@h1,h2/app");
    assert_eq!(ServiceUrl::parse(&url.to_string()).unwrap().user(), Some("a@b:c/d,e"));
}

#[test]
fn an_at_sign_is_an_ordinary_character_in_a_path_of_this_machine() {
    for text in ["file:/srv/ann@example/x,y", "file:///srv/a@b,c", "file:locks@home"] {
        assert!(url(text).path().contains('@'), "{text}");
    }
    assert_eq!(url("file:/srv/ann@example/x,y").to_string(), "file:/srv/ann@example/x,y");
}

#[test]
fn what_is_wrong_is_named() {
    for (text, word) in [
        ("", "scheme"),
        ("nonsense", "scheme"),
        ("/var/lib/locks", "scheme"),
        ("zk://h1:port/", "port"),
        ("zk://h1:0/", "port"),
        ("zk://h1,,h2/", "empty host"),
        ("zk://::1/", "brackets"),
        ("zk://[::1/", "]"),
        ("zk://h1, h2", "blank"),
        ("zk://h1:2181 ,h2:2181", "blank"),
        ("zk://h1\u{a0}h2", "blank"),
        ("zk://h1;h2", "`;`"),
        ("zk://h1:2181;h2:2181/app", "`;`"),
        ("zk://h1/app,h2/app", "`,` in its path"),
        ("http://h1:2379,http://h2:2379,http://h3:2379", "two schemes"),
        ("redis://a%2Fb", "`a%2Fb` is not a host"),
        ("redis://%2Frun%00", "is not a host"),
        ("file:x?a", "key=value"),
        ("file:x?a=1&a=2", "twice"),
        ("file:100%", "%25"),
        ("file:100%+5", "%25"),
        ("file:a\nb", "control"),
    ] {
        let error = ServiceUrl::parse(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidUrl);
        assert!(error.to_string().contains(word), "{text}: {error}");
    }
}

#[test]
fn a_path_with_marks_of_a_url_is_shown_so_that_it_is_read_back() {
    let url = ServiceUrl::of_path("file", "/a?b&c%20d");
    assert_eq!(url.to_string(), "file:/a%3Fb%26c%2520d");
    assert_eq!(ServiceUrl::parse(&url.to_string()).unwrap(), url);
}

#[test]
fn a_path_that_begins_with_two_slashes_or_has_a_control_character_is_read_back() {
    for (text, path) in [("file:////srv/x", "//srv/x"), ("file:/a%0Ab", "/a\nb"), ("zk://h1/a%C2%85", "/a\u{85}")] {
        let url = url(text);
        assert_eq!((url.path(), url.to_string().as_str()), (path, text));
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,80}") {
        let _ = ServiceUrl::parse(&text);
        let _ = ServiceUrl::parse(&format!("zk://{text}"));
    }

    #[test]
    fn every_url_without_a_password_is_shown_so_that_it_is_read_back(
        text in "(file|zk):(//([a-c]{0,2}:?@)?(h[1-3](:[1-9])?(,h)?)?)?(/|/a|//b|%2F|%0A|%3F|%25|%40|,|@|a){0,4}\
                 (\\?k=(%26|%0A|%25|=|@|a){0,3})?"
    ) {
        if let Some(url) = ServiceUrl::parse(&text).ok().filter(|url| url.password().is_none()) {
            prop_assert_eq!(ServiceUrl::parse(&url.to_string()).unwrap(), url);
        }
    }
}

#[test]
fn a_length_of_time_is_read_with_its_unit_and_is_never_zero() {
    let url = url("zk://h?session_timeout=20s&tick=0s&connect_timeout=5");
    assert_eq!(url.duration("session_timeout").unwrap(), Some(Duration::from_secs(20)));
    assert_eq!(url.duration("operation_timeout").unwrap(), None);
    for key in ["tick", "connect_timeout"] {
        let error = url.duration(key).unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains(key)), (ErrorKind::InvalidUrl, true), "{error}");
    }
}
