//! Tests of URLs: which are taken, and what is said of the others.

use lockkeeper_core::ErrorKind;

use super::*;

fn config(url: &str) -> Result<Config> {
    Config::from_url(&url.parse()?)
}

fn server(name: &str, port: u16) -> Server {
    Server::new(name, port)
}

#[test]
fn a_url_without_settings_has_the_defaults() {
    let config = config("redis://h1").unwrap();
    assert_eq!(config.address, Address::Servers(vec![server("h1", 6379)]));
    assert_eq!((config.base.as_str(), config.replicas), ("lockkeeper", 0));
    assert_eq!((config.clock_guard, config.naming), (ClockGuard::Guarded, KeyScheme::Ours));
    assert!(config.access.credentials.is_none() && config.access.database == 0 && !config.access.is_secured);
}

#[test]
fn every_setting_is_read() {
    let url = "redis://ann:s%3Acret@h1:1,[::1]:2/3?base=app&session_timeout=2500ms&replicas=2&clock=trust&layout=setnx";
    let config = config(url).unwrap();
    assert_eq!(config.address, Address::Servers(vec![server("h1", 1), server("::1", 2)]));
    assert_eq!((config.base.as_str(), config.session_timeout), ("app", Duration::from_millis(2_500)));
    assert_eq!((config.replicas, config.clock_guard, config.naming), (2, ClockGuard::Trusting, KeyScheme::Setnx));
    assert_eq!(config.access.database, 3);
    let credentials = config.access.credentials.clone().unwrap();
    assert_eq!((credentials.user.as_deref(), credentials.password.as_str()), (Some("ann"), "s:cret"));
    assert!(!format!("{config:?}").contains("cret"));
}

#[test]
fn a_password_alone_is_that_of_the_default_user_and_a_user_alone_has_none() {
    let credentials = |url| config(url).unwrap().access.credentials.map(|given| (given.user, given.password));
    assert_eq!(credentials("redis://:secret@h1"), Some((None, "secret".to_owned())));
    assert_eq!(credentials("redis://ann@h1"), Some((Some("ann".to_owned()), String::new())));
}

#[test]
fn sentinels_are_asked_for_a_master_by_its_name() {
    let config = config("redis+sentinel://h1,h2:5000/orders/2").unwrap();
    let sentinels = vec![server("h1", SENTINEL_PORT_DEFAULT), server("h2", 5000)];
    assert_eq!(config.address, Address::Sentinels { sentinels, master: "orders".to_owned() });
    assert_eq!(config.access.database, 2);
}

#[test]
fn sentinels_may_know_us_otherwise_than_the_master_does_and_speak_tls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "other\n").unwrap();
    let query = format!("sentinel_user=sam&sentinel_password_file={}", file.display());
    let access = config(&format!("redis+sentinel://ann:secret@h1/orders?{query}")).unwrap().access;
    let shown = |given: Option<RedisCredentials>| given.map(|given| (given.user.unwrap_or_default(), given.password));
    assert_eq!(shown(access.of_sentinels), Some(("sam".to_owned(), "other".to_owned())));
    assert_eq!(shown(access.credentials), Some(("ann".to_owned(), "secret".to_owned())));
    assert!(config("redis+sentinel://h1/orders").unwrap().access.of_sentinels.is_none());
    let missing = config("redis+sentinel://h1/orders?sentinel_password_file=/no/such").unwrap_err();
    assert!(missing.kind() == ErrorKind::InvalidConfig && missing.to_string().contains("/no/such"), "{missing}");
}

#[test]
fn what_is_wrong_is_named() {
    for (url, word) in [
        ("redis://h1?sentinel_user=ann", "are for `redis+sentinel:`"),
        ("redis:/0", "server"),
        ("redis+sentinel:/orders", "sentinel"),
        ("redis+sentinel://h1", "names the master"),
        ("redis+sentinel://h1/", "names the master"),
        ("redis+sentinel://h1/orders/x", "number of a database"),
        ("redis://h1/app", "`base`"),
        ("redis://h1/+1", "number of a database"),
        ("redis://h1/99999999999", "number of a database"),
        ("redis://h1?base=", "1 to 200 bytes"),
        ("redis://h1?base=a{b", "braces"),
        ("redis://h1?base=a%0Ab", r"not `a\nb`"),
    ] {
        let error = config(url).expect_err(url);
        assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
        let told = format!("{error:#}");
        assert!(told.contains(word) && !told.contains('\n'), "{url}: {told}");
    }
}
