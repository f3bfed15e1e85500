//! Tests of the rule that says which requests may carry orders.

use super::*;

fn caller(peer: &str, host: &str, origin: Option<&str>, more: &[(&'static str, &str)]) -> RequestOrigin {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, host.parse().unwrap());
    if let Some(origin) = origin {
        headers.insert(ORIGIN, origin.parse().unwrap());
    }
    for (name, value) in more {
        headers.append(*name, value.parse().unwrap());
    }
    RequestOrigin::new(Peer(peer.parse().unwrap()), &headers)
}

#[test]
fn a_public_url_is_one_of_http_with_a_host_and_at_most_a_path() {
    for (text, origin, path) in [
        ("https://locks.example.org", "https://locks.example.org", "/"),
        ("https://locks.example.org:8443/ops/locks/", "https://locks.example.org:8443", "/ops/locks/"),
        ("http://10.0.0.7:80/x", "http://10.0.0.7", "/x/"),
        ("https://[fd00::1]/x", "https://[fd00::1]", "/x/"),
    ] {
        let public = PublicUrl::parse(text).unwrap();
        assert_eq!((public.origin().as_str(), public.path()), (origin, path), "{text}");
    }
    for text in
        ["", "locks.example.org", "ftp://h", "https://", "https:///x", "https://h:x", "https://h/a?b", "https://h/a;b"]
    {
        assert!(PublicUrl::parse(text).is_err(), "{text}");
    }
}

#[test]
fn orders_come_over_loopback_or_to_the_public_host() {
    let public = PublicUrl::parse("https://locks.example.org/x").unwrap();
    for (peer, host, without, with) in [
        ("127.0.0.1", "127.0.0.1:9142", true, true),
        ("127.0.0.1", "localhost:9142", true, true),
        ("::1", "[::1]:9142", true, true),
        ("127.0.0.1", "10.0.0.7:9142", false, false),
        ("10.0.0.9", "10.0.0.7:9142", false, false),
        ("10.0.0.9", "127.0.0.1:9142", false, false),
        ("10.0.0.9", "locks.example.org", false, false),
        ("127.0.0.1", "evil.example", false, false),
        ("127.0.0.1", "", false, false),
    ] {
        let caller = caller(peer, host, None, &[]);
        assert_eq!(caller.require_way(None).is_ok(), without, "{peer} {host}");
        assert_eq!(caller.require_way(Some(&public)).is_ok(), with, "{peer} {host}");
    }
}

#[test]
fn a_proxy_passes_the_public_host_on_and_says_that_it_was_asked_over_tls() {
    let tls: &[_] = &[("x-forwarded-proto", "https")];
    let plain = PublicUrl::parse("https://locks.example.org/x").unwrap();
    let with_port = PublicUrl::parse("https://locks.example.org:8443").unwrap();
    let near = "127.0.0.1:9142";
    for (public, host, more, is_way) in [
        (Some(&plain), "locks.example.org", tls, true),
        (Some(&plain), "LOCKS.example.org:443", tls, true),
        (Some(&plain), "locks.example.org", &[], false),
        (Some(&plain), "locks.example.org:9142", tls, false),
        (Some(&plain), "locks.example.org", &[("x-forwarded-proto", "http")], false),
        // The nearest proxy has the last word.
        (Some(&plain), "locks.example.org", &[("x-forwarded-proto", "https, http")], false),
        (Some(&plain), "locks.example.org", &[("x-forwarded-proto", "https"), ("x-forwarded-proto", "http")], false),
        (Some(&plain), "locks.example.org", &[("x-forwarded-proto", "http, HTTPS")], true),
        (Some(&with_port), "locks.example.org:8443", tls, true),
        (Some(&with_port), "locks.example.org", tls, true),
        // One that writes its own `Host`.
        (Some(&plain), near, tls, true),
        (Some(&plain), near, &[("x-forwarded-for", "10.0.0.7")], false),
        (None, near, &[("x-forwarded-for", "10.0.0.7")], false),
        (None, near, &[("forwarded", "for=10.0.0.7;proto=https")], false),
        (None, near, tls, false),
        (None, near, &[], true),
    ] {
        for peer in ["127.0.0.1", "10.0.0.9"] {
            let is_way = is_way && (peer == "127.0.0.1" || host != near);
            let refused = caller(peer, host, None, more).require_way(public).err();
            assert_eq!(refused.is_none(), is_way, "{peer} {host} {more:?}: {refused:?}");
        }
    }
    let refused = caller("10.0.0.9", "locks.example.org", None, &[]).require_way(Some(&plain)).unwrap_err();
    assert!(refused.text.contains("`X-Forwarded-Proto: https`"), "{refused:?}");
}

#[test]
fn a_browser_orders_from_our_own_page_alone() {
    let public = PublicUrl::parse("https://locks.example.org/x").unwrap();
    let ours = "127.0.0.1:9142";
    for (peer, host, origin, is_ours) in [
        ("127.0.0.1", ours, Some("http://127.0.0.1:9142"), true),
        ("127.0.0.1", "localhost:9142", Some("http://localhost:9142"), true),
        ("127.0.0.1", "localhost:9142", Some("http://127.0.0.1:9142"), false),
        ("127.0.0.1", ours, Some("http://127.0.0.1:8000"), false),
        ("127.0.0.1", ours, Some("https://127.0.0.1:9142"), false),
        ("127.0.0.1", ours, Some("null"), false),
        ("127.0.0.1", ours, None, false),
        ("127.0.0.1", "locks.example.org", Some("https://locks.example.org"), true),
        // A proxy that writes its own `Host`.
        ("127.0.0.1", ours, Some("https://locks.example.org"), true),
        ("127.0.0.1", "locks.example.org", Some("http://locks.example.org"), false),
        ("10.0.0.9", "10.0.0.7:9142", Some("http://10.0.0.7:9142"), false),
        ("127.0.0.1", "evil.example", Some("http://evil.example"), false),
    ] {
        let caller = caller(peer, host, origin, &[]);
        assert_eq!(caller.require_origin(Some(&public), true).is_ok(), is_ours, "{peer} {host} {origin:?}");
        let of_program = origin.is_none() || is_ours;
        assert_eq!(caller.require_origin(Some(&public), false).is_ok(), of_program, "{peer} {host} {origin:?}");
    }
}

#[test]
fn a_cookie_is_found_by_its_whole_name_and_a_proxy_says_for_whom_it_asks() {
    let mut headers = HeaderMap::new();
    headers.append(COOKIE, "a=1; lockkeeper-9142=x=y;b=2".parse().unwrap());
    headers.append("x-forwarded-for", "spoofed".parse().unwrap());
    headers.append("x-forwarded-for", "spoofed, 10.0.0.7".parse().unwrap());
    let caller = RequestOrigin::new(Peer("127.0.0.1".parse().unwrap()), &headers);
    assert_eq!((caller.cookie("lockkeeper-9142"), caller.cookie("lockkeeper-914")), (Some("x=y"), None));
    assert_eq!(caller.name(), "127.0.0.1, which asks for 10.0.0.7");
}
